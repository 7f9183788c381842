"""Replay the same blocks with allocators that do not know lifetimes, to compare them with a pool."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Protocol

from .trace import Lifetime

ITERATIONS = 3
"""Iterations to replay: the first leaves gaps that the next ones fill differently."""
SMALLEST = 512
"""Sizes are multiples of this many bytes, in torch and in CnMem."""
MIB = 1 << 20
SMALL = 1 * MIB
"""Maximum bytes of a small request, and of an unused rest of a large chunk."""
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
OWN_SEGMENT = 10 * MIB
"""Requests of at least this size get a segment of their own, rounded up to 2 MiB."""


class Allocator(Protocol):
    """`reserved`: bytes taken from the device, which never decrease."""

    reserved: int

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes."""

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""


def replay(blocks: Sequence[Lifetime], count: int, allocator: Allocator, iterations: int = ITERATIONS) -> int:
    """Return the bytes that an allocator has reserved after some iterations.

    At each moment the blocks that end there are freed, then those that begin there are allocated, in the blocks' order.
    Blocks that live all the time are allocated first, once. Empty blocks are skipped.
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


class Chunks:
    """Segments cut into chunks: the smallest free chunk that is large enough is used, and free neighbours merge."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []
        """Size and address of free chunks, ascending."""
        self._sizes: dict[int, int] = {}
        """Of free chunks, by address."""
        self._starts: dict[int, int] = {}
        """Of free chunks, by their end."""
        self._used: dict[int, int] = {}
        """Sizes of used chunks, by address."""
        self._segments: set[int] = set()

    def add(self, address: int, size: int) -> None:
        """Add a free segment, which merges with no other."""
        self._segments.add(address)
        self.extend(address, size)

    def tail(self, end: int) -> int:
        """Return the size of the free chunk that ends at `end`, 0 if there is none."""
        return end - self._starts.get(end, end)

    def take(self, size: int, least_rest: int) -> int | None:
        """Return the address of a chunk, split if at least `least_rest` bytes are left; None: none is large enough."""
        at = bisect_left(self._free, (size, -1))
        if at == len(self._free):
            return None
        whole, address = self._free[at]
        self._remove(address)
        if whole - size >= least_rest:
            self._put(address + size, whole - size)
            whole = size
        self._used[address] = whole
        return address

    def give(self, address: int) -> None:
        """Free a chunk."""
        self.extend(address, self._used.pop(address))

    def extend(self, address: int, size: int) -> None:
        """Add free bytes to a segment, merged with their free neighbours."""
        end, before = address + size, self._starts.get(address)
        if end in self._sizes and end not in self._segments:
            size += self._remove(end)
        if before is not None and address not in self._segments:
            size += self._remove(before)
            address = before
        self._put(address, size)

    def _put(self, address: int, size: int) -> None:
        insort(self._free, (size, address))
        self._sizes[address], self._starts[address + size] = size, address

    def _remove(self, address: int) -> int:
        size = self._sizes.pop(address)
        del self._starts[address + size]
        del self._free[bisect_left(self._free, (size, address))]
        return size


def rounded(size: int, unit: int = SMALLEST) -> int:
    """Round a size up to a multiple of `unit`, at least one."""
    return max(1, -(-size // unit)) * unit


class CachingAllocator:
    """The rules of torch's allocator for CUDA, with its default settings and unlimited memory.

    Requests are rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, others from segments of 20 MiB,
    from 10 MiB on from one of their own, rounded up to 2 MiB. The smallest free chunk that is large enough is taken,
    and split if 512 bytes (small) or more than 1 MiB (large) are left. Segments are kept. Modelled after the
    documentation and not compared with a device; streams, garbage collection and out-of-memory handling are left out.
    """

    def __init__(self) -> None:
        self.reserved = 0
        self._small, self._large = Chunks(), Chunks()
        self._owner: dict[int, Chunks] = {}

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes."""
        size = rounded(size)
        is_small = size <= SMALL
        chunks, least_rest = (self._small, SMALLEST) if is_small else (self._large, SMALL + 1)
        address = chunks.take(size, least_rest)
        if address is None:
            segment = SMALL_SEGMENT if is_small else LARGE_SEGMENT if size < OWN_SEGMENT else rounded(size, 2 * MIB)
            chunks.add(self.reserved, segment)
            self.reserved += segment
            address = chunks.take(size, least_rest)
            assert address is not None  # the segment is large enough
        self._owner[address] = chunks
        return address

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""
        self._owner.pop(address).give(address)


class BestFitPool:
    """One pool that serves requests as they arrive, like CnMem's, in units of 512 bytes.

    The smallest free chunk that is large enough is split. If there is none, the pool grows at its end by the missing
    bytes: an ideal that a pool of several pieces does not reach.
    """

    def __init__(self) -> None:
        self.reserved = 0
        self._chunks = Chunks()

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes."""
        size = rounded(size)
        address = self._chunks.take(size, SMALLEST)
        if address is None:
            missing = size - self._chunks.tail(self.reserved)
            self._chunks.extend(self.reserved, missing)
            self.reserved += missing
            address = self._chunks.take(size, SMALLEST)
            assert address is not None  # the end is large enough now
        return address

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""
        self._chunks.give(address)
