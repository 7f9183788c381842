"""A whole axis that is split over several programs, with a step that combines their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...cost_model.plan_batch import Numbers, PlanBatch
from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision

CORES_OF_SCANS = 3
"""Cores, or multiprocessors, from which on programs share a scan by a function of the author's own: they do
twice the work. Of sums and their like, the totals cost far less than the scan."""


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Another axis over programs, or none. A kernel with a split axis has all homes by default."""
    for axis in (None, *space.needs.splittable):
        if axis != choices.split and axis not in choices.held and _may_pay(space, axis):
            yield replace(choices, split=axis, homes=choices.homes if axis is None else ())


def _may_pay(space: PlanSearchSpace, axis: str | None) -> bool:
    """Whether there are cores enough for what sharing an axis adds; pins are kept anyhow."""
    is_free = axis is None or not space.needs.scanned.get(axis) or axis in space.pin.splits
    return is_free or space.limits.multiprocessors >= CORES_OF_SCANS


def _have_work(space: PlanSearchSpace, at: PlanBatch) -> Numbers:
    """Plans whose programs all have more than one chunk of the axis that they share."""
    axis = at.choices.split
    return axis is None or axis in space.pin.splits or at.shares * at.size(axis) < at.extents[axis]


SPLITS = PlanDecision(
    "splits", "whole axis", alternatives=lambda space: [partial(_axes, space)],
    title="programs that share", entry="split", weight=2, worthwhile=_have_work,
)  # fmt: skip
