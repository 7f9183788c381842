"""The first elements of an axis in the order of their keys: found one after another, or by a threshold.

A threshold is found bit by bit, with a pass over the axis for each; what lies before it is compacted and sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import int32, int64
from ..values import Axis, Scratch, SubscriptReference, Tile
from .current_builder import current_builder
from .elementwise import maximum, minimum, where
from .sorting_network import axes_beside, length_of, sort_scratchpads

FEW = 16
"""The most elements that are found one after another: with two passes over the axis for each."""


def first_places(key: Tile, along: Axis, first: Axis) -> Tile:
    """The positions of the elements with the smallest keys, int32, along the whole axis `first` and the other axes of
    the keys. In the order of the keys; equal ones in that of their positions."""
    builder = current_builder()
    axes = _, *rest = along, *axes_beside(key, along)
    keys = builder.unnamed_scratch(axes, key.dtype, "keys")
    places = builder.unnamed_scratch(axes, int32, "places")  # only as many as are wanted are there
    keys[axes] = key
    builder.boundary(None)
    wanted = length_of(first)
    if isinstance(wanted, int):
        (_in_turn if wanted <= FEW else _before_a_threshold)(keys, places, wanted)
    else:
        builder.when(
            wanted <= FEW,
            lambda: _in_turn(keys, places, wanted),
            lambda: _before_a_threshold(keys, places, wanted),
        )
    builder.boundary(None)
    last = builder.convert(builder.tile(length_of(along)), int32) - 1
    return minimum(places[(first, *rest)], maximum(last, 0))


def by_key(exists: Tile, is_lower: Tile, mine: Sequence[Tile], theirs: Sequence[Tile]) -> Sequence[Tile]:
    """Of two elements, each a key and a position, the one to keep at a place of a network that sorts them."""
    builder = current_builder()
    is_equal = builder.compare("==", mine[0], theirs[0])
    is_before = (mine[0] < theirs[0]) | (is_equal & (mine[1] < theirs[1]))
    turn = exists & (is_lower ^ is_before)
    return [where(turn, b, a) for a, b in zip(mine, theirs, strict=True)]


def _in_turn(keys: Scratch, places: Scratch, wanted: Any) -> None:
    """Each is the first one after the last."""
    builder = current_builder()
    along, *rest = keys.axes
    least, greatest = keys.dtype.limits
    length = builder.convert(builder.tile(length_of(along)), int32)

    def step(number: Tile, state: Sequence[Tile]) -> Sequence[Tile]:
        last, place = state
        key, position = _elements(keys)
        is_after = (key > last) | (builder.compare("==", key, last) & (position > place))
        found = builder.reduce("min", where(is_after, key, greatest), along)
        is_found = is_after & builder.compare("==", key, found)
        at = builder.broadcast(builder.reduce("min", where(is_found, position, length), along), tuple(rest))
        places[(number, *rest)] = at
        return [builder.broadcast(found, tuple(rest)), at]

    first = [builder.full(least, tuple(rest), keys.dtype), builder.full(-1, tuple(rest), int32)]
    builder.repeat(wanted, first, step)


def _before_a_threshold(keys: Scratch, places: Scratch, wanted: Any) -> None:
    """Those before the last one's key, and as many as are left of those with that key."""
    builder = current_builder()
    along, *rest = keys.axes
    threshold = _last_key(keys, wanted)
    key, position = _elements(keys)
    is_before, is_last = key < threshold, builder.compare("==", key, threshold)
    before, of_last = builder.counts(is_before, along), builder.counts(is_last, along)
    place = where(is_before, before, builder.count(is_before, along) + of_last) - 1
    is_taken = is_before | (is_last & (place < wanted))
    taken = builder.unnamed_scratch(keys.axes, keys.dtype, "taken")
    for memory, tile in ((taken, key), (places, position)):
        builder.store(SubscriptReference.of(memory, (place, *rest)), tile, mask=is_taken)
    builder.boundary(None)
    sort_scratchpads([taken, places], by_key, wanted)


def _last_key(keys: Scratch, wanted: Any) -> Tile:
    """The largest of the `wanted` smallest keys: the largest number that fewer than so many keys are below."""
    builder = current_builder()
    along, *rest = keys.axes
    bits = keys.dtype.bits

    def step(number: Tile, state: Sequence[Tile]) -> Sequence[Tile]:
        (low,) = state
        bit = builder.convert(builder.tile(1, int64) << (bits - 1 - number), keys.dtype)
        higher = low ^ bit  # of signed keys the first bit is set at first
        is_below = _elements(keys)[0] < higher
        is_enough = builder.count(is_below, along) < wanted
        return [builder.broadcast(where(is_enough, higher, low), tuple(rest))]

    (found,) = builder.repeat(bits, [builder.full(keys.dtype.limits[0], tuple(rest), keys.dtype)], step)
    return found


def _elements(keys: Scratch) -> tuple[Tile, Tile]:
    """The keys, and their positions along the axis."""
    builder = current_builder()
    along, *_ = keys.axes
    return keys[keys.axes], builder.broadcast(builder.convert(builder.positions(along), int32), keys.axes)
