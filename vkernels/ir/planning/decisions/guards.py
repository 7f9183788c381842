"""The whole axes of which each chunk is tested for whether a mask lets anything of it through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import StructuralChoices
from .decision import PlanDecision


def _toggle(axis: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if axis not in choices.held:
        others = tuple(name for name in choices.guards if name != axis)
        yield replace(choices, guards=others if axis in choices.guards else (*others, axis))


GUARDS = PlanDecision(
    "guards", "whole axis",
    "each chunk is tested, and left out where a mask lets nothing of it through",
    lambda space: [partial(_toggle, axis) for axis in space.guardable],
    title="guarded axes", entry="guard", names=lambda space: space.wholes, weight=3,
)  # fmt: skip
