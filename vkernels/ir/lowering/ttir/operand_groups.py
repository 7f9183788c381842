"""Operands of dots as they are loaded: with one dimension for each side of the dot, however many axes it has.

Triton copies a load to shared memory in pipelined loops only if the dot takes it as it is: a tile that is reshaped
first goes through registers, and its addresses take one for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from vkernels.ir.analysis.dot_orientation import LEAST_ROWS, prefers_turned
from vkernels.ir.dialect import (
    AccessOp,
    BufferType,
    DotOp,
    LoadOp,
    ScaledDotOp,
    TensorArgumentType,
    arith,
    axes_of,
    sizes_of,
    tt,
)

from .builder import TtirBuilder
from .tiles import transposed


@dataclass(frozen=True)
class DotShape:
    """The axes of a dot: of both operands (a batch), of the left alone, of the right alone, and contracted."""

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axis: str
    sizes: dict[str, int]

    def count(self, axes: Sequence[str]) -> int:
        return prod(self.sizes[axis] for axis in axes)


def dot_shape(operation: DotOp | ScaledDotOp) -> DotShape:
    left, right, axis = axes_of(operation.left), axes_of(operation.right), operation.axis.data
    return DotShape(
        tuple(a for a in left if a in right and a != axis),
        tuple(a for a in left if a not in right),
        tuple(a for a in right if a not in left),
        axis,
        {**sizes_of(operation.left), **sizes_of(operation.right)},
    )


def is_turned(operation: DotOp, shape: DotShape) -> bool:
    """Whether the right operand gives the rows of Triton's dot."""
    return prefers_turned(operation) and shape.count(shape.columns) >= min(shape.count(shape.rows), LEAST_ROWS)


def operand_groups(load: AccessOp) -> tuple[tuple[str, ...], ...] | None:
    """The axes of each dimension of a load for a dot of which a side has several axes; None for other loads."""
    used = _user(load.tile) if isinstance(load, LoadOp) else None
    in_memory = isinstance(load.base.type, TensorArgumentType | BufferType)
    if used is None or not in_memory or load.mask is not None or any(_is_tile(offset) for offset in load.offsets):
        return None
    dot, is_left = used
    shape = dot_shape(dot)
    if shape.count(shape.batch) > 1 or len(axes_of(load.tile)) <= 2:
        return None
    side = (*shape.batch, *(shape.rows if is_left else shape.columns))  # of a batch there is one position
    return (side, (shape.axis,)) if is_left != is_turned(dot, shape) else ((shape.axis,), side)


def apart(
    build: TtirBuilder, value: SSAValue, groups: Sequence[tuple[str, ...]], axes: Sequence[str], sizes: Sequence[int]
) -> SSAValue:
    """A tile with one dimension for each group of axes as one with a dimension for each axis."""
    order = [axis for group in groups for axis in group]
    lengths = [sizes[axes.index(axis)] for axis in order]
    return transposed(build, build.pure(tt.ReshapeOp(value, lengths)), order, axes)


def _user(value: SSAValue) -> tuple[DotOp, bool] | None:
    """The dot that alone takes a value, converted or not, and whether as its left operand."""
    use = value.get_user_of_unique_use()
    if isinstance(use, arith.ExtFOp | arith.ExtSIOp):
        return _user(use.results[0])
    return (use, use.left is value) if isinstance(use, DotOp) and value is not use.sum else None


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)
