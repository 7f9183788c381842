"""How many programs along the second-fastest tile axis run before the fastest axis advances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...cost_model.plan_batch import Numbers, PlanBatch
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision

GROUPS = (1, 4, 8)
"""Programs of a group that are tried."""


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    return [partial(groups, space)] if space.limits.warp > 1 else []


def groups(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Other groups of programs. CPUs have some where operands are packed, whose panels all programs of a group read
    again from a cache; there they are tried last (`find_families.py`)."""
    several = [axis for axis in space.tiles if space.extents[axis] > 1]
    if len(several) > 1 and choices.split is None and (space.limits.warp > 1 or choices.packs):
        yield from (replace(choices, swizzle=group) for group in GROUPS if group != choices.swizzle)


def _have_several_programs(space: PlanSearchSpace, at: PlanBatch) -> Numbers:
    """Plans with several programs along both axes."""
    if at.choices.swizzle == 1 or space.pin.swizzle is not None:
        return True
    outer, inner = at.choices.order[-2:]
    return (at.trips(outer) > 1) & (at.trips(inner) > 1)


SWIZZLE = PlanDecision(
    "swizzle", "", "programs along the second-fastest tile axis that run before the fastest axis advances",
    _alternatives, title="programs of a group", plain=1,
    weight=3, with_split=False, worthwhile=_have_several_programs,
)  # fmt: skip
