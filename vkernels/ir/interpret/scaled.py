"""Bytes of block-scaled formats as numbers, and dots of scaled operands, products exact in f64."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation, SSAValue

from ..dialect import DecodeOp, RepeatOp, ScaledDotOp, axes_of, element_of
from .numbers import Array, rounded
from .state import Handler, TileInterpreter, align

_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_E2M1 = np.concatenate([_MAGNITUDES, -_MAGNITUDES])
_E8M0 = np.append(np.ldexp(np.float32(1), np.arange(-127, 128)), np.nan).astype(np.float32)


def decoded(bytes_: Array, format: str) -> Array:
    """The numbers of a format of `vk.decode` that bytes hold, as f32."""
    codes = np.asarray(bytes_).astype(np.uint8)
    if format == "e8m0":
        return np.asarray(_E8M0[codes])
    return np.asarray(_E2M1[codes & 15 if format == "e2m1_low" else codes >> 4])


def numbers_of(operand: Array, scale: Array, is_fp4: bool, is_e8m0: bool) -> Array:
    """Elements times their scales, f64; both have the contracted axis last. Two E2M1 in a byte are two elements."""
    values = operand
    if is_fp4:
        halves = [decoded(operand, half) for half in ("e2m1_low", "e2m1_high")]
        values = np.stack(halves, axis=-1).reshape(*operand.shape[:-1], -1)
    factors = (decoded(scale, "e8m0") if is_e8m0 else np.asarray(scale)).astype(np.float64)
    return np.asarray(values.astype(np.float64) * np.repeat(factors, values.shape[-1] // factors.shape[-1], axis=-1))


def _scaled_dot(
    _: TileInterpreter, op: ScaledDotOp, left: Array, ls: Array, right: Array, rs: Array, c: Array
) -> Array:
    sides = ((op.left, left, op.left_scale, ls), (op.right, right, op.right_scale, rs))
    one, other = (_side(op, *side) for side in sides)
    numbers = {axis: n for n, axis in enumerate(dict.fromkeys((*one[1], *other[1])))}
    subscripts = [[numbers[axis] for axis in axes] for axes in (one[1], other[1], axes_of(op.result))]
    with np.errstate(invalid="ignore", over="ignore"):
        products = np.einsum(one[0], subscripts[0], other[0], subscripts[1], subscripts[2])
        return rounded(np.asarray(c, np.float64) + products, element_of(op.result))


def _side(
    op: ScaledDotOp, operand: SSAValue, array: Array, scale: SSAValue, factors: Array
) -> tuple[Array, tuple[str, ...]]:
    axes = tuple(axis for axis in axes_of(operand) if axis != op.axis.data)
    values = align(array, axes_of(operand), (*axes, op.axis.data))
    factors = align(factors, axes_of(scale), (*axes, op.blocks.data))
    return numbers_of(values, factors, element_of(operand) == i8, element_of(scale) == i8), (*axes, op.axis.data)


def _repeated(run: TileInterpreter, op: RepeatOp, tile: Array) -> Array:
    number = axes_of(op.tile).index(op.blocks.data)
    return np.repeat(tile, run.state.shape_of(op.result)[number] // np.shape(tile)[number], axis=number)


SCALED_HANDLERS: dict[type[Operation], Handler] = {
    DecodeOp: lambda _, op, value: decoded(value, op.format.data),
    RepeatOp: _repeated,
    ScaledDotOp: _scaled_dot,
}
