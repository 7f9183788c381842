"""What AMD's GPUs lose in loops of dots whose results go into further dots, as those of attention do."""

from __future__ import annotations

import numpy as np

from ..analysis.needs import NeedsDevice
from ..limits import Limits
from .gpu_dots import rows_and_columns
from .item_widths import tensor_rate
from .loops import Loop, LoopStep
from .plan_batch import Numbers, PlanBatch

MATRIX_ROWS = {64: 32, 32: 16}
"""Rows of a matrix instruction's result by threads of a warp: those of CDNA, where there are so many, and RDNA 3."""
PLAIN_LANES = {64: 16, 32: 32}
"""Results a cycle of a scheduler's unit by threads of a warp. Of products and sums data sheets of CDNA 3 and RDNA 3
count twice as many, since two are packed into one instruction."""
SCHEDULERS = 4
"""Warps of which an instruction begins each cycle."""

RepeatedTiles = list[tuple[frozenset[str], Numbers]]
"""Tiles, by their axes, that several warps have alike, and how many."""


def repeated_tiles(loop: Loop, at: PlanBatch, limits: Limits) -> RepeatedTiles:
    """The results of dots that go into further ones: AMD's backend gives each warp rows of its own there, so that warps
    beyond the rows do what others do (`warpsPerTile`, Triton 3.6 and 3.9)."""
    if not is_chained(loop, limits):
        return []
    steps = [step for step in loop.steps if step.is_chained]
    rows = (rows_and_columns(step, at)[0] for step in steps)
    return [
        (_result_axes(step), np.maximum(1.0, at.warps * MATRIX_ROWS[limits.warp] / np.maximum(1, tall)))
        for step, tall in zip(steps, rows, strict=True)
    ]


def times_repeated(step: LoopStep, repeated: RepeatedTiles) -> Numbers:
    """How many warps do the same work of a step."""
    axes = _result_axes(step) if step.is_chained else frozenset() if step.is_dot else frozenset(step.axes)
    return next((times for tile, times in repeated if tile == axes), 1.0)


def is_chained(loop: Loop, limits: Limits) -> bool:
    """Whether a loop of an AMD GPU multiplies what goes into a further product, on matrix cores."""
    has_units = NeedsDevice.of(limits).is_amd and tensor_rate(loop.tensor_dtype, limits) > 0
    return has_units and any(step.is_chained for step in loop.steps)


def unpacked(loop: Loop, limits: Limits) -> float:
    """How many times as long an operation takes that is no product or sum, in kernels of chained dots."""
    lanes = scheduler_lanes(loop, limits)
    return max(1.0, lanes / PLAIN_LANES[limits.warp]) if _has_chains(loop, limits) else 1.0


def scheduler_lanes(loop: Loop, limits: Limits) -> float:
    """Threads of which one scheduler begins an operation each cycle: in kernels of chained dots no more than its unit
    has lanes, as AMD's take several cycles for a warp."""
    if not _has_chains(loop, limits):
        return limits.warp
    return limits.multiply_adds["float32"] / limits.multiprocessors / limits.clock / SCHEDULERS


def _has_chains(loop: Loop, limits: Limits) -> bool:
    return loop.of_chained_dots and NeedsDevice.of(limits).is_amd


def _result_axes(step: LoopStep) -> frozenset[str]:
    return frozenset(step.axes) - frozenset(step.sides[2])
