"""Index expressions that stay sums of axes: `i + 1`, `2 * i + k`, `start[i] + j`."""

from __future__ import annotations

from typing import Any

from ..dtypes import int64, uint64
from ..values import Affine, Axis, Tile


def affine_binary(name: str, left: Any, right: Any) -> Affine | None:
    """The sum, difference or multiple of index expressions; None if the result is no index expression.

    Offsets are added in int64. An offset of uint64 can be added to axes only.
    """
    if not isinstance(left, Axis | Affine) and not isinstance(right, Axis | Affine):
        return None
    if name == "*":
        index, factor = (left, right) if isinstance(left, Axis | Affine) else (right, left)
        scaled = as_affine(index)
        return _times(scaled, factor) if scaled is not None and _is_whole(factor) else None
    if name not in ("+", "-"):
        return None
    first, second = as_affine(left), as_affine(right)
    if first is None or second is None:
        return None
    if name == "-":
        second = _times(second, -1)
    return None if second is None else _plus(first, second)


def as_affine(value: Any) -> Affine | None:
    """An axis, a Python integer or a tile of integers as an index expression; None for other values."""
    if isinstance(value, Affine):
        return value
    if isinstance(value, Axis):
        return Affine(((value, 1),))
    if _is_whole(value):
        return Affine((), value)
    if isinstance(value, Tile) and value.dtype.is_int:
        return Affine((), 0, value)
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plus(first: Affine, second: Affine) -> Affine | None:
    terms = dict(first.terms)
    for axis, coefficient in second.terms:
        terms[axis] = terms.get(axis, 0) + coefficient
    offset = first.offset
    if second.offset is not None:
        if offset is not None and (offset.dtype is uint64 or second.offset.dtype is uint64):
            return None
        offset = second.offset if offset is None else _wide(offset) + second.offset
    kept = tuple((axis, coefficient) for axis, coefficient in terms.items() if coefficient)
    return Affine(kept, first.constant + second.constant, offset)


def _times(index: Affine, factor: int) -> Affine | None:
    terms = tuple((axis, coefficient * factor) for axis, coefficient in index.terms if factor)
    offset = index.offset
    if offset is not None and factor != 1:
        if offset.dtype is uint64:
            return None
        offset = _wide(offset) * factor
    return Affine(terms, index.constant * factor, offset)


def _wide(offset: Tile) -> Tile:
    """An offset in 64 bits, because an index may exceed its tile's own dtype."""
    return offset if offset.weak else offset.to(int64)
