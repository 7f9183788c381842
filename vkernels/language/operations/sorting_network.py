"""Tiles sorted in scratchpad by Batcher's bitonic network (1968): about (log2 n)² / 2 steps for n elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import computed, float64, int64
from ..values import Axis, Scratch, SubscriptReference, Tile
from .current_builder import current_builder
from .elementwise import bits, maximum, minimum, where

Merge = Callable[[Tile, Tile, Sequence[Tile], Sequence[Tile]], Sequence[Tile]]
"""The elements to keep at a position, given whether there are two, and it is the lower one, and the elements."""
_MANTISSA, _BIAS = 52, 1022
"""Of float64: 2 ** (n - 1) up to below 2 ** n has the exponent n + 1022."""


def length_of(along: Axis) -> Any:
    """The positions of an axis: an integer, or what stands for it."""
    return along.extent if isinstance(along.extent, int) else along.size


def axes_beside(value: Tile, along: Axis) -> tuple[Axis, ...]:
    """The other axes of a tile."""
    return tuple(axis for axis in value.axes if axis is not along)


def sort_together(tiles: Sequence[Tile], along: Axis, merged: Merge) -> list[Scratch]:
    """Tiles in scratchpad, whose first dimension is `along`, ordered along it together."""
    builder = current_builder()
    axes = (along, *axes_beside(tiles[0], along))
    memories = [
        builder.unnamed_scratch(axes, computed(tile.dtype), f"sorted{number}") for number, tile in enumerate(tiles)
    ]
    for memory, tile in zip(memories, tiles, strict=True):
        memory[axes] = tile
    builder.boundary(None)
    sort_scratchpads(memories, merged)
    return memories


def sort_scratchpads(memories: Sequence[Scratch], merged: Merge, length: Any = None) -> None:
    """Order scratchpads with the same axes along their first one; the first `length` elements alone, where given.

    Every comparison of the network puts the lower position first, so positions from the length on need not exist:
    they would hold what comes last. A run of 2 ** r elements, r = 1, 2, …, merges in r steps: in the first the
    mirrored position is compared, in the others the one 2 ** (r - 2), 2 ** (r - 3), … apart.
    """
    builder = current_builder()
    here = along, *rest = memories[0].axes
    is_part = length is not None
    length = length if is_part else length_of(along)

    def step(_: Tile, state: Sequence[Tile]) -> Sequence[Tile]:
        run, apart = state
        position = builder.positions(along)
        mirror = builder.compare("==", apart * 2, run)
        other = position ^ where(mirror, run - 1, apart)
        exists = builder.compare("<", other, length)
        there = (minimum(other, length - 1), *rest)
        is_there = builder.compare("<", position, length) if is_part else None
        mine, theirs = [
            [builder.load(SubscriptReference.of(memory, index), is_there) for memory in memories]
            for index in (here, there)
        ]
        kept = merged(exists, builder.compare("<", position, other), mine, theirs)
        builder.boundary(None)
        for memory, tile in zip(memories, kept, strict=True):
            builder.store(SubscriptReference.of(memory, here), tile, mask=is_there)
        done = builder.compare("==", apart, 1)
        return [where(done, run * 2, run), where(done, run, apart // 2)]

    runs = _bit_length(length)
    one, two = (builder.tile(number, int64) for number in (1, 2))
    builder.repeat(runs * (runs + 1) // 2, [two, one], step)
    builder.boundary(None)


def _bit_length(length: Any) -> Any:
    """The number of bits of `length` - 1: the power of two from which on a run has all elements."""
    if isinstance(length, int):
        return max(length - 1, 0).bit_length()
    builder = current_builder()
    exponent = bits(builder.convert(length - 1, float64)) >> _MANTISSA
    return maximum(exponent - _BIAS, 0)
