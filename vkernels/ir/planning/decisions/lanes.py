"""The axis whose positions are along a vector register, or along neighbouring threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision

MAX_LANE_AXES = 3
"""Axes along the lanes that are tried."""


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    return (replace(choices, lanes=axis) for axis in space.lanes[:MAX_LANE_AXES] if axis != choices.lanes)


LANES = PlanDecision("lanes", "axis", alternatives=lambda space: [partial(_axes, space)])
