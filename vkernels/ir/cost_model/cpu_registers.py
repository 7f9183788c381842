"""Vector registers and instructions that a CPU's loops take: what tiles are unrolled into."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..limits import Limits
from .loops import Loop
from .plan_batch import Numbers, PlanBatch

EXPANDED = 9
"""Operations from which on something is a polynomial: it takes registers while it is computed."""
WITHIN = 2
"""Registers that each vector of a polynomial takes beside argument and result."""


def cpu_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """Vector registers that the tiles alive at the worst point of a loop take."""
    found = at.terms.loops
    worst: Numbers = 0
    for loop in at.loops:
        key = "registers", loop, at.choices.lanes
        if key not in found:
            found[key] = _registers_of(loop, at, limits)
        worst = np.maximum(worst, found[key])
    return worst


def _registers_of(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    taken = sum(
        1 if alive.into_dot and at.choices.lanes not in alive.axes
        else slots(alive.axes, at, _lanes(max(4, alive.element_bytes), limits))
        for alive in loop.live
    )  # fmt: skip
    width = _lanes(loop.element_bytes, limits)
    polynomials = [WITHIN * slots(step.axes, at, width) for step in loop.steps if step.operations >= EXPANDED]
    return taken + reduce(np.maximum, polynomials, 0)


def cpu_unrolled(at: PlanBatch, limits: Limits) -> Numbers:
    """Instructions that the longest loop's body is unrolled into."""
    found = at.terms.loops
    longest: Numbers = 0
    for loop in at.loops:
        key = "unrolled", loop, at.choices.lanes
        if key not in found:
            width = _lanes(loop.element_bytes, limits)
            found[key] = sum(slots(step.axes, at, width) * max(1, step.operations) for step in loop.steps)
        longest = np.maximum(longest, found[key])
    return longest


def _lanes(element_bytes: int, limits: Limits) -> int:
    return max(1, limits.register_bytes // element_bytes)


def slots(axes: tuple[str, ...], at: PlanBatch, width: int) -> Numbers:
    """Registers of a tile: vectors along the lanes, the last ones ever narrower; one an element without lanes."""
    if at.choices.lanes not in axes:
        return at.tile(axes)
    lanes = at.choices.lanes
    assert lanes is not None
    key = (*axes, lanes, f"by {width}")
    found = at.terms.slots.get(key)
    if found is None:
        along = at.size(lanes)
        narrower = _BITS[np.asarray(along % width, dtype=np.int64)]
        found = at.tile(axis for axis in axes if axis != lanes) * (along // width + narrower)
        at.terms.slots[key] = found
    return found


_BITS = np.array([number.bit_count() for number in range(257)], dtype=np.float64)
"""The number of ever narrower vectors for the rest of a row, by its elements."""
