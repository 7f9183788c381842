"""Genetic search: children of the best, a value from either parent, now and then another."""

from __future__ import annotations

import numpy as np

from ..space import Point, Value
from .search import Search

POPULATION = 20
"""The best of those told, of which two are parents; until there are as many, points are random."""
CONTESTANTS = 3
"""Of which the fastest becomes a parent."""
MAX_CHILD_TRIES = 50
"""Children that may be no new points of the space, one after another, before chance decides."""


class GeneticSearch(Search):
    """A steady state: each child takes part as soon as it is told."""

    def _propose(self, random: np.random.Generator) -> Point | None:
        if len(self.told) < POPULATION:
            return None
        best = sorted(self.told, key=lambda told: told.seconds)[:POPULATION]
        for _ in range(MAX_CHILD_TRIES):
            one, other = (best[int(random.integers(len(best), size=CONTESTANTS).min())].point for _ in range(2))
            child = tuple(self._value(random, column, pair) for column, pair in enumerate(zip(one, other, strict=True)))
            if child in self.space and self.is_new(child):
                return child
        return None

    def _value(self, random: np.random.Generator, column: int, pair: Point) -> Value:
        values = self.space.values[column]
        if random.random() * len(self.space.names) < 1:
            return values[int(random.integers(len(values)))]
        return pair[int(random.integers(2))]
