"""A maximum and the sum of exponentials below it, in one loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision


class Online(PlanDecision):
    """The whole axis along which a maximum and a sum of exp(x - maximum) are computed in one loop."""

    field = "online"
    subject = "whole axis"
    meaning = "one pass finds a maximum and the sum that needs it: the sum is corrected when the maximum grows"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_toggle, axis) for axis in space.can_go_online]


def _toggle(axis: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if axis not in choices.held and choices.split is None:
        yield replace(choices, online=() if axis in choices.online else (axis,))
