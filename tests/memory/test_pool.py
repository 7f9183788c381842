"""The pool: blocks that live together never share a byte, and footprints are as small as they can be."""

from __future__ import annotations

import random
import time
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.ir.errors import ArgumentError
from vkernels.memory.exact import OffsetSearchResult, fit_within, luby
from vkernels.memory.imports import read_g10, read_minimalloc
from vkernels.memory.pool import fit_in_order, orders_of, place, place_trace
from vkernels.memory.skyline import Blocks, SkylineGivenUp, SkylineSearch
from vkernels.memory.trace import Lifetime, MemoryTrace, Operation, TracedTensor, live_bytes

from .drawn import assert_apart, problems, smallest
from .places import DATA, G10, needs_data

LONG = 60.0


@given(problems(most=30, moments=20, size=1000), st.booleans())
def test_every_order_keeps_blocks_apart(problem, tightest):
    blocks, count = problem
    for order in orders_of(blocks, count):
        assert sorted(order) == list(range(len(blocks)))
        assert_apart(blocks, count, tuple(fit_in_order(blocks, count, order, tightest)))


@pytest.mark.slow
@given(problems(most=25, moments=12, size=40), st.sampled_from([1, 7, 64]))
@settings(max_examples=60)
def test_placed_blocks_are_apart_aligned_and_within_the_footprint(problem, alignment):
    blocks, count = problem
    placed = place(blocks, count, seconds=0.1, alignment=alignment)
    assert_apart(blocks, count, placed.offsets)
    assert all(offset % alignment == 0 for offset in placed.offsets)
    tops = [offset + block.size for offset, block in zip(placed.offsets, blocks, strict=True)]
    assert max(tops) <= placed.footprint < max(tops) + alignment
    assert placed.peak >= max(live_bytes(tuple(blocks), count))


@pytest.mark.slow
@given(problems(most=6, moments=6))
def test_the_footprint_of_few_blocks_is_the_smallest_that_there_is(problem):
    blocks, count = problem
    placed = place(blocks, count, seconds=LONG)
    assert placed.footprint == smallest(blocks, count)
    assert placed.is_smallest


@given(problems(most=6, moments=6), st.integers(1, 40))
def test_the_search_finds_offsets_within_a_capacity_or_proves_that_there_are_none(problem, capacity):
    blocks, count = problem
    blocks = [block for block in blocks if block.size]
    found = fit_within(blocks, count, capacity, LONG)
    if smallest(blocks, count) <= capacity:
        assert found.offsets is not None
        assert_apart(blocks, count, tuple(found.offsets))
        assert max((o + b.size for o, b in zip(found.offsets, blocks, strict=True)), default=0) <= capacity
    else:
        assert found.offsets is None
        assert found.proved


@pytest.mark.parametrize("seed", range(8))
def test_blocks_cut_from_a_full_pool_are_put_together_again(seed):
    """A rectangle of moments and bytes, cut into blocks: the only footprint without a gap."""
    random = np.random.default_rng(seed)
    blocks, count, height = cut(random, 16, 4096)
    placed = place(blocks, count, seconds=LONG)
    print("seed", seed, "blocks", len(blocks))
    assert placed.footprint == placed.peak == height
    assert_apart(blocks, count, placed.offsets)


def cut(random: np.random.Generator, count: int, height: int) -> tuple[list[Lifetime], int, int]:
    pieces = [(0, count, 0, height)]
    for _ in range(24):
        start, end, low, high = pieces.pop(int(random.integers(len(pieces))))
        if random.integers(2) and end - start > 1:
            at = int(random.integers(start + 1, end))
            pieces += [(start, at, low, high), (at, end, low, high)]
        elif high - low > 1:
            at = int(random.integers(low + 1, high))
            pieces += [(start, end, low, at), (start, end, at, high)]
        else:
            pieces.append((start, end, low, high))
    return [Lifetime(start, end, high - low) for start, end, low, high in pieces], count, height


def test_a_gap_that_no_footprint_avoids_is_proved():
    """Around a ring of five, each block meets both its neighbours: two bytes are live at once, three are needed."""
    ring = [Lifetime(n, n + 2, 1) for n in range(5)]
    placed = place(ring, 5, seconds=LONG)
    assert (placed.peak, placed.footprint, placed.is_smallest) == (2, 3, True)


@pytest.mark.slow
@given(
    problems(most=7, moments=6), st.integers(1, 40), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.booleans()
)
def test_the_search_over_the_skyline_is_complete(problem, capacity, noise, power, snug):
    """It finds offsets where there are some, and otherwise ends by itself."""
    blocks, count = problem
    blocks = [Lifetime(each.start, min(each.end, count), each.size) for each in blocks if each.size]
    parts = (
        Blocks(*zip(*((each.start, each.end, each.size) for each in blocks), strict=True), count) if blocks else None
    )
    if parts is None:
        return
    for failures in (None, [1] * count):
        search = SkylineSearch(parts, capacity, random.Random(1), float(noise), 1_000_000, inf, power, snug, failures)
        found = search.run()
        assert (found is not None) == (smallest(blocks, count) <= capacity)
        if failures is not None and found is None and max(live_bytes(blocks, count)) <= capacity:
            assert sum(failures) > count
        if found is not None:
            assert_apart(blocks, count, tuple(found))
            assert max(offset + each.size for offset, each in zip(found, blocks, strict=True)) <= capacity


HOSTILE = {
    "all at once": ([Lifetime(0, 5, size) for size in (3, 1, 4, 1, 5, 9, 2, 6)], 31),
    "of zero bytes": ([Lifetime(0, 3, 0), Lifetime(1, 2, 7), Lifetime(1, 4, 0), Lifetime(0, 5, 0)], 7),
    "a chain": ([Lifetime(n, n + 2, 1 + n % 2) for n in range(199)], 3),
    "a chain of growing blocks": ([Lifetime(n, n + 2, 1 + n) for n in range(30)], 59),
    "alike": ([Lifetime(n % 3, n % 3 + 3, 64) for n in range(60)], 3840),
    "stairs": ([Lifetime(n, 40, 5) for n in range(40)] + [Lifetime(0, n, 5) for n in range(1, 40)], 200),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_blocks_fit_within_exactly_their_peak(name):
    blocks, peak = HOSTILE[name]
    count = max(block.end for block in blocks)
    assert max(live_bytes(blocks, count)) == peak
    for found in (place(blocks, count, peak, seconds=LONG), place(blocks, count, peak - 1, seconds=LONG)):
        assert (found.footprint, found.is_smallest) == (peak, True)
        no_overlap(tuple(blocks), count, found.offsets)
    kept = [block for block in blocks if block.size]
    within = fit_within(kept, count, peak, LONG)
    assert within.offsets is not None
    no_overlap(tuple(kept), count, tuple(within.offsets))
    assert fit_within(kept, count, peak - 1, LONG) == OffsetSearchResult(None, proved=True)


def test_a_search_over_the_skyline_ends_after_its_steps():
    """No clock decides where a try ends, so that its result does not depend on the load of the machine."""
    ring = Blocks([0, 0, 1, 2, 2], [3, 1, 4, 4, 3], [3, 3, 3, 4, 2], 4)
    with pytest.raises(SkylineGivenUp):
        SkylineSearch(ring, 12, random.Random(1), 0.0, 2, inf).run()


def test_tries_of_each_length_take_the_same_time_in_sum():
    assert [luby(n) for n in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


def test_almost_all_time_goes_to_a_capacity_that_is_given(monkeypatch):
    tried, now = [], [0.0]

    def never(blocks, count, capacity, seconds, seed):
        tried.append((capacity, seconds))
        now[0] += seconds
        return OffsetSearchResult(None, proved=True)

    monkeypatch.setattr("vkernels.memory.pool.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("vkernels.memory.pool.fit_within", never)
    ring = [Lifetime(n, n + 2, 5) for n in range(5)]
    placed = place(ring, 5, capacity=12, seconds=0.2)
    assert placed.footprint == 15
    assert tried[0][0] == 10
    assert tried[0][1] >= 0.15
    assert sum(seconds for _, seconds in tried[1:]) <= 0.05


def test_a_capacity_that_is_enough_ends_the_search():
    ring = [Lifetime(n, n + 2, 1) for n in range(5)]
    placed = place(ring, 5, capacity=3, seconds=LONG)
    assert placed.footprint == 3


def test_no_blocks_take_no_room():
    assert place([], 3).footprint == 0
    assert place([Lifetime(0, 1, 0)], 3).offsets == (0,)


@pytest.mark.parametrize(
    "block", [Lifetime(0, 0, 1), Lifetime(-1, 1, 1), Lifetime(2, 3, 1), Lifetime(1, 4, 1), Lifetime(0, 1, -1)]
)
def test_a_block_outside_the_moments_is_refused(block):
    with pytest.raises(ArgumentError, match="block 1"):
        place([Lifetime(0, 1, 1), block], 2)


def test_an_alignment_of_nothing_is_refused():
    with pytest.raises(ArgumentError, match="alignment"):
        place([], 1, alignment=0)


def test_scratch_has_room_of_its_own():
    trace = MemoryTrace(
        "t",
        (TracedTensor("w", 4, True), TracedTensor("x", 8)),
        (Operation("f", 1.0, (0,), (1,), 16), Operation("g", 1.0, (1,), (0,))),
    )
    placed = place_trace(trace)
    assert len(placed.offsets) == 3
    assert placed.footprint == 28
    assert_apart(list(trace.blocks()), 2, placed.offsets)


@needs_data
@pytest.mark.parametrize("name", G10)
def test_training_steps_take_no_more_than_a_thousandth_over_their_peak(name):
    trace = read_g10(DATA / "g10" / f"{name}.json.gz")
    most = int(1.001 * trace.peak)
    placed = place(trace.blocks(), len(trace.operations), most, seconds=LONG)
    assert placed.footprint <= most
    no_overlap(trace.blocks(), len(trace.operations), placed.offsets)


@needs_data
@pytest.mark.parametrize("name", list("ABCDEF"))
def test_allocation_problems_are_solved_at_their_capacity(name):
    problem = read_minimalloc(DATA / "minimalloc" / f"{name}.1048576.csv")
    placed = place(problem.blocks, problem.count, problem.capacity, seconds=10 * LONG)
    assert problem.capacity is not None
    assert placed.footprint <= problem.capacity
    no_overlap(problem.blocks, problem.count, placed.offsets)


def no_overlap(blocks: tuple[Lifetime, ...], count: int, offsets: tuple[int, ...]) -> None:
    """For many blocks: at each moment, what is live lies one above the other."""
    rows = np.array([(b.start, b.end, b.size) for b in blocks])
    low = np.array(offsets)
    for moment in range(count):
        live = ((rows[:, 0] <= moment) & (moment < rows[:, 1]) | (moment + count < rows[:, 1])) & (rows[:, 2] > 0)
        order = np.argsort(low[live])
        bottoms, tops = low[live][order], (low + rows[:, 2])[live][order]
        assert (bottoms[1:] >= tops[:-1]).all()


def test_the_same_seed_gives_the_same_offsets():
    blocks, count, _ = cut(np.random.default_rng(5), 12, 999)
    before = time.monotonic()
    one, other = (place(blocks, count, seconds=LONG, seed=3) for _ in range(2))
    assert one == other, time.monotonic() - before
