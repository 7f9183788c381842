"""Local search: to a better neighbour while there is one, then from a random point anew."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..space import Point, SearchSpace
from .search import Search, Trial


class LocalSearch(Search):
    """Climbs from the best seed, or a random point, to the first neighbour found that is better.

    Neighbours are tried in random order, those of the next value on either side first. Where none is better, or new, a
    random point is the next start.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = ()) -> None:
        super().__init__(space, seed=seed, seeds=seeds)
        self._at: Trial | None = None
        self._around: list[Point] = []

    def _propose(self, random: np.random.Generator) -> Point | None:
        return next((point for point in self._around if self.is_new(point)), None)

    def _learn(self, told: Trial) -> None:
        seeding = len(self.told) <= len(self._seeds)
        ended = not seeding and all(point in self._places for point in self._around)
        if self._at is None or self._at.seconds == float("inf") or ended or told.seconds < self._at.seconds:
            self._at = told
            self._around = self._shuffled(told.point)

    def _shuffled(self, point: Point) -> list[Point]:
        near, far = self.space.neighbours(point)
        random = np.random.default_rng([self.seed, len(self.told)])
        return [points[i] for points in (near, far) for i in random.permutation(len(points))]
