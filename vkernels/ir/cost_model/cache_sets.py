"""What of a cache accesses take: rows far apart compete for lines, as addresses share places after so many bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from .loops import MOST_ALIGNED, LoopAccess
from .plan_batch import Numbers, PlanBatch, clipped
from .windows import windows_of


@dataclass(frozen=True)
class Sets:
    """A cache of some `capacity` in which addresses share their places after `way` bytes.

    Measured on Cascade Lake, with 1 MiB of level 2: products of 512 rows and steps with tiles of 6 x 64, unpacked, take
    5.2 to 5.4 ms where rows of 512 columns are 2 KiB apart, and are modelled to take 5.2; without this, 3.1.
    """

    way: int
    capacity: float

    def matter(self, at: PlanBatch) -> bool:
        """Whether rows of some access may find less room than they have bytes."""
        steps = (step for loop in at.loops for step in loop.steps)
        rows = (row_of(step.touch, at) for step in steps if step.touch is not None)
        return any(row is not None and self.apart(row.stride) * row.count > self.capacity for row in rows)

    def apart(self, stride: int) -> int:
        """Bytes between the places of rows so far apart."""
        return gcd(stride, self.way)

    def taken(self, rows: Numbers, length: Numbers, stride: int) -> Numbers:
        """Bytes of the cache that rows take, each of so many bytes: more than they have where they leave places
        between them free that no other row of theirs can have."""
        places = rows * np.maximum(length, self.apart(stride))
        return np.where(places > self.capacity, places, rows * length)


@dataclass(frozen=True)
class RowsApart:
    """The rows of an access to a tensor along `run`, whose elements may be some bytes apart: bytes from one row to the
    next, as of rows without gaps, and how many there are."""

    run: str
    stride: int
    count: float


def row_of(touch: LoopAccess, at: PlanBatch) -> RowsApart | None:
    """The rows of an access; None where it has none, or those of a home or a pack, which lie side by side."""
    run, each = touch.nearest or (None, 0)
    if touch.home is not None or touch.place in at.choices.packs or run is None or run not in touch.axes:
        return None
    if touch.scattered or any(axis == run for window in windows_of(touch) for axis, _ in window):
        return None
    count = 1.0
    for axis in touch.axes:
        count *= 1 if axis == run else max(1, at.extents.get(axis, 1))
    return RowsApart(run, max(1, at.extents.get(run, 1)) * each, count)


def bytes_apart(touch: LoopAccess) -> float:
    """Bytes of memory for each element, with those between where only every so many is taken, up to a line."""
    steps = 1 if touch.spread is None else touch.spread[1]
    return min(touch.element_bytes * steps, max(touch.element_bytes, MOST_ALIGNED))


def part_lost(taken: Numbers, capacity: Numbers, gradual: float) -> Numbers:
    """The part of what is touched again that a cache has lost meanwhile."""
    if not gradual:
        return np.where(taken <= capacity, 0.0, 1.0)
    least = capacity * (1 - gradual)
    return clipped((taken - least) / np.maximum(1, 2 * gradual * capacity), 0, 1)
