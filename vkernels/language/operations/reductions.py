"""Reductions, inclusive scans and contractions along whole axes.

`axis`: an axis, or for reductions a tuple of axes; optional if the tile has one whole axis.
"""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import int32
from ..operation import Mistake, operation
from ..values import Axis, Tile
from .complex_numbers import by_parts
from .current_builder import current_builder
from .elementwise import isnan, where

_LAST = (1 << 63) - 1


@operation
@by_parts
def sum(x: Any, axis: Any = None) -> Tile:
    """The sum along an axis; int64 for integers and bool. 0 for an empty axis."""
    return current_builder().reduce("sum", x, axis)


@operation
def product(x: Any, axis: Any = None) -> Tile:
    """The product along an axis; int64 for integers and bool. 1 for an empty axis."""
    return current_builder().reduce("product", x, axis)


@operation
def max(x: Any, axis: Any = None) -> Tile:
    """The largest element along an axis; NaN if any is NaN. For an empty axis -inf or the least integer."""
    return current_builder().reduce("max", x, axis)


@operation
def min(x: Any, axis: Any = None) -> Tile:
    """The smallest element along an axis; NaN if any is NaN. For an empty axis inf or the largest integer."""
    return current_builder().reduce("min", x, axis)


def _axes(x: Any, axis: Any) -> tuple[Tile, tuple[Axis, ...]]:
    builder = current_builder()
    value = builder.tile(x)
    given = axis if isinstance(axis, tuple) else (axis,)
    return value, tuple(builder.whole_axis(value, one, x) for one in given)


@operation
@by_parts
def mean(x: Any, axis: Any = None) -> Tile:
    """The sum along an axis divided by its number of positions. NaN for an empty axis."""
    value, axes = _axes(x, axis)
    if not value.dtype.is_float:
        raise Mistake(
            TypeMismatchError, f"expected floats, found {value.dtype.name}", "Convert first: `.to(vk.float32)`.", x
        )
    count: Any = 1
    for one in axes:
        positions = one.extent if isinstance(one.extent, int) else one.size
        count = positions if count == 1 else count * positions
    return sum(value, axes) / count  # type: ignore[no-any-return]


def _first(kind: str, x: Any, axis: Any) -> Tile:
    value, (along,) = _axes(x, axis)
    best = current_builder().reduce(kind, value, along)
    found = current_builder().compare("==", value, best)
    if value.dtype.is_float:
        found = found | isnan(value)
    return min(where(found, along, _LAST), along)


@operation
def argmax(x: Any, axis: Any = None) -> Tile:
    """The first position of the largest element along an axis, or of the first NaN; int64."""
    return _first("max", x, axis)


@operation
def argmin(x: Any, axis: Any = None) -> Tile:
    """The first position of the smallest element along an axis, or of the first NaN; int64."""
    return _first("min", x, axis)


def _truth(x: Any) -> Tile:
    builder = current_builder()
    value = builder.tile(x)
    return value if value.dtype.is_bool else builder.compare("!=", value, 0)


@operation
def any(x: Any, axis: Any = None) -> Tile:
    """Whether any element along an axis is true (not 0); bool. False for an empty axis."""
    return ~all(~_truth(x), axis)  # type: ignore[no-any-return]


@operation
def all(x: Any, axis: Any = None) -> Tile:
    """Whether all elements along an axis are true (not 0); bool. True for an empty axis."""
    builder = current_builder()
    truth = _truth(x)
    _axes(truth, axis)
    return builder.compare("!=", builder.reduce("min", builder.convert(truth, int32), axis), 0)  # type: ignore[no-any-return]


@operation
@by_parts
def cumulative_sum(x: Any, axis: Any = None) -> Tile:
    """The sum of each element and all before it; int64 for integers and bool."""
    return current_builder().scan("sum", x, axis)


@operation
def cumulative_product(x: Any, axis: Any = None) -> Tile:
    """The product of each element and all before it; int64 for integers and bool."""
    return current_builder().scan("product", x, axis)


@operation
def cumulative_max(x: Any, axis: Any = None) -> Tile:
    """The largest of each element and all before it; NaN from the first NaN on."""
    return current_builder().scan("max", x, axis)


@operation
def cumulative_min(x: Any, axis: Any = None) -> Tile:
    """The smallest of each element and all before it; NaN from the first NaN on."""
    return current_builder().scan("min", x, axis)


@operation
def dot(
    a: Any,
    b: Any,
    acc: Any = None,
    axis: Any = None,
    precision: str = "ieee",
    a_scale: Any = None,
    b_scale: Any = None,
) -> Tile:
    """Products of a and b, summed along the whole axis that both have. `acc`, if given, is added.

    Other axes that both have are batch axes. `axis`: of several shared axes, the one, or the tuple of those, to sum
    along. `precision`: "ieee", or "tf32", which allows devices to round f32 operands to tf32, and to add up to 128
    products of f8 in fewer bits. `a_scale`, `b_scale`: factors of a and b, see [scaled dots](#scaled-dots). The result
    is f32 for f16, bf16 and f8, int32 for narrower integers, and uint32 if both are uint16. A float sum of products
    (`vk.sum(a[i, k] * b[k, j], axis=k)`) is a dot, too.
    """
    return current_builder().dot(a, b, acc, axis, precision, (a_scale, b_scale))  # type: ignore[no-any-return]
