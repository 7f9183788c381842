"""Words and dots on dot units, bit for bit as the processors compute them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.dialects.builtin import bf16, f16, i64
from xdsl.ir import Operation, SSAValue

from ..dialect import WordDotOp, WordsOp, axes_of, element_of
from ..word_kinds import KINDS, MATRIX_SIDE, SPLIT_ELEMENTS, WordKind
from .numbers import Array, from_storage, round_sum, to_storage
from .state import Handler, TileInterpreter, align

LEAST_NORMAL = np.float32(2.0**-126)
_ELEMENTS: dict[str, type[np.generic]] = {"s8": np.int8, "u8": np.uint8, "bf16": np.uint16, "f16": np.float16}
"""The elements of words as they are stored."""


def _words(_: TileInterpreter, op: WordsOp, tile: Array) -> Array:
    """Elements joined to words: their bytes, side by side."""
    number = axes_of(op.tile).index(op.axis.data)
    stored = np.moveaxis(to_storage(tile, element_of(op.tile)), number, -1)
    if op.is_split:
        return np.moveaxis(split_words(np.ascontiguousarray(stored)), -1, number)
    words = np.int64 if element_of(op.result) == i64 else np.int32
    return np.moveaxis(np.ascontiguousarray(stored).view(words), -1, number)


def split_words(elements: Array) -> Array:
    """Numbers of f16 along the last axis as words of two parts, bf16 each, whose sum they are."""
    values = elements.view(np.float16).astype(np.float32)
    bits = np.where(values == 0, np.uint32(0), (values.view(np.uint32) - np.uint32(1)) & np.uint32(0xFFFF0000))
    with np.errstate(invalid="ignore"):
        rest = (values - bits.view(np.float32)).view(np.uint32)
    parts = [part.reshape(*part.shape[:-1], -1, 2, MATRIX_SIDE) for part in (bits, rest)]
    words = [part[..., 0, :] >> np.uint32(16) | part[..., 1, :] for part in parts]
    return np.concatenate(words, axis=-1).reshape(elements.shape).view(np.int32)


def _word_dot(_: TileInterpreter, op: WordDotOp, left: Array, right: Array, total: Array) -> Array:
    axes = tuple(dict.fromkeys((*axes_of(op.sum), op.axis.data)))
    kind = KINDS[op.kind.data]
    sides = [_last(op.left, left, axes), _last(op.right, right, axes)]
    width = np.int64 if kind.block else np.int32
    sides = [side.astype(width, copy=False) for side in sides]
    one, other = (_elements(side, _ELEMENTS[e]) for side, e in zip(sides, (kind.left, kind.right), strict=True))
    if kind.split:
        return _dot_of_parts(kind, sides[0], sides[1], np.asarray(total))
    if kind.sum == "i32":
        products = (one.astype(np.int32) * other.astype(np.int32)).sum(axis=-1, dtype=np.int64)
        return np.asarray((np.asarray(total, np.int64) + products).astype(np.int32))
    element = bf16 if kind.left == "bf16" else f16
    one, other = np.broadcast_arrays(*(_flushed(from_storage(side, element)) for side in (one, other)))
    start = _flushed(np.broadcast_to(total, one.shape[:-1]).astype(np.float32))
    if kind.odd:
        return _added_to_odd(start, one, other)
    if not kind.matrix:
        order = [word + n for word in range(0, one.shape[-1], kind.depth) for n in reversed(range(kind.depth))]
        return _added(start, one, other, order)
    at_once = MATRIX_SIDE * kind.depth
    for begin in range(0, one.shape[-1], at_once):
        start = _added_at_once(start, *(side[..., begin : begin + at_once] for side in (one, other)))
    return start


def _dot_of_parts(kind: WordKind, left: Array, right: Array, total: Array) -> Array:
    """The sum with the products of each part of one operand's elements with each of the other's."""
    one, other = np.broadcast_arrays(left, right)
    start = _flushed(np.broadcast_to(total, one.shape[:-1]).astype(np.float32))
    for begin in range(0, one.shape[-1], SPLIT_ELEMENTS):
        for parts in kind.products:
            places = (begin + part * MATRIX_SIDE for part in parts)
            words = (side[..., at : at + MATRIX_SIDE] for side, at in zip((one, other), places, strict=True))
            start = _added_at_once(start, *(from_storage(_elements(each, np.uint16), bf16) for each in words))
    return start


def _added_at_once(total: Array, one: Array, other: Array) -> Array:
    """The sum with the products that a matrix unit adds up at once: at even places and at odd ones by themselves."""
    nothing = np.zeros_like(total)
    first, second = (_added(nothing, one, other, range(n, one.shape[-1], 2)) for n in range(2))
    return _flushed(total + _flushed(first + second))


def _added(total: Array, one: Array, other: Array, order: Iterable[int]) -> Array:
    """The sum with the products at some places, each rounded into it."""
    for place in order:
        product = one[..., place].astype(np.float64) * other[..., place].astype(np.float64)
        total = _flushed(round_sum(total, product))
    return total


def _added_to_odd(total: Array, one: Array, other: Array) -> Array:
    """The sum with the products of pairs, rounded to odd throughout. Products of bf16 have at most 16 bits: only those
    out of range are rounded."""
    exact = one.astype(np.float64) * other.astype(np.float64)
    products = to_odd(exact, np.zeros_like(exact))
    for place in range(0, one.shape[-1], 2):
        both = to_odd(products[..., place].astype(np.float64), products[..., place + 1].astype(np.float64))
        total = to_odd(total.astype(np.float64), both.astype(np.float64))
    return total


def to_odd(one: Array, other: Array) -> Array:
    """The sum of numbers of f32 in f64, or a product and 0, as f32: cut off, the last bit set where anything was cut
    off; 0 below the least normal number, infinity beyond the greatest."""
    with np.errstate(all="ignore"):
        total = one + other
        part = total - one
        error = (one - (total - part)) + (other - part)
        bits = total.view(np.int64)
        sign, size = bits & np.int64(-(2**63)), bits & np.int64(2**63 - 1)
        size = size - ((error != 0) & ((error < 0) != (bits < 0)))  # toward 0
        sticky = ((size & (2**29 - 1)) != 0) | (error != 0)
        narrow = (size >> 29) - ((1023 - 127) << 23) | sticky
        narrow = np.where(size >> 52 < 1023 - 126, 0, np.where(size >> 52 > 1023 + 127, 0x7F800000, narrow))
        result = (narrow | (sign >> 32 & 0x80000000)).astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(total), result, total.astype(np.float32))


def _last(value: SSAValue, array: Array, axes: tuple[str, ...]) -> Array:
    """An operand with the axes of the sum and the contracted one, which is the last."""
    return np.ascontiguousarray(align(array, axes_of(value), axes))


def _elements(words: Array, kind: type[np.generic]) -> Array:
    """The elements of the words, along the last axis."""
    return np.ascontiguousarray(words).view(kind)


def _flushed(values: Array) -> Array:
    """Numbers below the least normal one become 0 of their sign."""
    return np.where(np.abs(values) < LEAST_NORMAL, np.copysign(np.float32(0), values), values).astype(np.float32)


WORD_HANDLERS: dict[type[Operation], Handler] = {WordsOp: _words, WordDotOp: _word_dot}
