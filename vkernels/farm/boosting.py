"""Predict how long a job takes by boosted trees over the averages of jobs like it."""

from __future__ import annotations

import math
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .history import History
from .jobs import Job

Floats = NDArray[np.float64]

FIRST_FIT = 50
"""Jobs that must have ended before trees are fitted."""
GROWTH, MAX_NEW = 1.25, 1000
"""Trees are fitted again once this many times as many jobs have ended, or `MAX_NEW` more."""
MAX_KEPT = 4000
MAX_NAMES = 200
"""Distinct names of a part of the kind that trees tell apart; all others count as one."""
KEPT_ERROR = 0.998
"""How much an error counts beside that of the next job."""


@dataclass
class Boosted:
    """Averages of durations as `History` has them, corrected by gradient boosted trees where these were better of late.

    The trees predict the logarithm of duration ÷ average, from the averages and sizes of the job's groups, its cores,
    and the names in its kind. Before trees are fitted anew, those before them and the averages predict the jobs that
    have ended since; whichever had the smaller errors so far predicts what comes. So predictions are as good as those
    of the averages in the long run.
    """

    averages: History = field(default_factory=History)
    _rows: deque[Floats] = field(default_factory=lambda: deque(maxlen=MAX_KEPT))
    _targets: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_KEPT))
    _names: dict[tuple[int, str], int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)
    _trees: Any = None
    _ended: int = 0
    _fitted: int = 0
    _errors: tuple[float, float] = (0.0, 0.0)

    @property
    def is_filled(self) -> bool:
        """Whether any job has ended."""
        return self.averages.is_filled

    @property
    def uses_trees(self) -> bool:
        """Whether trees predict now: theirs were the smaller errors."""
        return self._errors[1] < self._errors[0]

    def add(self, job: Job) -> None:
        """Take in the duration of a job that has ended."""
        self._rows.append(self._features(job, learn=True))
        self._targets.append(math.log(job.seconds / self.averages.predict(job)))
        self.averages.add(job)
        self._ended += 1
        if self._ended >= max(FIRST_FIT, min(GROWTH * self._fitted, self._fitted + MAX_NEW)):
            self._fit()

    def predict(self, job: Job) -> float:
        """Expected duration of a job, in seconds; its own is not read."""
        mean = self.averages.predict(job)
        if not self.uses_trees:
            return mean
        with _one_thread():
            correction = float(self._trees.predict(self._features(job, learn=False).reshape(1, -1))[0])
        return mean * math.exp(correction)

    def _features(self, job: Job, learn: bool) -> Floats:
        levels = self.averages.levels(job)
        names = [self._name(place, name, learn) for place, name in enumerate((*job.kind, job.user))]
        return np.array([*(value for level in levels for value in level), math.log(job.cores), *names], np.float64)

    def _name(self, place: int, name: str, learn: bool) -> float:
        """The number of a name among those of its place; NaN, as trees take it, for one too many."""
        count = self._known.get(place, 0)
        if learn and (place, name) not in self._names and count < MAX_NAMES:
            self._names[place, name], self._known[place] = count, count + 1
        return float(self._names.get((place, name), math.nan))

    def _fit(self) -> None:
        """Judge the trees on the jobs that ended since they were fitted, and fit others."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        rows, targets = np.array(self._rows), np.array(self._targets)
        new = min(self._ended - self._fitted, len(rows))
        is_name = np.arange(rows.shape[1]) >= rows.shape[1] - len(self._known)
        with _one_thread():
            if self._trees is not None:
                corrected = targets[-new:] - self._trees.predict(rows[-new:])
                kept = KEPT_ERROR**new
                pairs = zip(self._errors, (targets[-new:], corrected), strict=True)
                first, second = (kept * old + float(np.abs(off).sum()) for old, off in pairs)
                self._errors = (first, second)
            trees = HistGradientBoostingRegressor(
                loss="absolute_error", max_iter=60, min_samples_leaf=20, max_leaf_nodes=15,
                categorical_features=is_name, random_state=0,
            )  # fmt: skip
            self._trees = trees.fit(rows, targets)
        self._fitted = self._ended


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[Any]:
    """Keep trees from starting a thread on each core: others measure there."""
    import sklearn.ensemble  # noqa: F401  # the controller sees what is loaded

    limited: AbstractContextManager[Any] = _pools().limit(limits=1)
    return limited
