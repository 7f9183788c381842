"""A pool for blocks with known lifetimes: an offset for each, and the smallest footprint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd

import numpy as np

from vkernels.ir.errors import ArgumentError

from .exact import FAR, fit_within
from .trace import Lifetime, MemoryTrace, live_bytes

SEARCHED = 600
"""Maximum number of blocks of the exact search: a step takes time in proportion to their square."""
FIRST_SHARE = 0.5
"""Part of the remaining time for one footprint, before larger ones are tried."""
CAPACITY_SHARE = 0.95
"""The same for a capacity that is given."""


@dataclass(frozen=True)
class PoolPlacement:
    """Offsets in bytes, in the blocks' order. `peak`: the most bytes live at once, a lower bound on the footprint.

    `is_smallest`: no smaller footprint is possible.
    """

    offsets: tuple[int, ...]
    footprint: int
    peak: int
    is_smallest: bool


def place_trace(trace: MemoryTrace, seconds: float = 1.0, alignment: int = 1) -> PoolPlacement:
    """Place the blocks of a trace: its tensors, then scratch, in the order of `MemoryTrace.blocks`."""
    return place(trace.blocks(), len(trace.operations), seconds=seconds, alignment=alignment)


def place(
    blocks: Sequence[Lifetime],
    count: int,
    capacity: int | None = None,
    seconds: float = 1.0,
    alignment: int = 1,
    seed: int = 0,
    share: float = CAPACITY_SHARE,
) -> PoolPlacement:
    """Find offsets for blocks over `count` moments, with the smallest footprint found in about so many seconds.

    `capacity`: stop as soon as the footprint is within it; `share`: the part of the time that is spent on it, before
    larger footprints are tried. `alignment`: of all offsets and sizes. If simple orders do
    not reach the peak, an exact search follows. The same seed gives the same offsets unless time runs out. Raises
    `ArgumentError` for a block that does not live within the moments, and an alignment under 1.
    """
    if alignment < 1:
        raise ArgumentError(f"alignment: expected at least 1, got {alignment}")
    for number, block in enumerate(blocks):
        if not (0 <= block.start < block.end <= block.start + count and block.start < count and block.size >= 0):
            raise ArgumentError(f"block {number}, {block}, does not live within {count} moments")
    aligned = [replace(block, size=-(-block.size // alignment) * alignment) for block in blocks]
    offsets, base, rest = [0] * len(blocks), 0, []
    for index, block in enumerate(aligned):
        if block.end - block.start == count:  # blocks that live all the time are below all others, without gaps
            offsets[index] = base
            base += block.size
        elif block.size:
            rest.append(index)
    some = _place(
        [aligned[n] for n in rest], count, None if capacity is None else capacity - base, seconds, seed, share
    )
    for index, offset in zip(rest, some.offsets, strict=True):
        offsets[index] = base + offset
    return PoolPlacement(tuple(offsets), base + some.footprint, base + some.peak, some.is_smallest)


def _place(
    blocks: list[Lifetime], count: int, capacity: int | None, seconds: float, seed: int, share: float
) -> PoolPlacement:
    begun = time.monotonic()
    peak = max(live_bytes(blocks, count), default=0)
    wanted = max(peak, capacity or 0)
    best = _by_orders(blocks, count, peak, wanted, begun + seconds)
    if best.footprint <= wanted or len(blocks) > SEARCHED:
        return best
    left = begun + seconds - time.monotonic()
    share = FIRST_SHARE if capacity is None or capacity < peak else share
    return _by_search(blocks, count, wanted, best, left, share, seed) if left > 0 else best


def _by_orders(blocks: list[Lifetime], count: int, peak: int, wanted: int, deadline: float) -> PoolPlacement:
    stacked = [*accumulate((block.size for block in blocks), initial=0)][:-1]  # always valid
    best = _placement(blocks, stacked, peak)
    for order, tightest in ((order, fit) for order in orders_of(blocks, count) for fit in (False, True)):
        if best.footprint <= wanted or time.monotonic() > deadline:
            break
        best = min(
            best,
            _placement(blocks, fit_in_order(blocks, count, order, tightest), peak),
            key=lambda each: each.footprint,
        )
    return best


def _placement(blocks: list[Lifetime], offsets: list[int], peak: int) -> PoolPlacement:
    footprint = max((offset + block.size for offset, block in zip(offsets, blocks, strict=True)), default=0)
    return PoolPlacement(tuple(offsets), footprint, peak, footprint == peak)


def _by_search(
    blocks: list[Lifetime], count: int, wanted: int, best: PoolPlacement, seconds: float, share: float, seed: int
) -> PoolPlacement:
    """Try the wanted footprint, then halve the interval between what is impossible and the best found.

    `share`: the part of the remaining time that one footprint gets.
    """
    deadline = time.monotonic() + seconds
    unit = gcd(*(block.size for block in blocks))  # all offsets are multiples of it
    proved = low = -(-best.peak // unit) * unit  # below it is impossible; below `low` none were found
    tried = max(low, wanted // unit * unit)
    while low < best.footprint and (left := deadline - time.monotonic()) > 0:
        found = fit_within(blocks, count, tried, left if low + unit == best.footprint else left * share, seed)
        share = FIRST_SHARE
        if found.offsets is None:
            low = tried + unit
            proved = low if found.proved else proved
        else:
            best = _placement(blocks, found.offsets, best.peak)
            if best.footprint <= wanted:
                break
        tried = low + (best.footprint - unit - low) // 2 // unit * unit
    return replace(best, is_smallest=proved >= best.footprint)


def orders_of(blocks: Sequence[Lifetime], count: int) -> Iterator[list[int]]:
    """Yield orders of all blocks; those that are best for most programs come first."""
    live = np.array(live_bytes(blocks, count))
    crowds = [int(max(live[start:end].max() for start, end in block.spans(count))) for block in blocks]
    lengths, sizes = [block.end - block.start for block in blocks], [block.size for block in blocks]
    keys: tuple[Callable[[int], tuple[int, int]], ...] = (
        lambda n: (-lengths[n], -sizes[n]),
        lambda n: (-sizes[n], -lengths[n]),
        lambda n: (-crowds[n], -lengths[n]),
        lambda n: (-crowds[n], -sizes[n]),
        lambda n: (blocks[n].start, -lengths[n]),
        lambda n: (-lengths[n] * sizes[n], 0),
        lambda n: (-blocks[n].end, 0),
    )
    for key in keys:
        yield sorted(range(len(blocks)), key=key)


def fit_in_order(blocks: Sequence[Lifetime], count: int, order: Sequence[int], tightest: bool) -> list[int]:
    """Place each block in the lowest gap that is large enough, or (`tightest`) in the smallest."""
    placed = _Placed(len(blocks), count)
    offsets = [0] * len(blocks)
    for index in order:
        offsets[index] = placed.put(blocks[index], tightest)
    return offsets


class _Placed:
    """Placed blocks, sorted by offset."""

    def __init__(self, most: int, count: int):
        self._rows = np.zeros((4, most), np.int64)  # offset, top, start, end
        self._length, self._count = 0, count

    def put(self, block: Lifetime, tightest: bool) -> int:
        offset = self._offset(block, tightest)
        rows, length = self._rows, self._length
        at = int(np.searchsorted(rows[0, :length], offset, side="right"))
        rows[:, at + 1 : length + 1] = rows[:, at:length]
        rows[:, at] = offset, offset + block.size, block.start, block.end
        self._length += 1
        return offset

    def _offset(self, block: Lifetime, tightest: bool) -> int:
        offsets, tops, starts, ends = self._rows[:, : self._length]
        meet = (starts < block.end) & (ends > block.start) | (ends - self._count > block.start)
        if block.end > self._count:
            meet |= starts < block.end - self._count
        if not meet.any():
            return 0
        begins = np.concatenate(([0], np.maximum.accumulate(tops[meet])))
        rooms = np.concatenate((offsets[meet], [FAR])) - begins
        fits = rooms >= block.size
        return int(begins[np.where(fits, rooms, FAR + 1).argmin() if tightest else fits.argmax()])
