"""The order of programs: which tile axis is the slowest, which the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision

MAX_ORDERED_AXES = 3
"""Tile axes of which every order is tried; of more, none but the declared one."""


class Order(PlanDecision):
    """The tile axes from the slowest to the fastest program coordinate."""

    field = "order"
    subject = "tile axis"
    meaning = "the order of programs, slowest axis first"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_orders, space)] if 1 < len(space.tiles) <= MAX_ORDERED_AXES else []


def _orders(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    yield from (replace(choices, order=order) for order in permutations(space.tiles) if order != choices.order)
