"""Bytes of lines that move beside those that are used."""

from __future__ import annotations

import numpy as np

from .loops import Loop, LoopAccess, LoopStep
from .plan_batch import Numbers, PlanBatch, clipped
from .windows import Window, elements_in, windows_of


def wasted(touch: LoopAccess, loop: Loop, step: LoopStep, at: PlanBatch, line: int) -> Numbers:
    """Bytes of lines for each byte that is used, where too few elements of a line are side by side in one program."""
    along, steps = touch.spread or (touch.run, 1)
    if along is None or touch.home is not None or touch.place in at.choices.packs:
        return 1
    extent = max(1, at.extents.get(along, 1))
    together = np.minimum(at.size(along), extent)
    edge: Numbers = 0  # bytes of lines beside a row's part, which programs far from this one use
    if touch.spread is None and along in at.choices.order[:-1] and extent > 1:
        edge = np.where(together < extent, line - min(line, touch.alignment), 0)
    together = extent if _goes_through(along, loop, step, at) else together
    most, used = line / touch.element_bytes, together * touch.element_bytes
    waste = clipped(np.maximum(most / together, (used + edge) / used), min(steps, most), most)
    window = next((each for each in windows_of(touch) if along in (axis for axis, _ in each)), None)
    if window is not None:
        return np.minimum(waste, _of_window(window, touch, loop, step, at, line))
    return waste if touch.spread else np.minimum(waste, _of_near_rows(touch, loop, step, at, used, line))


def _of_near_rows(touch: LoopAccess, loop: Loop, step: LoopStep, at: PlanBatch, used: Numbers, line: int) -> Numbers:
    """The same where rows, of which a program takes `used` bytes each, are so near that they share lines."""
    if touch.near is None or touch.run is None:
        return np.inf
    axis, apart = touch.near
    apart = apart or max(1, at.extents.get(touch.run, 1)) * touch.element_bytes
    if apart >= line:
        return np.inf
    rows = max(1, at.extents.get(axis, 1)) if _goes_through(axis, loop, step, at) else at.size(axis)
    return np.maximum(1, np.maximum(line, (rows - 1) * apart + used) / (rows * used))


def _of_window(window: Window, touch: LoopAccess, loop: Loop, step: LoopStep, at: PlanBatch, line: int) -> Numbers:
    """The same of elements that several axes reach together, such as each second one and the one beside it."""

    def size(axis: str) -> Numbers:
        extent = max(1, at.extents.get(axis, 1))
        return extent if _goes_through(axis, loop, step, at) else np.minimum(at.size(axis), extent)

    reach = 1 + sum((abs(factor) * (size(axis) - 1) for axis, factor in window), start=np.float64(0))
    taken = elements_in((), (window,), size) * touch.element_bytes
    return np.maximum(1, np.maximum(line, reach * touch.element_bytes) / taken)


def _goes_through(axis: str, loop: Loop, step: LoopStep, at: PlanBatch) -> bool:
    """Whether a program goes through all of an axis."""
    return axis in (*loop.axes, *loop.ranges, *step.ranges, *at.choices.held)
