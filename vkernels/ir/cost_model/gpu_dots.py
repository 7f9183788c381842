"""What dots take on a GPU: tensor cores, plain units and shared memory."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..analysis.dot_orientation import LEAST_ROWS
from ..analysis.needs import NeedsDevice
from ..analysis.needs.traffic import LEAST_SIDE, least_depth
from ..limits import Limits
from .item_widths import EXACT_FLOAT8, tensor_rate
from .loops import Loop, LoopStep
from .plan_batch import Numbers, PlanBatch

GROUP_ROWS, GROUP_COLUMNS = 64, 256
"""Rows that a group of four warps multiplies at once, at least, and columns at most."""
MOST_WARPS = 8
"""Warps of a program whose results are in tensor memory, at most: with more Triton takes single warps' instructions."""
FROM_SHARED_PART, TENSOR_MEMORY_PART = 0.62, 0.25
"""Part of the tensor cores' rate that instructions of single warps reach where groups of warps have others: on sm_90
(Luo et al. 2024, "Benchmarking and Dissecting the NVIDIA Hopper GPU Architecture"); on sm_100, the rate of sm_80, an
estimate."""
BYTES = ("int8", "float8", EXACT_FLOAT8)
"""Operands of one byte that tensor cores take without scales."""


def tensor_columns(at: PlanBatch, limits: Limits) -> Numbers:
    """Columns of tensor memory that a program's accumulators take: 128 rows of one of 4 bytes each."""
    most: Numbers = 0
    for loop in map(at.alike, at.loops):
        found: Numbers = 0
        for tall, across in (rows_and_columns(step, at) for step in loop.steps if step.is_dot):
            taken = np.ceil(tall / (2 * GROUP_ROWS)) * across
            found = found + np.where(by_warp_groups(tall, at.warps, limits), taken, 0)
        most = np.maximum(most, found if tensor_rate(loop.tensor_dtype, limits) else 0)
    return most


def dot_work(loop: Loop, step: LoopStep, at: PlanBatch, limits: Limits) -> tuple[Numbers, Numbers, Numbers]:
    """For one trip of one program: seconds of tensor cores, operations of plain units, bytes of shared memory."""
    products = at.tile(step.axes)
    (rows, columns), depth = rows_and_columns(step, at), at.tile(step.sides[2])
    rate = tensor_rate(loop.tensor_dtype, limits) if NeedsDevice.of(limits).tensor_cores else 0
    side = np.minimum(rows, columns)
    fits = (side >= LEAST_SIDE) & (depth >= least_depth(loop.operand_bytes)) & (rate > 0)
    stored = _operands(loop, step, at)
    is_wide = fits & by_warp_groups(rows, at.warps, limits)
    # Stored once. Groups of warps read both operands for each instruction, single warps those of a row and a column.
    moved = np.where(is_wide, stored + _read_by_groups(loop, step, at, limits), stored * (1 + np.sqrt(at.warps)))
    slow = np.where(is_wide, 1, single_warp_part(limits))
    tensor = np.where(fits, products / max(rate, 1.0) / slow, 0)
    plain = np.where(fits, 0, products * np.where(np.minimum(side, depth) >= LEAST_SIDE, 1.3, 3))
    return tensor, plain, moved


def by_warp_groups(rows: Numbers, warps: Numbers, limits: Limits) -> Numbers:
    """Whether four warps multiply together, reading operands from shared memory: 64 rows or more, and where results
    are in tensor memory four or eight warps a program (Triton 3.6 and 3.9)."""
    most = MOST_WARPS if limits.tensor_memory else limits.threads
    return limits.dots_from_shared & (rows >= GROUP_ROWS) & (warps >= 4) & (warps <= most)


def takes_bytes_any_way(loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Whether tensor cores read operands of one byte from shared memory whichever axis is contiguous: those whose
    results are in tensor memory, in all dots of a loop (`tcgen05.mma`)."""
    if not limits.tensor_memory or loop.tensor_dtype not in BYTES:
        return False
    rows = (rows_and_columns(step, at)[0] for step in loop.steps if step.is_dot)
    return reduce(np.logical_and, (by_warp_groups(tall, at.warps, limits) for tall in rows), True)


def single_warp_part(limits: Limits) -> float:
    """The part of the tensor cores' rate that single warps reach."""
    return (TENSOR_MEMORY_PART if limits.tensor_memory else FROM_SHARED_PART) if limits.dots_from_shared else 1.0


def _read_by_groups(loop: Loop, step: LoopStep, at: PlanBatch, limits: Limits) -> Numbers:
    """Bytes of operands that instructions of warp groups read: each takes up to 64 rows (128 into tensor memory) and
    256 columns."""
    rows, columns = rows_and_columns(step, at)
    tall = np.ceil(rows / (2 * GROUP_ROWS if limits.tensor_memory else GROUP_ROWS))
    depth = at.tile([axis for axis in step.axes if axis not in {*step.sides[0], *step.sides[1]}])
    return depth * (rows * np.ceil(columns / GROUP_COLUMNS) + columns * tall) * loop.operand_bytes


def rows_and_columns(step: LoopStep, at: PlanBatch) -> tuple[Numbers, Numbers]:
    """Elements of the rows and of the columns of a dot, in the order that `lower_dot` takes its operands."""
    rows, columns = at.tile(step.sides[0]), at.tile(step.sides[1])
    turned = np.asarray(step.turned) & (columns >= np.minimum(rows, LEAST_ROWS))
    return np.where(turned, columns, rows), np.where(turned, rows, columns)


def _operands(loop: Loop, step: LoopStep, at: PlanBatch) -> Numbers:
    """Bytes of both operands of a dot."""
    left, right = _sides(step)
    return (at.tile(left) + at.tile(right)) * loop.operand_bytes


def _sides(step: LoopStep) -> tuple[list[str], list[str]]:
    """The axes of both operands of a dot."""
    rows, columns, _ = step.sides
    return [axis for axis in step.axes if axis not in columns], [axis for axis in step.axes if axis not in rows]
