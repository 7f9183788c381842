"""Index expressions that stay sums of axes: `i + 1`, `2 * i + k`, `start[i] + j`."""

from __future__ import annotations

from typing import Any, Protocol

from ..dtypes import uint64
from ..values import Affine, Axis, Tile


class IndexArithmetic(Protocol):
    """The operations that index expressions need of a builder."""

    def binary(self, name: str, left: Any, right: Any) -> Any: ...
    def index_i64(self, value: Tile) -> Tile: ...


def affine_binary(builder: IndexArithmetic, name: str, left: Any, right: Any) -> Affine | None:
    """The sum, difference or multiple of index expressions; None where the result would not be one.

    Index expressions are added up in int64. What holds uint64 is added to axes alone; else it is no index expression.
    """
    if not isinstance(left, Axis | Affine) and not isinstance(right, Axis | Affine):
        return None
    if name == "*":
        index, factor = (left, right) if isinstance(left, Axis | Affine) else (right, left)
        scaled = as_affine(index)
        return _times(builder, scaled, factor) if scaled is not None and _is_whole(factor) else None
    if name not in ("+", "-"):
        return None
    first, second = as_affine(left), as_affine(right)
    if first is None or second is None:
        return None
    if name == "-":
        second = _times(builder, second, -1)
    return None if second is None else _plus(builder, first, second)


def as_affine(value: Any) -> Affine | None:
    """An axis, a whole number or integers as an index expression; None for anything else."""
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


def _plus(builder: IndexArithmetic, first: Affine, second: Affine) -> Affine | None:
    terms = dict(first.terms)
    for axis, coefficient in second.terms:
        terms[axis] = terms.get(axis, 0) + coefficient
    offset = first.offset
    if second.offset is not None:
        if offset is not None and (offset.dtype is uint64 or second.offset.dtype is uint64):
            return None
        offset = second.offset if offset is None else builder.binary("+", _wide(builder, offset), second.offset)
    kept = tuple((axis, coefficient) for axis, coefficient in terms.items() if coefficient)
    return Affine(kept, first.constant + second.constant, offset)


def _times(builder: IndexArithmetic, index: Affine, factor: int) -> Affine | None:
    terms = tuple((axis, coefficient * factor) for axis, coefficient in index.terms if factor)
    offset = index.offset
    if offset is not None and factor != 1:
        if offset.dtype is uint64:
            return None
        offset = builder.binary("*", _wide(builder, offset), factor)
    return Affine(terms, index.constant * factor, offset)


def _wide(builder: IndexArithmetic, offset: Tile) -> Tile:
    """Offsets are added in 64 bits: an index may exceed its tile's own dtype."""
    return offset if offset.weak else builder.index_i64(offset)
