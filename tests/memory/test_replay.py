"""Allocators that are replayed: their rules, and that what they give out never overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.memory.pool import place
from vkernels.memory.replay import BestFitPool, CachingAllocator, Chunks, replay
from vkernels.memory.trace import Lifetime, live_bytes

from .drawn import problems

MiB = 1 << 20


class Checked:
    """An allocator whose answers are checked against all that is given out."""

    def __init__(self, inner):
        self.inner, self.given = inner, {}

    @property
    def reserved(self):
        return self.inner.reserved

    def allocate(self, size):
        address = self.inner.allocate(size)
        assert 0 <= address <= address + size <= self.inner.reserved
        for other, length in self.given.items():
            assert address + size <= other or other + length <= address
        self.given[address] = size
        return address

    def free(self, address):
        del self.given[address]
        self.inner.free(address)


@pytest.mark.parametrize("make", [CachingAllocator, BestFitPool])
@given(problem=problems(most=25, moments=10, size=60), unit=st.sampled_from([1, 300, 1 << 19, 3 << 20]))
def test_what_an_allocator_gives_out_never_overlaps(make, problem, unit):
    blocks, count = problem
    blocks = [Lifetime(each.start, each.end, each.size * unit) for each in blocks]
    reserved = replay(blocks, count, Checked(make()))
    assert reserved >= max(live_bytes(tuple(blocks), count))


def test_small_requests_share_a_segment_of_two_mebibytes():
    allocator = CachingAllocator()
    addresses = [allocator.allocate(size) for size in (1, 512, 513)]
    assert addresses == [0, 512, 1024]
    assert allocator.reserved == 2 * MiB


@pytest.mark.parametrize(
    ("size", "reserved"),
    [(MiB, 2), (MiB + 1, 20), (10 * MiB - 512, 20), (10 * MiB, 10), (10 * MiB + 1, 12), (33 * MiB, 34)],
)
def test_segments_have_the_sizes_that_torch_takes(size, reserved):
    allocator = CachingAllocator()
    allocator.allocate(size)
    assert allocator.reserved == reserved * MiB


def test_a_large_chunk_is_split_only_where_more_than_a_mebibyte_is_over():
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(20 * MiB))
    whole = allocator.allocate(19 * MiB)
    assert allocator.reserved == 20 * MiB
    allocator.allocate(MiB + 512)  # the last mebibyte was not cut off
    assert allocator.reserved == 40 * MiB
    allocator.free(whole)
    allocator.allocate(18 * MiB)
    allocator.allocate(2 * MiB)
    assert allocator.reserved == 40 * MiB


def test_the_smallest_chunk_that_is_enough_is_taken():
    pool = BestFitPool()
    first, _, second, _ = (pool.allocate(size) for size in (4096, 512, 2048, 512))
    pool.free(first)
    pool.free(second)
    assert pool.allocate(2048) == second
    assert pool.allocate(1024) == first


def test_free_neighbours_merge():
    pool = BestFitPool()
    a, b, c = (pool.allocate(1024) for _ in range(3))
    for each in (a, c, b):
        pool.free(each)
    assert pool.allocate(3072) == 0
    assert pool.reserved == 3072


def test_a_pool_grows_by_what_its_end_lacks():
    pool = BestFitPool()
    pool.allocate(512)
    pool.free(pool.allocate(1024))
    assert pool.allocate(2048) == 512
    assert pool.reserved == 2560


def test_arrival_order_leaves_gaps_that_known_lifetimes_do_not():
    """Two small ones at the sides of a gap that the large one does not fit in."""
    blocks = [Lifetime(0, 2, 512), Lifetime(0, 1, 1024), Lifetime(0, 2, 512), Lifetime(1, 2, 1536)]  # and then nothing
    assert place(blocks, 3).footprint == 2560
    assert replay(blocks, 3, BestFitPool()) == 3584


def test_chunks_of_different_segments_never_merge():
    chunks = Chunks()
    chunks.add(0, 1024)
    chunks.add(1024, 1024)
    first, second = chunks.take(1024, 512), chunks.take(1024, 512)
    chunks.give(first)
    chunks.give(second)
    assert chunks.take(2048, 512) is None
