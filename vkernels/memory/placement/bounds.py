"""Sums over buffers that are never more than a program's time: what branch and bound cuts by.

A launch takes its longest part and a share of the others; the longest part is at least any weighted mean of all. So for
weights of each launch's memory, link and rest, and a price for each byte of footprint beyond the limit, there is a
bound that is a sum over buffers. Weights and price are moved towards the largest such bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from vkernels.ir.cost_model.plan_batch import OVERLAP

from .costs import PlacementCost
from .program import LINK, MEMORY, PlacedLaunch

STEPS = 60
"""Of the weights."""
PRICES = 30
"""Halvings of the interval of prices."""
KEPT = 3
"""Bounds that are asked at every branch."""
CLOSE = 1e-6
"""Of the time: a bound so near cannot be bettered by much."""
Floats = Any
"""An array of float64."""


@dataclass(frozen=True)
class PlacementBound:
    """`rows`: seconds of each placement of each buffer; `fixed`: of what no placement changes."""

    rows: Floats
    fixed: float

    @property
    def least(self) -> float:
        """Seconds that no program takes less than."""
        return float(self.fixed + self.rows.min(axis=1).sum())


class PlacementBounds:
    """Bounds of one program: `table` has each buffer's placements, `limit` the bytes that they have to fit in."""

    def __init__(self, launches: Sequence[PlacedLaunch], table: Sequence[Sequence[PlacementCost]], limit: float):
        widest = max((len(row) for row in table), default=1)
        shape = len(table), widest, len(launches)
        self.limit = limit
        self.alone, self.footprints = np.full(shape[:2], inf), np.zeros(shape[:2])
        self.memory, self.link = np.zeros(shape), np.zeros(shape)
        for buffer, row in enumerate(table):
            for number, cost in enumerate(row):
                self.alone[buffer, number], self.footprints[buffer, number] = cost.alone, cost.footprint
                self.memory[buffer, number], self.link[buffer, number] = cost.memory, cost.link
        self.launched = sum(each.launch for each in launches)
        self.shared = np.array([sum(each.parts.values()) for each in launches])
        self.own = np.array([_apart(each) for each in launches]).reshape(len(launches), 3)

    def best(self, seconds: float) -> list[PlacementBound]:
        """The largest that were found, of a program that can take `seconds`."""
        weights = np.full(self.own.shape, 1 / 3)
        found: list[PlacementBound] = []
        for _ in range(STEPS):
            bound = self._at_best_price(weights)
            found.append(bound)
            parts = self._parts(bound)
            gap, uphill = seconds - bound.least, (1 - OVERLAP) * (parts - parts.mean(axis=1, keepdims=True))
            norm = float((uphill**2).sum())
            if gap <= CLOSE * seconds or norm == 0:
                break
            weights = _on_simplex(weights + gap / norm * uphill)
        return sorted(found, key=lambda each: -each.least)[:KEPT]

    def _at_best_price(self, weights: Floats) -> PlacementBound:
        """The bound grows with the price as long as the cheapest placements take too many bytes, and then falls."""
        bound = self._at(weights, 0.0)
        if self._taken(bound) <= self.limit:
            return bound
        low, high = 0.0, max(bound.least, 1e-12)
        for _ in range(PRICES):
            price = low + (high - low) / 8  # prices are small beside the whole time: those are told apart best
            other = self._at(weights, price)
            bound = max(bound, other, key=lambda each: each.least)
            low, high = (price, high) if self._taken(other) > self.limit else (low, price)
        return bound

    def _at(self, weights: Floats, price: float) -> PlacementBound:
        scale = (1 - OVERLAP) * weights + OVERLAP
        rows = self.alone + price * self.footprints + self.memory @ scale[:, 0] + self.link @ scale[:, 1]
        fixed = self.launched + OVERLAP * self.shared.sum() + (1 - OVERLAP) * float((weights * self.own).sum())
        return PlacementBound(rows, float(fixed) - (price * self.limit if price else 0.0))

    def _taken(self, bound: PlacementBound) -> float:
        """Bytes of the cheapest placements."""
        return float(self.footprints[np.arange(len(bound.rows)), bound.rows.argmin(axis=1)].sum())

    def _parts(self, bound: PlacementBound) -> Floats:
        """Seconds of memory, link and the longest of the rest in each launch, with the cheapest placements."""
        picked = np.arange(len(bound.rows)), bound.rows.argmin(axis=1)
        nothing = np.zeros(len(self.own))
        return self.own + np.column_stack([self.memory[picked].sum(axis=0), self.link[picked].sum(axis=0), nothing])


def _apart(launch: PlacedLaunch) -> tuple[float, float, float]:
    """What a launch takes of memory, of the link, and of the longest of the rest, before any buffer."""
    rest = max((value for name, value in launch.parts.items() if name not in (MEMORY, LINK)), default=0.0)
    return launch.parts.get(MEMORY, 0.0), launch.parts.get(LINK, 0.0), rest


def _on_simplex(rows: Floats) -> Floats:
    """The nearest rows of weights from 0 that add up to 1."""
    ordered = -np.sort(-rows, axis=1)
    over = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    last = (ordered > over).sum(axis=1) - 1
    return np.maximum(0, rows - over[np.arange(len(rows)), last][:, None])
