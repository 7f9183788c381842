"""What every search is: ask for a point, tell what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from vkernels.ir.errors import ArgumentError

from ..space import Point, SearchSpace

SAMPLES = 64
"""Random points tried for one that is new, before a space that is not listed is walked for the first new one."""


@dataclass(frozen=True)
class FailedPoint:
    """A point that could not be measured; `reason`: `does not fit`, `compile error`, `time-out`, …"""

    reason: str


Outcome = float | FailedPoint


@dataclass(frozen=True)
class Trial:
    """A point and its seconds a call, or why there are none."""

    point: Point
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Infinite where it failed."""
        return self.outcome if isinstance(self.outcome, float) else float("inf")


class Search(ABC):
    """Asks for each point of a space once, at most, in an order that is the search's.

    What is asked for depends on the space, `seed`, what was told, in this order, and which points are asked for and not
    yet told, and on nothing else: a search that is told the same again goes on as the first did. `seeds` are asked for
    first, those that the space has. Several points may be asked for before any is told, and points may be told that
    were never asked for.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = ()) -> None:
        self.space = space
        self.seed = seed
        self.told: list[Trial] = []
        self.best: Trial | None = None
        self._seeds = [point for point in dict.fromkeys(seeds) if point in space]
        self._places: dict[Point, int] = {}
        self._pending: set[Point] = set()
        self._order: list[Point] | None = None
        self._next = 0

    def ask(self) -> Point | None:
        """The next point to measure; None when each is told or asked for."""
        point = next((seed for seed in self._seeds if self.is_new(seed)), None)
        if point is None:
            point = self._propose(self._random())
        if point is None or not self.is_new(point):
            point = self._any_new()
        if point is not None:
            self._pending.add(point)
        return point

    def tell(self, point: Point, outcome: Outcome) -> None:
        """What a point took, in seconds a call, or why it cannot be told.

        Raises `ArgumentError` for points that the space lacks, a second time, and seconds that are no time.
        """
        if point not in self.space:
            raise ArgumentError(f"{point!r} is no point of the space of {', '.join(self.space.names)}")
        if point in self._places:
            raise ArgumentError(f"{point!r} was told before")
        if not isinstance(outcome, FailedPoint):
            outcome = float(outcome)
            if not isfinite(outcome) or outcome <= 0:
                raise ArgumentError(f"{point!r} cannot take {outcome} seconds")
        told = Trial(point, outcome)
        self._pending.discard(point)
        self._places[point] = len(self.told)
        self.told.append(told)
        self._learn(told)
        if isinstance(outcome, float) and (self.best is None or outcome < self.best.seconds):
            self.best = told

    def give_back(self, point: Point) -> None:
        """A point that was asked for will not be told: it may be asked for again."""
        self._pending.discard(point)
        self._next = 0

    def is_new(self, point: Point) -> bool:
        """Whether a point was neither told nor asked for."""
        return point not in self._places and point not in self._pending

    @abstractmethod
    def _propose(self, random: np.random.Generator) -> Point | None:
        """The point that this search wants next; None, or one that is not new, leaves it to chance."""

    def _learn(self, told: Trial) -> None:  # noqa: B027 (not every search takes note)
        """Take note of what was told; `best` is still that of before."""

    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, len(self.told), len(self._pending)])

    def _any_new(self) -> Point | None:
        """A random new point of the space; None if there is none."""
        if self.space.listed is None:
            random = self._random()
            tries = (self.space.sample(random) for _ in range(SAMPLES))
            found = next((point for point in tries if point is not None and self.is_new(point)), None)
            return found or next(filter(self.is_new, self.space), None)
        if self._order is None:
            listed = self.space.listed
            self._order = [listed[i] for i in np.random.default_rng(self.seed).permutation(len(listed))]
        while self._next < len(self._order) and not self.is_new(self._order[self._next]):
            self._next += 1
        return self._order[self._next] if self._next < len(self._order) else None
