"""The axis whose positions lie along lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision

MAX_LANE_AXES = 3
"""Axes along the lanes that are tried."""


class Lanes(PlanDecision):
    """The axis that lies along a vector register, or along neighbouring threads."""

    field = "lanes"
    subject = "axis"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_axes, space)]


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    yield from (replace(choices, lanes=axis) for axis in space.lanes[:MAX_LANE_AXES] if axis != choices.lanes)
