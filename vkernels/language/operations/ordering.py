"""Sorting along whole axes of fewer than 2³¹ positions. NaN counts as the largest element, as in torch.

The order is made in scratchpad by Batcher's bitonic network (1968): about (log2 n)² / 2 steps over the whole axis for n
elements. `vk.topk` first selects: with a pass or two over the axis for each of a few elements, else with one for each
bit of an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import DType, bool_, computed, int32, int64
from ..operation import Mistake, operation
from ..values import Axis, Tile
from .current_builder import current_builder
from .elementwise import bits, isnan, maximum, minimum, where
from .selecting import by_key, first_places
from .sorting_network import Merge, axes_beside, sort_together


@operation
def sort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The elements along an axis in ascending order, or in descending order. NaN is largest."""
    value, along = _value_along(x, axis)
    is_float = value.dtype.is_float
    (found,) = sort_together([_as_integers(value) if is_float else value], along, _extremes(descending))
    builder = current_builder()
    kept = builder.broadcast(found[(along, *axes_beside(value, along))], value.axes)
    return _as_floats(kept, value.dtype) if is_float else builder.convert(kept, value.dtype)


@operation
def argsort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The positions of the elements along an axis in ascending order, or in descending order; int64.

    Equal elements stay in the order of their positions (the sort is stable). NaN is largest.
    """
    value, along = _value_along(x, axis)
    builder = current_builder()
    places = builder.broadcast(builder.convert(builder.positions(along), int32), value.axes)
    _, found = sort_together([_keys(value, descending), places], along, by_key)
    place = builder.convert(found[(along, *axes_beside(value, along))], int64)
    return builder.broadcast(place, value.axes)


@operation
def topk(x: Any, k: Any, axis: Any = None, largest: bool = True) -> tuple[Tile, Tile]:
    """The largest (or smallest) elements along an axis, in order, and their positions.

    Both results lie along the whole axis `k`: `values, places = vk.topk(x[i, j], k, axis=j)` with `k = vk.whole(8)`.
    `k` must not be longer than the axis. Equal elements stay in the order of their positions. NaN is largest.
    """
    value, along = _value_along(x, axis)
    if not isinstance(k, Axis) or k.kind != "whole" or k in value.axes:
        raise Mistake(AxisError, "expected a whole axis that the tile lacks", "Such as `k = vk.whole(8)`.", k)
    if isinstance(k.extent, int) and isinstance(along.extent, int) and k.extent > along.extent:
        raise Mistake(AxisError, f"`{along.name}` has {along.extent} positions, `{k.name}` {k.extent}", culprit=k)
    builder = current_builder()
    rest, axes = axes_beside(value, along), tuple(k if axis is along else axis for axis in value.axes)
    kept = builder.unnamed_scratch((along, *rest), computed(value.dtype), "values")
    kept[(along, *rest)] = value
    places = first_places(_keys(value, largest), along, k)
    found = builder.convert(kept[(places, *rest)], value.dtype)
    return builder.broadcast(found, axes), builder.broadcast(builder.convert(places, int64), axes)


def _value_along(x: Any, axis: Any) -> tuple[Tile, Axis]:
    builder = current_builder()
    value = builder.tile(x)
    if value.dtype is bool_:
        raise Mistake(TypeMismatchError, "bool is not sorted", "Convert first: `.to(vk.int8)`.", x)
    return value, builder.whole_axis(value, axis, x)


def _extremes(descending: bool) -> Merge:
    """The smaller element for the lower position; the larger one if `descending`."""

    def merged(exists: Tile, is_lower: Tile, mine: Sequence[Tile], theirs: Sequence[Tile]) -> Sequence[Tile]:
        ends = [minimum(mine[0], theirs[0]), maximum(mine[0], theirs[0])]
        lower, upper = reversed(ends) if descending else ends
        return [where(exists, where(is_lower, lower, upper), mine[0])]

    return merged


def _as_integers(value: Tile) -> Tile:
    """Floats as integers in their order, NaN the largest."""
    number = bits(where(isnan(value), float("nan"), value))
    greatest = number.dtype.limits[1]
    return where(isnan(value), greatest, where(number < 0, number ^ greatest, number))


def _as_floats(number: Tile, dtype: DType) -> Tile:
    """The floats that integers stand for; of the largest, NaN."""
    builder = current_builder()
    greatest = number.dtype.limits[1]
    value = builder.from_bits(where(number < 0, number ^ greatest, number), dtype)
    return where(builder.compare("==", number, greatest), float("nan"), value)


def _keys(value: Tile, descending: bool) -> Tile:
    """Integers in the ascending or descending order of elements; -0 equals 0, as in comparisons."""
    key = (
        _as_integers(where(current_builder().compare("==", value, 0.0), 0.0, value)) if value.dtype.is_float else value
    )
    return ~key if descending else key
