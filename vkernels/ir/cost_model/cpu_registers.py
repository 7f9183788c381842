"""Vector registers and instructions that a CPU's loops take: what tiles are unrolled into."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..limits import Limits
from .plan_batch import Numbers, PlanBatch

EXPANDED = 9
"""Operations from which on something is a polynomial: it takes registers while it is computed."""
WITHIN = 2
"""Registers that each vector of a polynomial takes beside argument and result."""


def cpu_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """Vector registers that the tiles alive at the worst point of a loop take."""
    worst: Numbers = 0
    for loop in at.loops:
        taken = sum(
            1 if alive.into_dot and at.choices.lanes not in alive.axes
            else slots(alive.axes, at, _lanes(max(4, alive.element_bytes), limits))
            for alive in loop.live
        )  # fmt: skip
        width = _lanes(loop.element_bytes, limits)
        polynomials = [WITHIN * slots(step.axes, at, width) for step in loop.steps if step.operations >= EXPANDED]
        worst = np.maximum(worst, taken + reduce(np.maximum, polynomials, 0))
    return worst


def cpu_unrolled(at: PlanBatch, limits: Limits) -> Numbers:
    """Instructions that the longest loop's body is unrolled into."""
    bodies = (
        sum(slots(step.axes, at, _lanes(loop.element_bytes, limits)) * max(1, step.operations) for step in loop.steps)
        for loop in at.loops
    )
    return reduce(np.maximum, bodies, 0)


def _lanes(element_bytes: int, limits: Limits) -> int:
    return max(1, limits.register_bytes // element_bytes)


def slots(axes: tuple[str, ...], at: PlanBatch, width: int) -> Numbers:
    """Registers of a tile: vectors along the lanes, the last ones ever narrower; one an element without lanes."""
    if at.choices.lanes not in axes:
        return at.tile(axes)
    assert at.choices.lanes is not None
    key = (*axes, f"by {width}")
    if key not in at.kept:
        along = at.size(at.choices.lanes)
        narrower = _BITS[np.asarray(along % width, dtype=np.int64)]
        at.kept[key] = at.tile(axis for axis in axes if axis != at.choices.lanes) * (along // width + narrower)
    return at.kept[key]


_BITS = np.array([number.bit_count() for number in range(257)], dtype=np.float64)
"""The number of ever narrower vectors for the rest of a row, by its elements."""
