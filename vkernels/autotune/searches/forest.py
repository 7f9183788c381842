"""The default search: a tree ensemble learns how long points take, and says which are worth measuring."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..space import Point, SearchSpace
from .children import children
from .search import Search, Trial
from .surrogate import Surrogate

START = 8
"""Random points that are told before the trees are asked, seeds not counted."""
EXPLORE = 8
"""Of as many points one is random, whatever the trees say: they may be wrong about a part that they never saw."""
BURST, SHARE = 4, 16
"""Points that follow the seeds at once, and then of how many one does."""
ELITE = 6
"""Points whose children are candidates."""
CANDIDATES = 200
"""Children, and as many random points, among which the trees choose."""
TIE = 1e-2
"""Weight of all trees where one of them is asked, so that what it finds the same is chosen by the others."""


class ForestSearch(Search):
    """Seeds and points near them, then a search of its own, which the seeds do not lead, and now and then they again.

    The search of its own begins with random points. Then every other point refines: it is the child of the best points
    with the least time by the trees' mean, less their spread. The points between are the best of children and random
    points by one tree, taken by chance, so that what the trees disagree about is looked at. One of `EXPLORE` points is
    random. Refinement has no phase of its own: the search is to be good after any number of points.

    What follows the seeds is refined with all that was told; the other search knows only what it asked for itself, for
    many good seeds of one valley hide all others from the trees.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = ()) -> None:
        super().__init__(space, seed=seed, seeds=seeds)
        self._own: list[Trial] = []
        self._learnt_alone = Surrogate(space, seed)
        self._learnt = Surrogate(space, seed) if self._seeds else self._learnt_alone

    def _propose(self, random: np.random.Generator) -> Point | None:
        turn = len(self.told) + len(self._pending)
        follow = self._follows(turn)
        told, surrogate = (self.told, self._learnt) if follow else (self._own, self._learnt_alone)
        if not follow and (len(told) < START or turn % EXPLORE == 2):
            return None
        if not any(isinstance(each.outcome, float) for each in told):
            return None
        refine = follow or turn % 2 == 1
        best = [each.point for each in sorted(told, key=lambda each: each.seconds)[:ELITE]]
        candidates = self._new(children(self.space, best, CANDIDATES, random))
        if not refine:
            candidates += self._new(self.space.sample(random) for _ in range(CANDIDATES))
        if not candidates:
            return None
        predicted = surrogate.predict(told, candidates)
        mean, spread = predicted.mean(0), predicted.std(0)
        liked = mean - spread if refine else predicted[int(random.integers(len(predicted)))] + TIE * mean
        return candidates[int(np.argmin(liked))]

    def _learn(self, told: Trial) -> None:
        place = len(self.told) - 1
        if place >= len(self._seeds) and not self._follows(place):
            self._own.append(told)

    def _follows(self, turn: int) -> bool:
        """Whether the point of this turn is one that follows the seeds."""
        after = turn - len(self._seeds)
        return bool(self._seeds) and after >= 0 and (after < BURST or turn % SHARE == 0)

    def _new(self, points: Iterable[Point | None]) -> list[Point]:
        return [point for point in dict.fromkeys(points) if point is not None and self.is_new(point)]
