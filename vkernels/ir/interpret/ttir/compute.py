"""The tt dialect's operations on values: shapes, pointers, reductions, scans, products of matrices."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type, i8
from xdsl.ir import Operation, Region

from ...dialect import tt
from ..elementwise import elementwise, reinterpreted
from ..numbers import Array, dtype_of, is_float, round_significand, rounded, storage_of, wrapped
from ..scaled import numbers_of
from ..state import Handler
from .access import TtirInterpreter


def _assume(run: TtirInterpreter, op: tt.AssumeOp, condition: Array) -> None:
    if not condition:
        raise run.state.fault(op, "the code relies on a condition that does not hold")


def _resize(_: TtirInterpreter, op: tt.SplatOp | tt.BroadcastOp, value: Array) -> Array:
    return np.broadcast_to(value, tt.shape(op.result.type))


def _add_pointer(_: TtirInterpreter, op: tt.AddPtrOp, pointer: Array, offset: Array) -> Array:
    pointed = tt.element(op.ptr.type)
    assert isinstance(pointed, tt.PointerType), "addptr moves pointers"
    return np.asarray(pointer + np.asarray(offset).astype(np.int64) * storage_of(pointed.pointee).itemsize)


def _bitcast(_: TtirInterpreter, op: tt.BitcastOp, value: Array) -> Array:
    source, target = tt.element(op.src.type), tt.element(op.result.type)
    return value if isinstance(source, tt.PointerType) else reinterpreted(value, source, target)


def _dot(_: TtirInterpreter, op: tt.DotOp, a: Array, b: Array, c: Array) -> Array:
    """Summed in f64 and rounded once: closer to the exact sum than any GPU comes. tf32 operands lose 13 bits."""
    is_tf32 = op.input_precision.value.data == tt.DotOp.PRECISIONS["tf32"]
    if is_tf32 and isinstance(tt.element(op.a.type), Float32Type):
        a, b = round_significand(a, 10), round_significand(b, 10)
    element = tt.element(op.c.type)
    if is_float(element):
        return rounded(c + np.matmul(a.astype(np.float64), b.astype(np.float64)), element)
    return wrapped(c + np.matmul(a.astype(np.int64), b.astype(np.int64)), dtype_of(element))


def _dot_scaled(_: TtirInterpreter, op: tt.DotScaledOp, a: Array, b: Array, c: Array, sa: Array, sb: Array) -> Array:
    """Products exact in f64, as are elements times scales; summed in f64 and rounded once."""
    sides = ((a, sa, op.a, op.a_scale), (np.swapaxes(b, -1, -2), sb, op.b, op.b_scale))
    left, right = (
        numbers_of(values, scales, tt.element(value.type) == i8, tt.element(scale.type) == i8)
        for values, scales, value, scale in sides
    )
    with np.errstate(invalid="ignore", over="ignore"):
        return rounded(c.astype(np.float64) + np.matmul(left, np.swapaxes(right, -1, -2)), tt.element(op.c.type))


def _reduce(run: TtirInterpreter, op: tt.ReduceOp, *tiles: Array) -> tuple[Array, ...]:
    """The first half with the second, again and again: sizes are powers of two."""
    halves = [np.moveaxis(tile, op.axis.value.data, 0) for tile in tiles]
    while (half := len(halves[0]) // 2) > 0:
        halves = _combined(run, op.body, [t[:half] for t in halves], [t[half:] for t in halves])
    return tuple(tile[0] for tile in halves)


def _scan(run: TtirInterpreter, op: tt.ScanOp, *tiles: Array) -> tuple[Array, ...]:
    """Each element with the sum of those before it, spans of 1, 2, 4, … at a time."""
    axis, step = op.axis.value.data, -1 if op.reverse.value.data else 1
    sums = [np.moveaxis(tile, axis, 0)[::step] for tile in tiles]
    span = 1
    while span < len(sums[0]):
        later = _combined(run, op.body, [t[:-span] for t in sums], [t[span:] for t in sums])
        sums = [np.concatenate([t[:span], new]) for t, new in zip(sums, later, strict=True)]
        span *= 2
    return tuple(np.moveaxis(tile[::step], 0, axis) for tile in sums)


def _along(op: tt.ProgramIdOp | tt.NumProgramsOp, numbers: tuple[int, ...], otherwise: int) -> np.int32:
    """The number of the operation's dimension of the grid."""
    axis = op.axis.value.data
    return np.int32(numbers[axis] if axis < len(numbers) else otherwise)


def _combined(run: TtirInterpreter, body: Region, left: list[Array], right: list[Array]) -> list[Array]:
    """A body of two scalars run on whole tensors of them."""
    return [np.asarray(value) for value in run.run_ssacfg_region(body, (*left, *right), "combine")]


TT_COMPUTE_HANDLERS: dict[type[Operation], Handler] = {
    tt.AssumeOp: _assume,
    tt.ProgramIdOp: lambda run, op: _along(op, run.state.program.coordinates, 0),
    tt.NumProgramsOp: lambda run, op: _along(op, run.grid, 1),
    tt.MakeRangeOp: lambda _, op: np.arange(op.start.value.data, op.end.value.data, dtype=np.int32),
    tt.SplatOp: _resize,
    tt.UnsplatOp: lambda _, op, value: np.reshape(value, ()),
    tt.BroadcastOp: _resize,
    tt.ExpandDimsOp: lambda _, op, value: np.expand_dims(value, op.axis.value.data),
    tt.TransOp: lambda _, op, value: np.transpose(value, [int(d) for d in op.order.get_values()]),
    tt.ReshapeOp: lambda _, op, value: np.reshape(value, tt.shape(op.result.type)),
    tt.JoinOp: lambda _, op, left, right: np.stack((left, right), axis=-1),
    tt.AddPtrOp: _add_pointer,
    tt.BitcastOp: _bitcast,
    tt.PtrToIntOp: lambda _, op, pointer: np.asarray(pointer),
    tt.FpToFpOp: elementwise(np.asarray),
    tt.DotOp: _dot,
    tt.DotScaledOp: _dot_scaled,
    tt.PreciseSqrtOp: elementwise(np.sqrt),
    tt.PreciseDivOp: elementwise(np.divide),
    tt.ReduceOp: _reduce,
    tt.ScanOp: _scan,
}
