"""Offsets for blocks one after another, in several orders: each where it first fits, or where it leaves least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .exact import FAR
from .trace import Lifetime, live_bytes

Order = Callable[[int], tuple[int, ...]]


def orders_of(blocks: Sequence[Lifetime], count: int) -> Iterator[list[int]]:
    """Orders of all blocks, those first that are best for most programs."""
    lengths = [block.end - block.start for block in blocks]
    yield sorted(range(len(blocks)), key=lambda n: (-lengths[n], -blocks[n].size))
    yield sorted(range(len(blocks)), key=lambda n: (-blocks[n].size, -lengths[n]))
    crowds = _crowds(blocks, count)
    yield sorted(range(len(blocks)), key=lambda n: (-crowds[n], -lengths[n]))
    yield sorted(range(len(blocks)), key=lambda n: (-crowds[n], -blocks[n].size))
    yield sorted(range(len(blocks)), key=lambda n: (blocks[n].start, -lengths[n]))
    yield sorted(range(len(blocks)), key=lambda n: -lengths[n] * blocks[n].size)
    yield sorted(range(len(blocks)), key=lambda n: -blocks[n].end)


def _crowds(blocks: Sequence[Lifetime], count: int) -> list[int]:
    """The most bytes live at once while each block is."""
    live = np.array(live_bytes(tuple(blocks), count))
    return [int(max(live[start:end].max() for start, end in block.spans(count))) for block in blocks]


def fit_in_order(blocks: Sequence[Lifetime], count: int, order: Sequence[int], tightest: bool) -> list[int]:
    """An offset for each block: of the gaps that it fits in, the lowest, or (`tightest`) the smallest."""
    placed = _Placed(len(blocks), count)
    offsets = [0] * len(blocks)
    for index in order:
        offsets[index] = placed.put(blocks[index], tightest)
    return offsets


class _Placed:
    """Blocks that have offsets, in the order of these."""

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
