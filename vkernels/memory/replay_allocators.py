"""Allocators to compare a pool with: torch's caching allocator, and one growing pool that fits best."""

from __future__ import annotations

from .replay import Chunks

KiB, MiB = 1 << 10, 1 << 20
SMALLEST = 512
"""Bytes: sizes are multiples of it, in torch and in CnMem."""
SMALL = 1 * MiB
"""Larger requests, and larger rests of a large chunk, are large."""
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MiB, 20 * MiB
OWN_SEGMENT = 10 * MiB
"""Requests from here on have a segment of their own size, rounded up to 2 MiB."""


def rounded(size: int, unit: int = SMALLEST) -> int:
    """A size as a multiple of `unit`, one at least."""
    return max(1, -(-size // unit)) * unit


class CachingAllocator:
    """The rules of torch's allocator for CUDA, with its default settings and memory without end.

    Requests are rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, others from segments of 20 MiB,
    from 10 MiB on from one of their own, rounded up to 2 MiB. The smallest free chunk that is enough is taken, and
    split where 512 bytes (small) or more than 1 MiB (large) are over. Segments are kept. Modelled after its description
    and not compared with a device: streams, garbage collection and releasing memory when none is left are not there.
    """

    def __init__(self) -> None:
        self.reserved = 0
        self._small, self._large = Chunks(), Chunks()
        self._owner: dict[int, Chunks] = {}

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
        size = rounded(size)
        is_small = size <= SMALL
        chunks, least_rest = (self._small, SMALLEST) if is_small else (self._large, SMALL + 1)
        address = chunks.take(size, least_rest)
        if address is None:
            segment = SMALL_SEGMENT if is_small else LARGE_SEGMENT if size < OWN_SEGMENT else rounded(size, 2 * MiB)
            chunks.add(self.reserved, segment)
            self.reserved += segment
            address = chunks.take(size, least_rest)
            assert address is not None  # the segment is large enough
        self._owner[address] = chunks
        return address

    def free(self, address: int) -> None:
        """Takes back what `allocate` gave."""
        self._owner.pop(address).give(address)


class BestFitPool:
    """One pool that serves requests as they arrive, as CnMem's does: the smallest free chunk that is enough, split and
    merged in units of 512 bytes. Where none is enough, the pool grows at its end by what is missing there: an ideal
    that a pool made of several pieces does not reach."""

    def __init__(self) -> None:
        self.reserved = 0
        self._chunks = Chunks()

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
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
        """Takes back what `allocate` gave."""
        self._chunks.give(address)
