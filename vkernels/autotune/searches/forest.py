"""The default search: an ensemble of trees predicts the time of each point, and selects the next one to measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..space import Point, SearchSpace, Value
from .elsewhere import TimesElsewhere
from .search import Outcome, Search, Trial
from .trees import Surrogate

START = 8
"""Random points that are measured before the first prediction, besides the seeds."""
EXPLORE = 8
"""One of this many points is random: the trees may be wrong about a region without data."""
DESCENT, SHARE = 8, 16
"""Points derived from the seeds: this many right after them, which descend from the best point, then one of so many."""
PATIENT, ALONE = 12, 2
"""After this many points without a better one, all but one of so many turns are of the independent search."""
ELITE = 6
"""Parents of the candidate children."""
CANDIDATES = 200
"""Number of children, and of random points, from which the trees choose."""
TIE = 1e-2
"""Weight of the mean of all trees where one tree decides, to break its ties."""
MAX_CHANGED = 3
FAMILIAR = 2000
"""Points that other devices found fast, from which the trees choose, too."""


class ForestSearch(Search):
    """Seeds and points near them, mixed with an independent model-guided search.

    The independent search begins with random points. Then every other point refines: it is the child of the best points
    with the least predicted mean minus spread. The points between are the best of children and random points by one
    randomly selected tree, so that regions where the trees disagree get measured. One of `EXPLORE` points is random.
    There is no separate refinement stage, because the search should be good after any number of points.

    After the seeds the search descends: it takes the neighbour of the best point with the least predicted mean.

    Points derived from the seeds use all measurements. The independent search uses only its own, because many good
    seeds from one valley would hide all others from the trees.

    Where times on other devices are known, the trees see them beside each point, and learn what they are worth here:
    there is one search, which uses all measurements. Once it has won nothing for a while, it shares the turns with the
    independent search and the descent; each of them alternates by turns of its own.
    """

    def __init__(
        self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = (),
        elsewhere: Sequence[Mapping[Point, Outcome]] = (),
    ) -> None:  # fmt: skip
        super().__init__(space, seed=seed, seeds=seeds)
        self._own: list[Trial] = []
        self._own_surrogate = Surrogate(space.encode, seed)
        self._surrogate = Surrogate(space.encode, seed) if self._seeds else self._own_surrogate
        self._elsewhere = TimesElsewhere(space, elsewhere, seed) if elsewhere else None
        self._taught = Surrogate(self._elsewhere.rows if self._elsewhere else space.encode, seed)

    def _propose(self, random: np.random.Generator) -> Point | None:
        turn = len(self.told) + len(self._pending)
        if self._descends(turn) and (near := self._new(self._neighbours_of_best())):
            surrogate = self._taught if self._elsewhere else self._surrogate
            return near[int(np.argmin(surrogate.predict(self.told, near).mean(0)))]
        if self._elsewhere and not self._is_stuck(turn):
            return self._propose_as_elsewhere(self._elsewhere, random)
        follow = not self._elsewhere and self._follows(turn)
        told, surrogate = (self.told, self._surrogate) if follow else (self._own, self._own_surrogate)
        own_turn = len(self._own) + len(self._pending)
        if not follow and (len(told) < START or own_turn % EXPLORE == 2):
            return None
        if not any(isinstance(each.outcome, float) for each in told):
            return None
        refine = follow or own_turn % 2 == 1
        best = [each.point for each in sorted(told, key=lambda each: each.seconds)[:ELITE]]
        candidates = self._new(children(self.space, best, CANDIDATES, random))
        if not refine:
            candidates += self._new(self.space.sample(random) for _ in range(CANDIDATES))
        if not candidates:
            return None
        predicted = surrogate.predict(told, candidates)
        mean, spread = predicted.mean(0), predicted.std(0)
        score = mean - spread if refine else predicted[int(random.integers(len(predicted)))] + TIE * mean
        return candidates[int(np.argmin(score))]

    def _propose_as_elsewhere(self, elsewhere: TimesElsewhere, random: np.random.Generator) -> Point | None:
        """The point with the least predicted mean minus spread, or every other time by one tree.

        Without a gain for a while, every fourth point goes on with the descent from the best one.
        """
        turn = len(self.told) + len(self._pending)
        is_shared, cycle = self._is_without_gain(), 2 * ALONE
        if is_shared and turn % cycle == ALONE and (around := self._new(self._neighbours_of_best())):
            return around[int(np.argmin(self._taught.predict(self.told, around).mean(0)))]
        if not any(isinstance(each.outcome, float) for each in self.told):
            return next(filter(self.is_new, elsewhere.points), None)
        best = [each.point for each in sorted(self.told, key=lambda each: each.seconds)[:ELITE]]
        familiar = [point for point in elsewhere.points if self.is_new(point)][:FAMILIAR]
        near = children(self.space, best, CANDIDATES, random)
        candidates = self._new([*familiar, *near, *(self.space.sample(random) for _ in range(CANDIDATES))])
        if not candidates:
            return None
        predicted = self._taught.predict(self.told, candidates)
        mean, spread = predicted.mean(0), predicted.std(0)
        one = predicted[int(random.integers(len(predicted)))] + TIE * mean
        refine = (turn // cycle if is_shared else turn) % 2 == 1
        return candidates[int(np.argmin(mean - spread if refine else one))]

    def _is_stuck(self, turn: int) -> bool:
        """Whether a turn is one of the independent search: what other devices teach has won nothing for a while."""
        return not self._descends(turn) and self._is_without_gain() and turn % ALONE != 0

    def _is_without_gain(self) -> bool:
        return len(self.told) - next((n for n, each in enumerate(self.told) if each is self.best), 0) > PATIENT

    def _learn(self, told: Trial) -> None:
        turn = len(self.told) - 1
        alone = self._is_stuck(turn) if self._elsewhere else not self._follows(turn)
        if turn >= len(self._seeds) and alone:
            self._own.append(told)

    def _follows(self, turn: int) -> bool:
        # Whether the point of this turn is derived from the seeds.
        return self._descends(turn) or (bool(self._seeds) and turn >= len(self._seeds) and turn % SHARE == 0)

    def _descends(self, turn: int) -> bool:
        return bool(self._seeds) and 0 <= turn - len(self._seeds) < DESCENT

    def _neighbours_of_best(self) -> list[Point]:
        """Points one value away from the best one; none before a point has a time."""
        return [] if self.best is None else [point for side in self.space.neighbours(self.best.point) for point in side]

    def _new(self, points: Iterable[Point | None]) -> list[Point]:
        return [point for point in dict.fromkeys(points) if point is not None and self.is_new(point)]


def children(space: SearchSpace, parents: Sequence[Point], count: int, random: np.random.Generator) -> Iterator[Point]:
    """Points of the space near `parents`: those of `count` attempts that are in the space.

    Half of the attempts take each value from either of two parents. Then one to three values are drawn at random.
    """
    width = len(space.names)
    if not width:
        return
    pairs = random.integers(len(parents), size=(count, 2))
    mixed = random.random((count, width)) < 0.5 * (random.random((count, 1)) < 0.5)
    numbers = random.integers(1, MAX_CHANGED + 1, size=count)
    columns = random.integers(width, size=(count, MAX_CHANGED))
    drawn = random.random((count, MAX_CHANGED))
    for each in range(count):
        one, other = (parents[at] for at in pairs[each])
        child: list[Value] = [b if take else a for a, b, take in zip(one, other, mixed[each], strict=True)]
        for column, at in zip(columns[each, : numbers[each]], drawn[each], strict=False):
            values = space.values[column]
            child[column] = values[int(at * len(values))]
        if (point := tuple(child)) in space:
            yield point
