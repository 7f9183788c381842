"""A whole axis that several programs share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision


class Splits(PlanDecision):
    """The whole axis that is split over programs, with a step that combines their results."""

    field = "splits"
    subject = "whole axis"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_axes, space)]


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Another axis over programs, or none. What is split decides on no homes, and computes nothing online."""
    for axis in (None, *space.needs.splittable):
        if axis != choices.split and axis not in choices.held:
            yield replace(choices, split=axis) if axis is None else replace(choices, split=axis, homes=(), online=())
