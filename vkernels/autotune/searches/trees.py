"""Trees that predict times of points from those that were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..space import Point
from .search import Trial

if TYPE_CHECKING:
    from sklearn.tree import ExtraTreeRegressor

Encode = Callable[[Sequence[Point]], npt.NDArray[np.float32]]
"""Points as rows of numbers."""

GROUPS = 6
"""Parts of the ensemble. One is refitted after each measurement, so that a step costs only one part's time."""
TREES = 5
YOUNG = 16
"""With fewer measurements than this, all groups are refitted at every step."""
DISTINGUISHED = 0.5
"""Share of the measurements, the fastest, that trees tell apart: all slower ones count as equally slow.

Times of slow points differ most, and the trees would spend their branches on them.
"""


class Surrogate:
    """Trees that predict the logarithm of the seconds of the faster half; slower and failed points are all alike.

    The number of measurements determines which of them a group has seen, so predictions depend only on the data.
    """

    def __init__(self, encode: Encode, seed: int) -> None:
        self._encode = encode
        self._seed = seed
        self._rows: list[npt.NDArray[np.float32]] = []
        self._groups: list[tuple[int, list[ExtraTreeRegressor]]] = [(0, [])] * GROUPS

    def predict(self, told: Sequence[Trial], points: Sequence[Point]) -> npt.NDArray[np.float64]:
        """Logarithms of seconds, trees × points. At least one trial must have a time."""
        self._fit(told)
        rows = self._encode(points)
        return np.stack([tree.tree_.predict(rows)[:, 0] for _, trees in self._groups for tree in trees])

    def _fit(self, told: Sequence[Trial]) -> None:
        self._rows += list(self._encode([each.point for each in told[len(self._rows) :]]))
        rows, seconds = np.array(self._rows), np.array([each.seconds for each in told])
        count = len(told)
        for group, (fitted, _) in enumerate(self._groups):
            until = count if count < YOUNG else count - (count - group) % GROUPS
            if until != fitted:
                self._groups[group] = until, self._grown(group, rows[:until], seconds[:until])

    def _grown(
        self, group: int, rows: npt.NDArray[np.float32], seconds: npt.NDArray[np.float64]
    ) -> list[ExtraTreeRegressor]:
        right = np.isfinite(seconds)
        slow = np.quantile(seconds[right], DISTINGUISHED) if right.any() else 1.0
        return grown(rows, np.log(np.minimum(seconds, slow)), [self._seed, group], TREES)


def grown(
    rows: npt.NDArray[np.float32], goals: npt.NDArray[np.float64], seed: Sequence[int], count: int
) -> list[ExtraTreeRegressor]:
    """So many random trees, fitted to rows and their goals."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    seeds = np.random.default_rng(list(seed)).integers(2**31, size=count)
    column = goals.reshape(-1, 1)
    with config_context(skip_parameter_validation=True):
        return [ExtraTreeRegressor(random_state=int(each)).fit(rows, column, check_input=False) for each in seeds]
