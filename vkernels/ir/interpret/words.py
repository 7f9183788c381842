"""Words and dots on dot units, bit for bit as the processors compute them."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import bf16
from xdsl.ir import Operation, SSAValue

from ..dialect import WordDotOp, WordsOp, axes_of, element_of
from ..dialect.words import KINDS
from .numbers import Array, from_storage, round_sum, to_storage
from .state import Handler, TileInterpreter, align

LEAST_NORMAL = np.float32(2.0**-126)
_ELEMENTS: dict[str, tuple[type[np.generic], type[np.generic]]] = {
    "s8s8": (np.int8, np.int8),
    "u8s8": (np.uint8, np.int8),
    "bf16": (np.uint16, np.uint16),
}
"""The elements of both operands' words."""


def _words(_: TileInterpreter, op: WordsOp, tile: Array) -> Array:
    """Elements joined to words: their bytes, side by side."""
    number = axes_of(op.tile).index(op.axis.data)
    stored = np.moveaxis(to_storage(tile, element_of(op.tile)), number, -1)
    return np.moveaxis(np.ascontiguousarray(stored).view(np.int32), -1, number)


def _word_dot(_: TileInterpreter, op: WordDotOp, left: Array, right: Array, total: Array) -> Array:
    axes = tuple(dict.fromkeys((*axes_of(op.sum), op.axis.data)))
    is_float, depth = op.kind.data == "bf16", KINDS[op.kind.data][0]
    sides = [_last(op.left, left, axes), _last(op.right, right, axes)]
    kinds = _ELEMENTS[op.kind.data]
    one, other = (_elements(side, kind) for side, kind in zip(sides, kinds, strict=True))
    if not is_float:
        products = (one.astype(np.int32) * other.astype(np.int32)).sum(axis=-1, dtype=np.int64)
        return np.asarray((np.asarray(total, np.int64) + products).astype(np.int32))
    one, other = np.broadcast_arrays(*(_flushed(from_storage(side, bf16)) for side in (one, other)))
    result = _flushed(np.broadcast_to(total, one.shape[:-1]).astype(np.float32))
    order = [word + n for word in range(0, one.shape[-1], depth) for n in reversed(range(depth))]
    for place in order:
        product = one[..., place].astype(np.float64) * other[..., place].astype(np.float64)
        result = _flushed(round_sum(result, product))
    return result


def _last(value: SSAValue, array: Array, axes: tuple[str, ...]) -> Array:
    """An operand with the axes of the sum and the contracted one, which is the last."""
    return np.ascontiguousarray(align(array, axes_of(value), axes))


def _elements(words: Array, kind: type[np.generic]) -> Array:
    """The elements of the words, along the last axis."""
    return np.ascontiguousarray(words).astype(np.int32, copy=False).view(kind)


def _flushed(values: Array) -> Array:
    """Numbers below the least normal one become 0 of their sign."""
    return np.where(np.abs(values) < LEAST_NORMAL, np.copysign(np.float32(0), values), values).astype(np.float32)


WORD_HANDLERS: dict[type[Operation], Handler] = {WordsOp: _words, WordDotOp: _word_dot}
