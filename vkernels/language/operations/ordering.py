"""Sorting along whole axes of fewer than 2³¹ positions. NaN counts as the largest element, as in torch.

The order is made in scratchpad by Batcher's bitonic network (1968): about (log2 n)² / 2 steps over the whole axis for n
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import DType, bool_, computed, float64, int32, int64
from ..operation import Mistake, operation
from ..values import Axis, Scratch, Tile
from .current_builder import current_builder
from .elementwise import bits, isnan, maximum, minimum, where

Merge = Callable[[Tile, Tile, Sequence[Tile], Sequence[Tile]], Sequence[Tile]]
"""The elements to keep at a position, given whether there are two, and it is the lower one, and the elements."""
_MANTISSA, _BIAS = 52, 1022
"""Of float64: 2 ** (n - 1) up to below 2 ** n has the exponent n + 1022."""


@operation
def sort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The elements along an axis in ascending order, or in descending order. NaN is largest."""
    value, along = _value_along(x, axis)
    if value.dtype.is_float:
        (found,) = _sorted([_as_integers(value)], along, _extremes(descending))
        builder = current_builder()
        kept = builder.broadcast(found[(along, *_others(value, along))], value.axes)
        return _as_floats(kept, value.dtype)
    (found,) = _sorted([value], along, _extremes(descending))
    return _loaded(found, along, value, value.axes)


@operation
def argsort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The positions of the elements along an axis in ascending order, or in descending order; int64.

    Equal elements stay in the order of their positions (the sort is stable). NaN is largest.
    """
    value, along = _value_along(x, axis)
    _, places = _ordered(value, along, descending)(along)
    return current_builder().broadcast(places, value.axes)


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
    found, places = _ordered(value, along, largest)(k)
    axes = tuple(k if axis is along else axis for axis in value.axes)
    builder = current_builder()
    return builder.broadcast(builder.convert(found, value.dtype), axes), builder.broadcast(places, axes)


def _value_along(x: Any, axis: Any) -> tuple[Tile, Axis]:
    builder = current_builder()
    value = builder.tile(x)
    if value.dtype is bool_:
        raise Mistake(TypeMismatchError, "bool is not sorted", "Convert first: `.to(vk.int8)`.", x)
    return value, builder.whole_axis(value, axis, x)


def _loaded(memory: Scratch, first: Axis, value: Tile, axes: tuple[Axis, ...]) -> Tile:
    """A tile like `value` along `axes` from scratchpad, with the index `first` of its first dimension."""
    builder = current_builder()
    others = tuple(axis for axis in axes if axis is not first)
    return builder.broadcast(builder.convert(memory[(first, *others)], value.dtype), axes)


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


def _others(value: Tile, along: Axis) -> tuple[Axis, ...]:
    return tuple(axis for axis in value.axes if axis is not along)


def _ordered(value: Tile, along: Axis, descending: bool) -> Callable[[Axis], tuple[Tile, Tile]]:
    """What loads elements and their positions in order; equal elements by position.

    NaN is infinite meanwhile, with positions outside of the axis: beyond it where it comes last, before it where first.
    """
    builder = current_builder()
    places = builder.broadcast(builder.convert(builder.positions(along), int32), value.axes)
    length = builder.convert(builder.tile(_length(along)), int32)

    def is_before(mine: Sequence[Tile], theirs: Sequence[Tile]) -> Tile:
        less = builder.compare(">" if descending else "<", mine[0], theirs[0])
        is_equal = builder.compare("==", mine[0], theirs[0])
        return less | (is_equal & builder.compare("<", mine[1], theirs[1]))  # type: ignore[no-any-return]

    def merged(exists: Tile, is_lower: Tile, mine: Sequence[Tile], theirs: Sequence[Tile]) -> Sequence[Tile]:
        turn = exists & (is_lower ^ is_before(mine, theirs))
        return [where(turn, b, a) for a, b in zip(mine, theirs, strict=True)]

    is_nan = isnan(value) if value.dtype.is_float else None
    if is_nan is not None:
        places = where(is_nan, places - length if descending else places + length, places)
        value = where(is_nan, float("inf"), value)
    values, numbers = _sorted([value, places], along, merged)

    def loaded(first: Axis) -> tuple[Tile, Tile]:
        """The first elements along an axis, and their positions, in the order of the axes of scratchpad."""
        here = (first, *_others(value, along))
        found, place = values[here], numbers[here]
        if is_nan is not None:
            was_nan = place < 0 if descending else place >= length
            found = where(was_nan, float("nan"), found)
            place = where(was_nan, place + length if descending else place - length, place)
        return found, builder.convert(place, int64)

    return loaded


def _length(along: Axis) -> Any:
    return along.extent if isinstance(along.extent, int) else along.size


def _sorted(tiles: Sequence[Tile], along: Axis, merged: Merge) -> list[Scratch]:
    """Tiles in scratchpad, whose first dimension is `along`, ordered along it together.

    Every comparison of the network puts the lower position first, so positions from the axis's length on need not
    exist: they would hold what comes last. A run of 2 ** r elements, r = 1, 2, …, merges in r steps: in the first the
    mirrored position is compared, in the others the one 2 ** (r - 2), 2 ** (r - 3), … apart.
    """
    builder = current_builder()
    rest = _others(tiles[0], along)
    memories = [
        builder.unnamed_scratch((along, *rest), computed(tile.dtype), f"sorted{number}")
        for number, tile in enumerate(tiles)
    ]
    here = (along, *rest)
    for memory, tile in zip(memories, tiles, strict=True):
        memory[here] = tile
    builder.boundary(None)
    length = _length(along)

    def step(_: Tile, state: Sequence[Tile]) -> Sequence[Tile]:
        run, apart = state
        position = builder.positions(along)
        mirror = builder.compare("==", apart * 2, run)
        other = position ^ where(mirror, run - 1, apart)
        exists = builder.compare("<", other, length)
        there = (minimum(other, length - 1), *rest)
        mine, theirs = [memory[here] for memory in memories], [memory[there] for memory in memories]
        kept = merged(exists, builder.compare("<", position, other), mine, theirs)
        builder.boundary(None)
        for memory, tile in zip(memories, kept, strict=True):
            memory[here] = tile
        done = builder.compare("==", apart, 1)
        return [where(done, run * 2, run), where(done, run, apart // 2)]

    runs = _bit_length(length)
    one, two = (builder.tile(number, int64) for number in (1, 2))
    builder.repeat(runs * (runs + 1) // 2, [two, one], step)
    builder.boundary(None)
    return memories


def _bit_length(length: Any) -> Any:
    """The number of bits of `length` - 1: the power of two from which on a run has all elements."""
    if isinstance(length, int):
        return max(length - 1, 0).bit_length()
    builder = current_builder()
    exponent = bits(builder.convert(length - 1, float64)) >> _MANTISSA
    return maximum(exponent - _BIAS, 0)
