"""Predict how long a job takes from jobs like it that have ended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from .jobs import Job


class Forecast(Protocol):
    """Predicts durations from jobs that have ended."""

    @property
    def is_filled(self) -> bool:
        """Whether any job has ended."""

    def add(self, job: Job) -> None:
        """Take in the duration of a job that has ended."""

    def predict(self, job: Job) -> float:
        """Expected duration of a job, in seconds; its own is not read."""


@dataclass
class History:
    """Averages of durations: of all jobs, of those with the same first parts of `kind`, of a user's jobs of a kind.

    An average of few jobs is drawn to that of the next more general group, which counts like `prior_jobs` jobs. Old
    durations fade: each new one takes the part `fading` of the weight of those before it. `unknown`: seconds predicted
    before any job has ended.
    """

    prior_jobs: float = 2.0
    fading: float = 0.02
    unknown: float = 60.0
    _sums: dict[tuple[str | None, ...], tuple[float, float]] = field(default_factory=dict)

    @property
    def is_filled(self) -> bool:
        """Whether any job has ended."""
        return bool(self._sums)

    def add(self, job: Job) -> None:
        """Take in the duration of a job that has ended."""
        for group in _groups(job):
            weight, total = self._sums.get(group, (0.0, 0.0))
            kept = 1 - self.fading
            self._sums[group] = (kept * weight + 1, kept * total + job.seconds)

    def predict(self, job: Job) -> float:
        """Expected duration of a job, in seconds; its own is not read."""
        return math.exp(self.levels(job)[-1][0])

    def levels(self, job: Job) -> list[tuple[float, float]]:
        """Of each group of a job, general first: logarithms of the average in seconds, and of 1 + the jobs in it."""
        mean, found = self.unknown, []
        for group in _groups(job):
            weight, total = self._sums.get(group, (0.0, 0.0))
            mean = (self.prior_jobs * mean + total) / (self.prior_jobs + weight)
            found.append((math.log(mean), math.log1p(weight)))
        return found


def _groups(job: Job) -> Iterator[tuple[str | None, ...]]:
    """The groups that a job belongs to, general first."""
    for length in range(len(job.kind) + 1):
        yield (None, *job.kind[:length])
    yield (job.user, *job.kind)
