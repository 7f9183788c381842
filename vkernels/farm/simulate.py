"""Simulate a farm: jobs arrive, wait, run on slots (a core each) and end, in the order that a policy gives."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .history import Forecast, History
from .jobs import Job
from .order import Floats, Policy, Waiting


@dataclass(frozen=True)
class Turn:
    """A job on slots, from `start` to `end`, in seconds of the trace."""

    job: int
    start: float
    end: float
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs, in the order of the trace. `ends`: in seconds; `predicted`: seconds, on arrival."""

    jobs: tuple[Job, ...]
    ends: Floats
    predicted: Floats
    turns: tuple[Turn, ...]

    @property
    def completions(self) -> Floats:
        """Seconds from each job's arrival to its end."""
        return np.array([end - job.arrival for end, job in zip(self.ends, self.jobs, strict=True)])

    @property
    def mean(self) -> float:
        """Mean completion, in seconds."""
        return float(self.completions.mean())

    @property
    def p99(self) -> float:
        """Completion that 99 % of the jobs do not exceed, in seconds."""
        return float(np.quantile(self.completions, 0.99))


def simulate(jobs: Sequence[Job], cores: int, policy: Policy, history: Forecast | None = None) -> Outcome:
    """Run a trace, whose jobs are in order of arrival, on `cores` slots.

    No job passes the one that the policy chose: it starts as soon as enough slots are free. Predictions are made on
    arrival, from jobs that had ended by then, by `history`: averages, unless another is given. Raises `OptionError`:
    no job, no slot, a job with more cores than there are, arrivals out of order, or a turn that is not positive.
    """
    _check(jobs, cores, policy)
    farm = _Farm(tuple(jobs), cores, policy, history or History())
    arrived, now = 0, jobs[0].arrival
    while True:
        farm.end_turns(now)
        while arrived < len(jobs) and jobs[arrived].arrival <= now:
            farm.submit(arrived)
            arrived += 1
        farm.start_turns(now)
        coming = [jobs[arrived].arrival] if arrived < len(jobs) else []
        coming += [farm.running[0][0]] if farm.running else []
        if not coming:
            return Outcome(farm.jobs, farm.ends, farm.predicted, tuple(farm.turns))
        now = min(coming)


def _check(jobs: Sequence[Job], cores: int, policy: Policy) -> None:
    if not jobs:
        raise OptionError("the trace has no job")
    if cores < 1:
        raise OptionError(f"expected at least 1 core, got {cores}")
    if not policy.turn > 0:
        raise OptionError(f"expected a turn of more than 0 s, got {policy.turn}")
    widest = max(range(len(jobs)), key=lambda number: jobs[number].cores)
    if jobs[widest].cores > cores:
        raise OptionError(f"job {widest + 1} needs {jobs[widest].cores} cores; the farm has {cores}")
    if any(after.arrival < before.arrival for before, after in pairwise(jobs)):
        raise OptionError("jobs are not in order of arrival")


@dataclass
class _Farm:
    """What waits, what runs, and what has ended."""

    jobs: tuple[Job, ...]
    cores: int
    policy: Policy
    history: Forecast
    turns: list[Turn] = field(default_factory=list)
    running: list[tuple[float, int, Turn]] = field(default_factory=list)
    waiting: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        count = len(self.jobs)
        self.arrival = np.array([job.arrival for job in self.jobs])
        self.need = np.array([float(job.cores) for job in self.jobs])
        self.gain = np.array([job.gain for job in self.jobs])
        self.left = np.array([job.seconds for job in self.jobs])
        self.served, self.predicted = np.zeros(count), np.zeros(count)
        self.ends = np.full(count, math.nan)
        self.free = list(range(self.cores))
        numbers = {user: number for number, user in enumerate(dict.fromkeys(job.user for job in self.jobs))}
        self.user = np.array([numbers[job.user] for job in self.jobs])
        self.used = np.zeros(len(numbers))

    def submit(self, number: int) -> None:
        job = self.jobs[number]
        self.predicted[number] = job.seconds if self.policy.is_oracle else self.history.predict(job)
        self.waiting = np.append(self.waiting, number)

    def start_turns(self, now: float) -> None:
        """Start what the policy chooses, until a job does not fit or none waits."""
        while self.free and len(self.waiting):
            place = self.policy.choose(self._view(), now, self.cores)
            number = int(self.waiting[place])
            need = self.jobs[number].cores
            if need > len(self.free):
                return
            slots, self.free = tuple(self.free[:need]), self.free[need:]
            turn = Turn(number, now, now + min(self.policy.turn, float(self.left[number])), slots)
            self.waiting = np.delete(self.waiting, place)
            heapq.heappush(self.running, (turn.end, len(self.turns), turn))
            self.turns.append(turn)

    def end_turns(self, now: float) -> None:
        """Free the slots of turns that are over; their jobs end, or wait again."""
        while self.running and self.running[0][0] <= now:
            _, _, turn = heapq.heappop(self.running)
            number, length = turn.job, min(self.policy.turn, float(self.left[turn.job]))
            self.free += turn.slots
            self.left[number] -= length
            self.served[number] += length
            self.used[self.user[number]] += length * self.need[number]
            if self.left[number] > 0:
                self.waiting = np.insert(self.waiting, np.searchsorted(self.waiting, number), number)
            else:
                self.ends[number] = now
                self.history.add(self.jobs[number])

    def _view(self) -> Waiting:
        of = self.waiting
        return Waiting(
            self.arrival[of], self.predicted[of], self.served[of], self.need[of], self.gain[of], self._shares(of)
        )

    def _shares(self, of: NDArray[np.int64]) -> Floats:
        """Each job's user's part of what the users that wait were served, times their number."""
        users = np.unique(self.user[of])
        total = self.used[users].sum()
        return self.used[self.user[of]] * (len(users) / total) if total else np.zeros(len(of))
