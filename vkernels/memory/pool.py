"""A pool for blocks whose lifetimes are known: an offset for each, and the smallest footprint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd

from vkernels.ir.errors import ArgumentError

from .exact_tries import fit_within
from .pool_orders import fit_in_order, orders_of
from .trace import Lifetime, MemoryTrace, live_bytes

SEARCHED = 600
"""Blocks beyond which orders alone are tried: a step of the search takes time in proportion to their square."""
FIRST_SHARE = 0.5
"""Of the time that is left: for one footprint, before larger ones are searched."""


@dataclass(frozen=True)
class PoolPlacement:
    """Offsets in bytes, aligned with the blocks. `peak`: the most bytes live at once, which no footprint is below.

    `is_smallest`: it was proved that none is smaller.
    """

    offsets: tuple[int, ...]
    footprint: int
    peak: int
    is_smallest: bool


def place_trace(trace: MemoryTrace, seconds: float = 1.0, alignment: int = 1) -> PoolPlacement:
    """The pool of a trace: offsets for its tensors, and after them for scratch, as `MemoryTrace.blocks` has them."""
    return place(trace.blocks(), len(trace.operations), seconds=seconds, alignment=alignment)


def place(
    blocks: Sequence[Lifetime],
    count: int,
    capacity: int | None = None,
    seconds: float = 1.0,
    alignment: int = 1,
    seed: int = 0,
) -> PoolPlacement:
    """Offsets for blocks over `count` moments, with the smallest footprint found in about so many seconds.

    `capacity`: stop as soon as the footprint is within it. `alignment`: of all offsets, and so of sizes. Where the
    orders do not reach the peak, an exact search follows; the same seed gives the same offsets where time does not run
    out. Raises `ArgumentError` for a block that does not live within the moments, and an alignment under 1.
    """
    if alignment < 1:
        raise ArgumentError(f"alignment: expected at least 1, got {alignment}")
    for number, block in enumerate(blocks):
        if not (0 <= block.start < block.end <= block.start + count and block.start < count and block.size >= 0):
            raise ArgumentError(f"block {number}, {block}, does not live within {count} moments")
    aligned = tuple(replace(block, size=-(-block.size // alignment) * alignment) for block in blocks)
    always, rest = _always(aligned, count)
    base = sum(aligned[n].size for n in always)
    some = _place([aligned[n] for n in rest], count, None if capacity is None else capacity - base, seconds, seed)
    offsets = [0] * len(blocks)
    for index, offset in zip(rest, some.offsets, strict=True):
        offsets[index] = base + offset
    below = 0
    for index in always:
        offsets[index] = below
        below += aligned[index].size
    return PoolPlacement(tuple(offsets), base + some.footprint, base + some.peak, some.is_smallest)


def _always(blocks: Sequence[Lifetime], count: int) -> tuple[list[int], list[int]]:
    """Blocks that live all the time, which lie beneath all others at no loss; and others that take room."""
    always = [n for n, block in enumerate(blocks) if block.end - block.start == count]
    return always, [n for n, block in enumerate(blocks) if block.end - block.start < count and block.size]


def _place(blocks: list[Lifetime], count: int, capacity: int | None, seconds: float, seed: int) -> PoolPlacement:
    begun = time.monotonic()
    peak = max(live_bytes(tuple(blocks), count), default=0)
    wanted = max(peak, capacity or 0)
    best = _by_orders(blocks, count, peak, wanted, begun + seconds)
    if best.footprint <= wanted or len(blocks) > SEARCHED:
        return best
    left = begun + seconds - time.monotonic()
    return _by_search(blocks, count, wanted, best, left, seed) if left > 0 else best


def _by_orders(blocks: list[Lifetime], count: int, peak: int, wanted: int, deadline: float) -> PoolPlacement:
    best = _placement(blocks, _stacked(blocks), peak)
    for order in orders_of(blocks, count):
        for tightest in (False, True):
            if best.footprint <= wanted or time.monotonic() > deadline:
                return best
            found = _placement(blocks, fit_in_order(blocks, count, order, tightest), peak)
            best = found if found.footprint < best.footprint else best
    return best


def _stacked(blocks: list[Lifetime]) -> list[int]:
    """Offsets at which nothing shares a byte with anything."""
    return [*accumulate((block.size for block in blocks), initial=0)][:-1]


def _placement(blocks: list[Lifetime], offsets: list[int], peak: int) -> PoolPlacement:
    footprint = max((offset + block.size for offset, block in zip(offsets, blocks, strict=True)), default=0)
    return PoolPlacement(tuple(offsets), footprint, peak, footprint == peak)


def _by_search(
    blocks: list[Lifetime], count: int, wanted: int, best: PoolPlacement, seconds: float, seed: int
) -> PoolPlacement:
    """First the footprint that would do, then by halves between what has no offsets and the best that was found."""
    deadline = time.monotonic() + seconds
    unit = gcd(*(block.size for block in blocks))  # all offsets are multiples of it
    proved = low = -(-best.peak // unit) * unit  # below it there are none; below `low` none were found
    tried = max(low, wanted // unit * unit)
    while low < best.footprint and (left := deadline - time.monotonic()) > 0:
        found = fit_within(blocks, count, tried, left if low + unit == best.footprint else left * FIRST_SHARE, seed)
        if found.offsets is None:
            low = tried + unit
            proved = low if found.proved else proved
        else:
            best = _placement(blocks, found.offsets, best.peak)
            if best.footprint <= wanted:
                break
        tried = low + (best.footprint - unit - low) // 2 // unit * unit
    return replace(best, is_smallest=proved >= best.footprint)
