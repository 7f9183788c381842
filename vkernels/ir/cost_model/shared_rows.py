"""What loops that go online lose on a GPU where several warps have the same rows."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..limits import Limits
from .item_widths import tensor_rate
from .loops import Loop
from .plan_batch import Numbers, PlanBatch

ROWS_OF_A_WARP = 16
"""Rows of a dot's result that a warp has at least: those of a matrix instruction."""
EXCHANGE_SECONDS = 1.5e-6
"""Of an iteration in which maxima, and scores that are operands again, pass through shared memory from warp to warp. On
an H200 attention of 128 rows by 16 warps takes 1007 us and by 8 warps 572, in 256 iterations one after another; 16 rows
by 16 warps take 7 us an iteration (docs/measurements/2026-11-26-h200-mended.md)."""


def exchange_seconds(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Seconds of an iteration of a loop that rescales results of dots, by plans whose warps share rows; else 0."""
    if not loop.rescaled or not tensor_rate(loop.tensor_dtype, limits):
        return 0.0
    tiles = ([axis for axis in step.axes if axis != step.reduced] for step in loop.steps if step.reduced is not None)
    rows: Numbers = reduce(np.maximum, map(at.tile, tiles), 0)
    return np.where((rows > 0) & (at.warps * ROWS_OF_A_WARP > rows), EXCHANGE_SECONDS, 0.0)
