"""What allocators that do not know lifetimes take for the same blocks: asked and given back as the program runs."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .trace import Lifetime

ITERATIONS = 3
"""How often the iteration is replayed: the first leaves gaps that the next ones fill differently."""


class Allocator(Protocol):
    """Gives out addresses. `reserved`: bytes that it has taken from the device, which never become fewer."""

    reserved: int

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
        ...

    def free(self, address: int) -> None:
        """Takes back what `allocate` gave."""
        ...


def replay(blocks: Sequence[Lifetime], count: int, allocator: Allocator, iterations: int = ITERATIONS) -> int:
    """The bytes that an allocator has taken after some iterations.

    At each moment what ends there is given back, then what begins there is asked for, in the blocks' order. Blocks that
    live all the time are asked for first, once. Blocks of no bytes are left out.
    """
    begin: list[list[int]] = [[] for _ in range(count)]
    end: list[list[int]] = [[] for _ in range(count)]
    for index, block in enumerate(blocks):
        if not block.size:
            continue
        if block.end - block.start == count:
            allocator.allocate(block.size)
        else:
            begin[block.start].append(index)
            end[block.end % count].append(index)
    given: dict[int, int] = {}
    for _ in range(iterations):
        for moment in range(count):
            for index in end[moment]:
                if index in given:
                    allocator.free(given.pop(index))
            for index in begin[moment]:
                given[index] = allocator.allocate(blocks[index].size)
    return allocator.reserved


@dataclass
class _Chunk:
    """A piece of a segment, used or free, between its neighbours there."""

    address: int
    size: int
    before: _Chunk | None = None
    after: _Chunk | None = None
    is_free: bool = False


class Chunks:
    """Segments cut into chunks: the smallest free one that is large enough is given, and free neighbours merge."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []
        """Size and address of free chunks, ascending."""
        self._chunks: dict[int, _Chunk] = {}

    def add(self, address: int, size: int) -> None:
        """A new segment, free, with no neighbours."""
        self._put(_Chunk(address, size))

    def extend(self, address: int, size: int) -> None:
        """Free bytes right after the chunk that ends at `address`, as part of its segment."""
        last = next((each for each in self._chunks.values() if each.address + each.size == address), None)
        chunk = _Chunk(address, size, before=last)
        if last is not None:
            last.after = chunk
        self._chunks[address] = chunk
        self._merge(chunk)

    def tail(self, end: int) -> int:
        """The bytes of the free chunk that ends at `end`, 0 where there is none."""
        return next((size for size, address in self._free if address + size == end), 0)

    def take(self, size: int, least_rest: int) -> int | None:
        """The address of the chosen chunk, split where at least `least_rest` bytes are over; None: none is enough."""
        at = bisect_left(self._free, (size, -1))
        if at == len(self._free):
            return None
        _, address = self._free.pop(at)
        chunk = self._chunks[address]
        chunk.is_free = False
        rest = chunk.size - size
        if rest >= least_rest:
            cut = _Chunk(address + size, rest, chunk, chunk.after)
            if chunk.after is not None:
                chunk.after.before = cut
            chunk.after, chunk.size = cut, size
            self._put(cut)
        return address

    def give(self, address: int) -> None:
        """Takes a chunk back."""
        self._merge(self._chunks[address])

    def _put(self, chunk: _Chunk) -> None:
        chunk.is_free = True
        self._chunks[chunk.address] = chunk
        insort(self._free, (chunk.size, chunk.address))

    def _merge(self, chunk: _Chunk) -> None:
        after, before = chunk.after, chunk.before
        if after is not None and after.is_free:
            chunk = self._join(chunk, after)
        if before is not None and before.is_free:
            chunk = self._join(before, chunk)
        self._put(chunk)

    def _join(self, one: _Chunk, other: _Chunk) -> _Chunk:
        """Both as one; what was free is on the list no more."""
        for each in (one, other):
            if each.is_free:
                del self._free[bisect_left(self._free, (each.size, each.address))]
                each.is_free = False
        del self._chunks[other.address]
        one.size += other.size
        one.after = other.after
        if other.after is not None:
            other.after.before = one
        return one
