"""Sorting along whole axes. NaN counts as the largest element, as in torch.

Batcher's bitonic network (1968) in scratchpad: about (log2 n)² / 2 steps for n elements, each of the whole axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import bool_, computed, float64, int64
from ..operation import Mistake, operation
from ..values import Axis, Scratch, Tile
from .current_builder import current_builder
from .elementwise import bits, isnan, maximum, minimum, where

_MANTISSA, _BIAS = 52, 1022
"""Of float64: 2 ** (n - 1) up to below 2 ** n has the exponent n + 1022."""


@operation
def sort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The elements along an axis in ascending order, or in descending order. NaN is largest."""
    value, along = _value_along(x, axis)
    (found,) = _sorted([value], along, lambda mine, theirs: _is_before(mine[0], theirs[0], descending))
    return _loaded(found, along, value, value.axes)


@operation
def argsort(x: Any, axis: Any = None, descending: bool = False) -> Tile:
    """The positions of the elements along an axis in ascending order, or in descending order; int64.

    Equal elements stay in the order of their positions (the sort is stable). NaN is largest.
    """
    value, along = _value_along(x, axis)
    _, places = _ordered(value, along, descending)
    return current_builder().broadcast(places[(along, *_others(value, along))], value.axes)


@operation
def topk(x: Any, k: Any, axis: Any = None, largest: bool = True) -> tuple[Tile, Tile]:
    """The largest (or smallest) elements along an axis in order, and their positions, along the whole axis `k`.

    `values, places = vk.topk(x[i, j], k, axis=j)` with `k = vk.whole(8)`, which must not be longer than the axis.
    Of equal elements those of lower positions come first. NaN is largest.
    """
    value, along = _value_along(x, axis)
    if not isinstance(k, Axis) or k.kind != "whole" or k in value.axes:
        raise Mistake(AxisError, "expected a whole axis that the tile lacks", "Such as `k = vk.whole(8)`.", k)
    if isinstance(k.extent, int) and isinstance(along.extent, int) and k.extent > along.extent:
        raise Mistake(AxisError, f"`{along.name}` has {along.extent} positions, `{k.name}` {k.extent}", culprit=k)
    values, places = _ordered(value, along, largest)
    axes = tuple(k if axis is along else axis for axis in value.axes)
    at = current_builder().broadcast(places[(k, *_others(value, along))], axes)
    return _loaded(values, k, value, axes), at


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


def _others(value: Tile, along: Axis) -> tuple[Axis, ...]:
    return tuple(axis for axis in value.axes if axis is not along)


def _is_before(mine: Tile, theirs: Tile, descending: bool) -> Tile:
    """Whether one element comes before another in order: false for equal ones, and for two NaN."""
    first, second = (theirs, mine) if descending else (mine, theirs)
    less = current_builder().compare("<", first, second)
    if mine.dtype.is_float:
        less = less | (isnan(second) & ~isnan(first))
    return less  # type: ignore[no-any-return]


def _ordered(value: Tile, along: Axis, descending: bool) -> Sequence[Scratch]:
    """Elements and their positions in scratchpad, in order; equal elements by position."""

    def is_before(mine: Sequence[Tile], theirs: Sequence[Tile]) -> Tile:
        before, after = (_is_before(*pair, descending) for pair in ((mine[0], theirs[0]), (theirs[0], mine[0])))
        return before | (~after & current_builder().compare("<", mine[1], theirs[1]))  # type: ignore[no-any-return]

    builder = current_builder()
    places = builder.broadcast(builder.positions(along), value.axes)
    return _sorted([value, places], along, is_before)


def _sorted(
    tiles: Sequence[Tile], along: Axis, is_before: Callable[[Sequence[Tile], Sequence[Tile]], Tile]
) -> list[Scratch]:
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
    length = along.extent if isinstance(along.extent, int) else along.size

    def step(_: Tile, state: Sequence[Tile]) -> Sequence[Tile]:
        run, apart = state
        position = builder.positions(along)
        mirror = builder.compare("==", apart * 2, run)
        other = position ^ where(mirror, run - 1, apart)
        exists = builder.compare("<", other, length)
        there = (minimum(other, length - 1), *rest)
        mine, theirs = [memory[here] for memory in memories], [memory[there] for memory in memories]
        is_lower = builder.compare("<", position, other)
        first, second = is_before(mine, theirs), is_before(theirs, mine)
        turn = exists & ((is_lower & second) | (~is_lower & first))
        kept = [where(turn, b, a) for a, b in zip(mine, theirs, strict=True)]
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
