"""Windows: dimensions that several axes move through together, so that positions overlap, as in convolutions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from math import gcd

import numpy as np

from .loops import Axes, LoopAccess
from .plan_batch import Numbers

Window = tuple[tuple[str, int], ...]
"""The axes that move through one dimension, each with the elements from one of its positions to the next."""


def windows_of(touch: LoopAccess) -> tuple[Window, ...]:
    """The windows of an access to a tensor: of axes that move through no other dimension, and by no index tile."""
    return _windows(touch) if touch.index and touch.home is None else ()


@lru_cache(maxsize=4096)
def _windows(touch: LoopAccess) -> tuple[Window, ...]:
    sums = [each.positions for each in touch.index if each is not None]
    moved = Counter(axis for positions in sums for axis, _ in positions)
    usable = {axis for axis, times in moved.items() if times == 1 and axis in touch.axes and axis not in touch.found}
    return tuple(window for window in sums if len(window) > 1 and usable.issuperset(axis for axis, _ in window))


def elements_in(axes: Axes, windows: tuple[Window, ...], size: Callable[[str], Numbers]) -> Numbers:
    """Distinct elements of so many positions of each axis."""
    found: Numbers = 1.0
    for window in windows:
        found = found * _of_window(window, size)
    overlapping = {axis for window in windows for axis, _ in window}
    for axis in axes:
        if axis not in overlapping:
            found = found * size(axis)
    return found


def _of_window(window: Window, size: Callable[[str], Numbers]) -> Numbers:
    """Elements from the first to the last that are taken, or as many as there are positions, where that is fewer."""
    step = gcd(*(factor for _, factor in window))
    positions: Numbers = 1.0
    reach: Numbers = 1.0
    for axis, factor in window:
        positions = positions * size(axis)
        reach = reach + abs(factor) / step * (size(axis) - 1)
    return np.minimum(positions, reach)


def overlap(window: Window, size: Callable[[str], Numbers]) -> Numbers:
    """How often each element of a window is taken, on average."""
    positions: Numbers = 1.0
    for axis, _ in window:
        positions = positions * size(axis)
    return positions / np.maximum(1, _of_window(window, size))
