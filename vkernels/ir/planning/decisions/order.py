"""The order of programs: the tile axes from the slowest to the fastest program coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations

from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision

MAX_ORDERED_AXES = 3
"""Tile axes of which every order is tried; of more, only the declared one."""


def _orders(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Other orders of the axes with several positions; where the rest are makes no difference."""
    several = tuple(axis for axis in choices.order if space.extents[axis] > 1)
    rest = tuple(axis for axis in choices.order if axis not in several)
    return (replace(choices, order=(*rest, *order)) for order in permutations(several) if order != several)


ORDER = PlanDecision(
    "order", "tile axis", "the order of programs, slowest axis first",
    lambda space: [partial(_orders, space)] if 1 < len(space.tiles) <= MAX_ORDERED_AXES else [],
    title="order of programs",
)  # fmt: skip
