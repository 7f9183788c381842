"""Whole axes whose loop of a dot is divided among warps by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ...analysis.warp_roles import GROUP_WARPS, has_groups, why_not_divided
from ...cost_model.plan_batch import Numbers, PlanBatch
from ...warp_roles import ROLE_WARPS
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision
from .descriptors import operands_to_describe


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    """The one loop of a kernel with one dot, together with the descriptors that it needs.

    Not on sm_90 by itself: Triton divides loops for it, too, but documents only later devices.
    """
    operands = operands_to_describe(space) if space.limits.tensor_memory else ()
    axes = [axis for axis in space.wholes if operands and why_not_divided(space.kernel, axis, operands) is None]
    return [partial(_toggle, axis, operands) for axis in axes]


def _toggle(axis: str, operands: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if choices.warp_specialized:
        yield replace(choices, warp_specialized=())
    elif axis not in choices.held and not choices.homes and not choices.launches:
        yield replace(choices, warp_specialized=(axis,), descriptors=operands)


def _have_roles(space: PlanSearchSpace, at: PlanBatch) -> Numbers:
    """Plans whose warps Triton gives roles: those of whole tiles and chunks, with as many warps as it takes."""
    choices = at.choices
    if not choices.warp_specialized:
        return True
    if choices.homes or choices.launches or choices.held.intersection(choices.warp_specialized):
        return False
    able = np.isin(at.warps, GROUP_WARPS if has_groups(space.limits) else ROLE_WARPS)
    for axis in (*choices.order, *choices.warp_specialized):
        able = able & (at.extents[axis] % np.maximum(1, at.size(axis)) == 0)
    return able & (np.asarray(at.stages) > 1)


WARP_SPECIALIZED = PlanDecision(
    "warp_specialized", "whole axis",
    "its loop of a dot is divided: some warps move operands by descriptors, the others multiply",
    _alternatives, title="axes with warp roles", entry="axis with warp roles", gpu_only=True,
    names=lambda space: space.wholes, weight=1, with_split=False, worthwhile=_have_roles,
)  # fmt: skip
