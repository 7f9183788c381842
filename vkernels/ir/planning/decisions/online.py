"""The whole axis along which one loop computes a maximum and the sum of exp(x - maximum)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import StructuralChoices
from .decision import PlanDecision


def _toggle(axis: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if axis not in choices.held:
        yield replace(choices, online=() if axis in choices.online else (axis,))


ONLINE = PlanDecision(
    "online", "whole axis",
    "one pass finds a maximum and the sum that needs it: the sum is corrected when the maximum grows",
    lambda space: [partial(_toggle, axis) for axis in space.can_go_online],
    title="online axes", entry="online", names=lambda space: space.wholes, with_split=False,
)  # fmt: skip
