"""The interface of searches, `ask` for a point and `tell` its outcome, and searches without a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from vkernels.ir.errors import ArgumentError

from ..space import Point, SearchSpace, Value

SAMPLES = 64
"""Random points tried before an unlisted space is walked for its first new point."""


@dataclass(frozen=True)
class FailedPoint:
    """A point that could not be measured; `reason`: `does not fit`, `compile error`, `time-out`, …"""

    reason: str


Outcome = float | FailedPoint


@dataclass(frozen=True)
class Trial:
    """A point and its seconds per call, or its failure."""

    point: Point
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Seconds per call; infinite for a failure."""
        return self.outcome if isinstance(self.outcome, float) else float("inf")


class Search(ABC):
    """Propose each point of a space at most once.

    Proposals depend only on the space, `seed`, the trials in their order, and the pending points, so a search can be
    replayed. `seeds` that are in the space come first. Several points may be pending at once, and trials of points that
    were never proposed are accepted. `elsewhere`: what points took on other devices, of other sizes or slices, each in
    a unit of its own; searches without a model do not use it.
    """

    def __init__(
        self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = (),
        elsewhere: Sequence[Mapping[Point, Outcome]] = (),
    ) -> None:  # fmt: skip
        self.space = space
        self.seed = seed
        self.told: list[Trial] = []
        self.best: Trial | None = None
        self._seeds = [point for point in dict.fromkeys(seeds) if point in space]
        self._tried: set[Point] = set()
        self._pending: set[Point] = set()
        self._shuffled: list[Point] = []
        self._next = 0

    def ask(self) -> Point | None:
        """The next point to measure; None if none is left."""
        point = next((seed for seed in self._seeds if self.is_new(seed)), None)
        if point is None:
            point = self._propose(self._random())
        if point is None or not self.is_new(point):
            point = self._any_new()
        if point is not None:
            self._pending.add(point)
        return point

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Record a point's seconds per call, or its failure.

        Raises `ArgumentError` for a point outside the space, a point told before, and seconds that are not above 0.
        """
        if point not in self.space:
            raise ArgumentError(f"{point!r} is no point of the space of {', '.join(self.space.names)}")
        if point in self._tried:
            raise ArgumentError(f"{point!r} was told before")
        if not isinstance(outcome, FailedPoint):
            outcome = float(outcome)
            if not isfinite(outcome) or outcome <= 0:
                raise ArgumentError(f"{point!r} cannot take {outcome} seconds")
        told = Trial(point, outcome)
        self._pending.discard(point)
        self._tried.add(point)
        self.told.append(told)
        self._learn(told)
        if isinstance(outcome, float) and (self.best is None or outcome < self.best.seconds):
            self.best = told

    def give_back(self, point: Point) -> None:
        """Return a pending point: it will not be measured, and may be proposed again."""
        self._pending.discard(point)
        self._next = 0

    def is_new(self, point: Point) -> bool:
        """Whether a point is neither tried nor pending."""
        return point not in self._tried and point not in self._pending

    @abstractmethod
    def _propose(self, random: np.random.Generator) -> Point | None:
        """The next point; for None, or a point that is not new, a random one is taken."""

    def _learn(self, told: Trial) -> None:  # noqa: B027 (optional)
        """React to a trial; `best` does not include it yet."""

    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, len(self.told), len(self._pending)])

    def _any_new(self) -> Point | None:
        if self.space.listed is None:
            random = self._random()
            tries = (self.space.sample(random) for _ in range(SAMPLES))
            found = next((point for point in tries if point is not None and self.is_new(point)), None)
            return found or next(filter(self.is_new, self.space), None)
        if not self._shuffled:
            listed = self.space.listed
            self._shuffled = [listed[i] for i in np.random.default_rng(self.seed).permutation(len(listed))]
        while self._next < len(self._shuffled) and not self.is_new(self._shuffled[self._next]):
            self._next += 1
        return self._shuffled[self._next] if self._next < len(self._shuffled) else None


POPULATION = 20
"""Genetic search: parents are two of this many best points; until there are as many, points are random."""
CONTESTANTS = 3
"""Genetic search: the fastest of this many random candidates becomes a parent."""
MAX_CHILD_TRIES = 50


class RandomSearch(Search):
    """Every new point is equally likely."""

    def _propose(self, random: np.random.Generator) -> Point | None:
        return None


class ExhaustiveSearch(Search):
    """Every point, in the order of the space, whatever its size."""

    _rest: Iterator[Point] | None = None

    def _propose(self, random: np.random.Generator) -> Point | None:
        if self._rest is None:
            self._rest = iter(self.space)
        return next(filter(self.is_new, self._rest), None)


class LocalSearch(Search):
    """Climb from the best seed, or a random point, to the first better neighbour found.

    Neighbours are tried in random order, those one value away first. Without a better or new neighbour, the climb
    restarts at a random point.
    """

    def __init__(
        self, space: SearchSpace, *, seed: int = 0, seeds: Iterable[Point] = (),
        elsewhere: Sequence[Mapping[Point, Outcome]] = (),
    ) -> None:  # fmt: skip
        super().__init__(space, seed=seed, seeds=seeds, elsewhere=elsewhere)
        self._at: Trial | None = None
        self._around: list[Point] = []

    def _propose(self, random: np.random.Generator) -> Point | None:
        return next(filter(self.is_new, self._around), None)

    def _learn(self, told: Trial) -> None:
        seeding = len(self.told) <= len(self._seeds)
        ended = not seeding and all(point in self._tried for point in self._around)
        if self._at is None or self._at.seconds == float("inf") or ended or told.seconds < self._at.seconds:
            self._at = told
            random = np.random.default_rng([self.seed, len(self.told)])
            sides = self.space.neighbours(told.point)
            self._around = [points[i] for points in sides for i in random.permutation(len(points))]


class GeneticSearch(Search):
    """Steady state: each child joins the population as soon as it is measured.

    A child takes each value from either parent, and now and then a random one.
    """

    def _propose(self, random: np.random.Generator) -> Point | None:
        if len(self.told) < POPULATION:
            return None
        best = sorted(self.told, key=lambda told: told.seconds)[:POPULATION]
        for _ in range(MAX_CHILD_TRIES):
            one, other = (best[int(random.integers(len(best), size=CONTESTANTS).min())].point for _ in range(2))
            child = tuple(self._value(random, column, pair) for column, pair in enumerate(zip(one, other, strict=True)))
            if child in self.space and self.is_new(child):
                return child
        return None

    def _value(self, random: np.random.Generator, column: int, pair: Point) -> Value:
        values = self.space.values[column]
        if random.random() * len(self.space.names) < 1:
            return values[int(random.integers(len(values)))]
        return pair[int(random.integers(2))]
