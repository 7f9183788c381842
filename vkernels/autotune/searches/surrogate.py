"""What points will take, learnt from those told: an ensemble of random trees, of which a part learns anew each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..space import Point, SearchSpace
from .search import Trial

if TYPE_CHECKING:
    from sklearn.tree import ExtraTreeRegressor

GROUPS = 6
"""Parts of the ensemble; one learns anew after each point told, so that a step costs one part's time."""
TREES = 5
"""Of each group."""
YOUNG = 16
"""Points told, below which all groups learn anew each time: each point is news to them."""
TELLING = 0.5
"""Part of the points told, the fastest, that trees tell apart: all others are slow, and how slow is no matter. Trees
would spend their branches on the slow ones, whose times differ most."""


class Surrogate:
    """Trees that predict the logarithm of seconds, of the faster half; slower points, and those that failed, are alike.

    Which points a group has learnt follows from how many were told, so that predictions depend on what was told alone.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._rows: list[npt.NDArray[np.float32]] = []
        self._groups: list[tuple[int, list[ExtraTreeRegressor]]] = [(0, [])] * GROUPS

    def predict(self, told: Sequence[Trial], points: Sequence[Point]) -> npt.NDArray[np.float64]:
        """Logarithms of seconds, trees × points. At least one of those told did not fail."""
        self._learn(told)
        rows = self._space.encode(points)
        return np.stack([tree.tree_.predict(rows)[:, 0] for _, trees in self._groups for tree in trees])

    def _learn(self, told: Sequence[Trial]) -> None:
        self._rows += list(self._space.encode([each.point for each in told[len(self._rows) :]]))
        rows, seconds = np.array(self._rows), np.array([each.seconds for each in told])
        count = len(told)
        for group, (learnt, _) in enumerate(self._groups):
            until = count if count < YOUNG else count - (count - group) % GROUPS
            if until != learnt:
                self._groups[group] = until, self._grown(group, rows[:until], seconds[:until])

    def _grown(
        self, group: int, rows: npt.NDArray[np.float32], seconds: npt.NDArray[np.float64]
    ) -> list[ExtraTreeRegressor]:
        from sklearn import config_context
        from sklearn.tree import ExtraTreeRegressor

        right = np.isfinite(seconds)
        slow = np.quantile(seconds[right], TELLING) if right.any() else 1.0
        goal = np.log(np.minimum(seconds, slow)).reshape(-1, 1)
        seeds = np.random.default_rng([self._seed, group]).integers(2**31, size=TREES)
        with config_context(skip_parameter_validation=True):
            return [ExtraTreeRegressor(random_state=int(seed)).fit(rows, goal, check_input=False) for seed in seeds]
