"""Vector registers and instructions that a CPU's loops take: what tiles are unrolled into."""

from __future__ import annotations

import numpy as np

from ..limits import Limits
from .plan_batch import Numbers, PlanBatch

EXPANDED = 9
"""Operations from which on something is a polynomial: it takes registers while it is computed."""
WITHIN = 2
"""Registers that each vector of a polynomial takes beside argument and result."""
COEFFICIENTS = 0
"""Registers that hold its coefficients."""


def cpu_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """Vector registers that the tiles alive at the worst point of a loop take."""
    worst: Numbers = 0
    for loop in at.loops:
        taken: Numbers = 0
        for alive in loop.live:
            width = max(1, limits.register_bytes // max(4, alive.element_bytes))
            vectors = slots(alive.axes, at, width)
            passes = alive.into_dot and at.lanes not in alive.axes
            taken = taken + (1 if passes else vectors)
        expanded: Numbers = 0
        for step in loop.steps:
            if step.operations >= EXPANDED:
                width = max(1, limits.register_bytes // loop.element_bytes)
                expanded = np.maximum(expanded, WITHIN * slots(step.axes, at, width) + COEFFICIENTS)
        worst = np.maximum(worst, taken + expanded)
    return worst


def cpu_unrolled(at: PlanBatch, limits: Limits) -> Numbers:
    """Instructions that the longest loop's body is unrolled into."""
    worst: Numbers = 0
    for loop in at.loops:
        width = max(1, limits.register_bytes // loop.element_bytes)
        body: Numbers = 0
        for step in loop.steps:
            body = body + slots(step.axes, at, width) * max(1, step.operations)
        worst = np.maximum(worst, body)
    return worst


def slots(axes: tuple[str, ...], at: PlanBatch, width: int) -> Numbers:
    """Registers of a tile: vectors along the lanes, the last ones ever narrower; one an element without lanes."""
    if at.lanes not in axes:
        return at.tile(axes)
    assert at.lanes is not None
    key = (*axes, f"by {width}")
    if key not in at.kept:
        along = at.size(at.lanes)
        narrower = _BITS[np.asarray(along % width, dtype=np.int64)]
        at.kept[key] = at.tile(axis for axis in axes if axis != at.lanes) * (along // width + narrower)
    return at.kept[key]


_BITS = np.array([number.bit_count() for number in range(257)], dtype=np.float64)
"""The ever narrower vectors that so many elements take."""
