"""A whole axis that is split over several programs, with a step that combines their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Another axis over programs, or none. What is split decides on no homes, goes online nowhere, has no groups."""
    for axis in (None, *space.needs.splittable):
        if axis != choices.split and axis not in choices.held:
            changed = choices if axis is None else replace(choices, homes=(), online=(), swizzle=1)
            yield replace(changed, split=axis)


SPLITS = PlanDecision(
    "splits", "whole axis", alternatives=lambda space: [partial(_axes, space)],
    title="programs that share", entry="split",
)  # fmt: skip
