"""Which waiting job runs next: published policies, and ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_LEFT = 0.25
"""Part of its prediction that a job has still to run, at least: one that ran longer than predicted is no short job."""


@dataclass(frozen=True)
class Waiting:
    """Jobs that wait, in the order of their arrival; an element for each.

    `arrival`, `expected`, `served`: seconds. `expected` is predicted, or true where the policy is an oracle. `cores`:
    what each needs. `share`: of the user's served core-seconds, times the number of users; 1 is a fair share.
    """

    arrival: Floats
    expected: Floats
    served: Floats
    cores: Floats
    gain: Floats
    share: Floats

    @property
    def left(self) -> Floats:
        """Expected seconds that each has still to run."""
        return np.maximum(self.expected - self.served, LEAST_LEFT * self.expected)


class Policy(Protocol):
    """Chooses the next job. `turn`: seconds after which a running job may be preempted; infinite: never."""

    @property
    def is_oracle(self) -> bool:
        """Whether `Waiting.expected` is the true duration."""

    @property
    def turn(self) -> float: ...

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        """Index of the job that runs next, or that the others wait for if it does not fit yet."""


@dataclass(frozen=True)
class Fifo:
    """First come, first served."""

    is_oracle: bool = False
    turn: float = math.inf

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        return 0


@dataclass(frozen=True)
class Sjf:
    """Shortest job first, durations known."""

    is_oracle: bool = True
    turn: float = math.inf

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        return int(np.argmin(waiting.expected))


@dataclass(frozen=True)
class Srtf:
    """Shortest remaining time first, durations known; running jobs are preempted after `turn` seconds."""

    turn: float
    is_oracle: bool = True

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        return int(np.argmin(waiting.expected - waiting.served))


@dataclass(frozen=True)
class Qssf:
    """Helios' Quasi-Shortest-Service-First: predicted duration times cores, without preemption."""

    is_oracle: bool = False
    turn: float = math.inf

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        return int(np.argmin(waiting.expected * waiting.cores))


@dataclass(frozen=True)
class Bounded:
    """Ours: least predicted remaining cost first, as long as every job can still end `bound` seconds after its arrival.

    Cost is seconds times cores, divided by the gain; a user above a fair share pays its multiple to the power of
    `fairness`. Where the work of the earliest jobs just fits before their bounds, one of these goes first, the cheapest
    that endangers none before it. A bound that overload or predictions have already broken makes its job the next.
    """

    turn: float
    bound: float
    fairness: float = 0.0
    is_oracle: bool = False

    def choose(self, waiting: Waiting, now: float, cores: int) -> int:
        work = waiting.left * waiting.cores
        spare = waiting.arrival + self.bound - now - np.cumsum(work) / cores
        endangered = spare < self.turn
        last = int(np.argmax(endangered)) if endangered.any() else len(work) - 1
        cost = work / waiting.gain
        if self.fairness:
            cost = cost * np.maximum(waiting.share, 1.0) ** self.fairness
        return int(np.argmin(cost[: last + 1]))
