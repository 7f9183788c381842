"""What times on other devices, of other sizes or slices, say of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..space import Point, SearchSpace
from .search import Outcome
from .trees import grown

LEAST = 16
"""Times that a device must have, at least, for others to be learnt from it."""
MOST_DEVICES = 8
"""Devices, those with the most times: each is a column of what trees are fitted to."""
TREES = 10
"""Trees that fill in a device's times."""
SLOW = 2.0
"""Logarithm of how much slower than a device's best a point counts as, at most; failures do."""
KEPT = 4000
"""Points that were fast elsewhere, whose rows are kept: a search compares them at every step."""


class TimesElsewhere:
    """Numbers of a point for each of some devices: the logarithm of its time over the device's best one.

    A point that was not measured there has the mean of trees that are fitted to those that were. `outcomes`: by device
    and point; devices with fewer than `LEAST` times of points in the space are left out.
    """

    def __init__(self, space: SearchSpace, outcomes: Sequence[Mapping[Point, Outcome]], seed: int) -> None:
        inside = [{point: each[point] for point in each if point in space} for each in outcomes]
        many = [each for each in inside if sum(isinstance(outcome, float) for outcome in each.values()) >= LEAST]
        self._space = space
        self._known = [_slowness(each) for each in sorted(many, key=len, reverse=True)[:MOST_DEVICES]]
        self._trees = [
            grown(space.encode(list(each)), np.array(list(each.values())), [seed, number], TREES)
            for number, each in enumerate(self._known)
        ]
        means = {point: self._mean(point) for each in self._known for point in each}
        self.points = sorted(means, key=means.__getitem__)

    def __bool__(self) -> bool:
        return bool(self._known)

    def numbers(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """Points × devices, and the mean and the least of these."""
        columns = []
        for known, trees in zip(self._known, self._trees, strict=True):
            column = np.array([known.get(point, np.nan) for point in points], np.float32)
            if (missing := np.flatnonzero(np.isnan(column))).size:
                rows = self._space.encode([points[int(i)] for i in missing])
                column[missing] = np.mean([tree.tree_.predict(rows)[:, 0] for tree in trees], 0)
            columns.append(column)
        found = np.stack(columns, 1)
        return np.hstack([found, found.mean(1, keepdims=True), found.min(1, keepdims=True)])

    def rows(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        """Points as rows of float32: what the space encodes, and the `numbers`."""
        index, kept = self._kept
        at = np.array([index.get(point, -1) for point in points], np.intp)
        rows = kept[at]
        if (missing := np.flatnonzero(at < 0)).size:
            rows[missing] = self._computed([points[int(i)] for i in missing])
        return rows

    @cached_property
    def _kept(self) -> tuple[dict[Point, int], npt.NDArray[np.float32]]:
        points = self.points[:KEPT]
        return {point: at for at, point in enumerate(points)}, self._computed(points)

    def _computed(self, points: Sequence[Point]) -> npt.NDArray[np.float32]:
        return np.hstack([self._space.encode(points), self.numbers(points)])

    def _mean(self, point: Point) -> float:
        """The mean of the devices that measured a point, where others count as slow."""
        return sum(each.get(point, SLOW) for each in self._known) / len(self._known)


def _slowness(outcomes: Mapping[Point, Outcome]) -> dict[Point, float]:
    best = min(outcome for outcome in outcomes.values() if isinstance(outcome, float))
    return {
        point: min(SLOW, float(np.log(outcome / best))) if isinstance(outcome, float) else SLOW
        for point, outcome in outcomes.items()
    }
