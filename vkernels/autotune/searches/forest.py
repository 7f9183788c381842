"""The default search: an ensemble of trees predicts the time of each point, and selects the next one to measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..space import Point, SearchSpace, Value
from .search import Search, Trial

if TYPE_CHECKING:
    from sklearn.tree import ExtraTreeRegressor

START = 8
"""Random points that are measured before the first prediction, besides the seeds."""
EXPLORE = 8
"""One of this many points is random: the trees may be wrong about a region without data."""
BURST, SHARE = 4, 16
"""Points derived from the seeds: this many right after them, then one of so many."""
ELITE = 6
"""Parents of the candidate children."""
CANDIDATES = 200
"""Number of children, and of random points, from which the trees choose."""
TIE = 1e-2
"""Weight of the mean of all trees where one tree decides, to break its ties."""
MAX_CHANGED = 3
GROUPS = 6
"""Parts of the ensemble. One is refitted after each measurement, so that a step costs only one part's time."""
TREES = 5
YOUNG = 16
"""With fewer measurements than this, all groups are refitted at every step."""
DISTINGUISHED = 0.5
"""Share of the measurements, the fastest, that trees tell apart: all slower ones count as equally slow.

Times of slow points differ most, and the trees would spend their branches on them.
"""


class ForestSearch(Search):
    """Seeds and points near them, mixed with an independent model-guided search.

    The independent search begins with random points. Then every other point refines: it is the child of the best points
    with the least predicted mean minus spread. The points between are the best of children and random points by one
    randomly selected tree, so that regions where the trees disagree get measured. One of `EXPLORE` points is random.
    There is no separate refinement stage, because the search should be good after any number of points.

    Points derived from the seeds use all measurements. The independent search uses only its own, because many good
    seeds from one valley would hide all others from the trees.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = ()) -> None:
        super().__init__(space, seed=seed, seeds=seeds)
        self._own: list[Trial] = []
        self._own_surrogate = Surrogate(space, seed)
        self._surrogate = Surrogate(space, seed) if self._seeds else self._own_surrogate

    def _propose(self, random: np.random.Generator) -> Point | None:
        turn = len(self.told) + len(self._pending)
        follow = self._follows(turn)
        told, surrogate = (self.told, self._surrogate) if follow else (self._own, self._own_surrogate)
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
        score = mean - spread if refine else predicted[int(random.integers(len(predicted)))] + TIE * mean
        return candidates[int(np.argmin(score))]

    def _learn(self, told: Trial) -> None:
        turn = len(self.told) - 1
        if turn >= len(self._seeds) and not self._follows(turn):
            self._own.append(told)

    def _follows(self, turn: int) -> bool:
        # Whether the point of this turn is derived from the seeds.
        after = turn - len(self._seeds)
        return bool(self._seeds) and after >= 0 and (after < BURST or turn % SHARE == 0)

    def _new(self, points: Iterable[Point | None]) -> list[Point]:
        return [point for point in dict.fromkeys(points) if point is not None and self.is_new(point)]


class Surrogate:
    """Trees that predict the logarithm of the seconds of the faster half; slower and failed points are all alike.

    The number of measurements determines which of them a group has seen, so predictions depend only on the data.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._rows: list[npt.NDArray[np.float32]] = []
        self._groups: list[tuple[int, list[ExtraTreeRegressor]]] = [(0, [])] * GROUPS

    def predict(self, told: Sequence[Trial], points: Sequence[Point]) -> npt.NDArray[np.float64]:
        """Logarithms of seconds, trees × points. At least one trial must have a time."""
        self._fit(told)
        rows = self._space.encode(points)
        return np.stack([tree.tree_.predict(rows)[:, 0] for _, trees in self._groups for tree in trees])

    def _fit(self, told: Sequence[Trial]) -> None:
        self._rows += list(self._space.encode([each.point for each in told[len(self._rows) :]]))
        rows, seconds = np.array(self._rows), np.array([each.seconds for each in told])
        count = len(told)
        for group, (fitted, _) in enumerate(self._groups):
            until = count if count < YOUNG else count - (count - group) % GROUPS
            if until != fitted:
                self._groups[group] = until, self._grown(group, rows[:until], seconds[:until])

    def _grown(
        self, group: int, rows: npt.NDArray[np.float32], seconds: npt.NDArray[np.float64]
    ) -> list[ExtraTreeRegressor]:
        from sklearn import config_context
        from sklearn.tree import ExtraTreeRegressor

        right = np.isfinite(seconds)
        slow = np.quantile(seconds[right], DISTINGUISHED) if right.any() else 1.0
        goal = np.log(np.minimum(seconds, slow)).reshape(-1, 1)
        seeds = np.random.default_rng([self._seed, group]).integers(2**31, size=TREES)
        with config_context(skip_parameter_validation=True):
            return [ExtraTreeRegressor(random_state=int(seed)).fit(rows, goal, check_input=False) for seed in seeds]


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
