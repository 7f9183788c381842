"""Traces: lifetimes, and what contradicts itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.ir.errors import TraceError
from vkernels.memory.trace import Lifetime, MemoryTrace, Operation, TracedTensor


def step(*uses: tuple[tuple[int, ...], tuple[int, ...]], scratch: int = 0) -> tuple[Operation, ...]:
    return tuple(Operation(f"op{n}", 1.0, reads, writes, scratch) for n, (reads, writes) in enumerate(uses))


def test_a_tensor_lives_from_its_first_write_until_after_its_last_use():
    trace = MemoryTrace(
        "t",
        (TracedTensor("w", 4, True), TracedTensor("x", 8), TracedTensor("y", 16)),
        step(((0,), (1,)), ((1,), (2,)), ((2,), (0,))),
    )
    assert trace.lifetimes() == (Lifetime(0, 3, 4), Lifetime(0, 2, 8), Lifetime(1, 3, 16))
    assert trace.live() == [12, 28, 20]
    assert trace.peak == 28


def test_what_is_read_before_it_is_made_lives_into_the_next_iteration():
    trace = MemoryTrace("t", (TracedTensor("gradient", 8),), step(((0,), ()), ((), ()), ((), (0,))))
    assert trace.lifetimes() == (Lifetime(2, 4, 8),)
    assert trace.lifetimes()[0].spans(3) == ((0, 1), (2, 3))
    assert trace.live() == [8, 0, 8]


def test_a_tensor_written_in_place_before_it_is_made_anew_wraps_too():
    trace = MemoryTrace("t", (TracedTensor("gradient", 8, made=2),), step(((0,), ()), ((0,), (0,)), ((), (0,))))
    assert trace.lifetimes() == (Lifetime(2, 5, 8),)


def test_memory_is_held_until_the_program_gives_it_back():
    trace = MemoryTrace(
        "t", (TracedTensor("x", 8, freed=2), TracedTensor("loss", 4, freed=4)), step(((), (0,)), ((), ()), ((), (1,)))
    )
    assert trace.lifetimes() == (Lifetime(0, 2, 8), Lifetime(2, 4, 4))


def test_scratch_takes_room_during_its_operation_only():
    trace = MemoryTrace("t", (TracedTensor("x", 8),), step(((), (0,)), ((0,), ()), scratch=3))
    assert trace.live() == [11, 11]
    assert trace.blocks()[1:] == (Lifetime(0, 1, 3), Lifetime(1, 2, 3))


X = TracedTensor("x", 8)


@pytest.mark.parametrize(
    ("tensors", "operations", "at"),
    [
        ((X,), (), ("operations",)),
        ((X, X), step(((), (0,))), ("tensors", 1)),
        ((X,), step(((), (0,)), ((1,), ())), ("operations", 1, "reads")),
        ((X,), step(((), (0,)), ((-1,), ())), ("operations", 1, "reads")),
        ((X,), step(((0, 0), (0,))), ("operations", 0, "reads")),
        ((TracedTensor("x", -1),), step(((), (0,))), ("tensors", 0, "size")),
        ((TracedTensor("x", 1 << 60), TracedTensor("y", 1)), step(((), (0, 1))), ("tensors",)),
        ((TracedTensor("x", 8, True, freed=1),), step(((), (0,))), ("tensors", 0, "freed")),
        ((TracedTensor("x", 8, freed=1),), step(((), (0,)), ((0,), ())), ("tensors", 0, "freed")),
        ((TracedTensor("x", 8, freed=4),), step(((), (0,)), ((0,), ()), ((), ())), ("tensors", 0, "freed")),
        ((TracedTensor("x", 8, made=1),), step(((), (0,)), ((), ())), ("tensors", 0, "made")),
        ((X,), step(((0,), ()), ((0,), (0,))), ("tensors", 0)),
        ((X,), (Operation("op", float("nan"), (), (0,)),), ("operations", 0, "seconds")),
        ((X,), (Operation("op", -1.0, (), (0,)),), ("operations", 0, "seconds")),
        ((X,), step(((), (0,)), scratch=-1), ("operations", 0, "scratch")),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_where_it_is(tensors, operations, at):
    with pytest.raises(TraceError) as caught:
        MemoryTrace("t", tensors, operations)
    assert caught.value.at == at


@given(st.data())
def test_live_bytes_are_those_of_the_lifetimes_that_cover_each_operation(data):
    count = data.draw(st.integers(1, 6))
    used = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), min_size=1, max_size=5))
    operations = [Operation("", 1.0, (), ()) for _ in range(count)]
    tensors = []
    for n, at in enumerate(used):
        made = data.draw(st.sampled_from(sorted(at)))
        tensors.append(TracedTensor("", 1 << n, made=made))
        for each in at:
            operations[each] = Operation("", 1.0, (*operations[each].reads, n), ())
    trace = MemoryTrace("t", tuple(tensors), tuple(operations))
    for now in range(count):
        covering = [each for each in trace.lifetimes() if any(a <= now < b for a, b in each.spans(count))]
        assert trace.live()[now] == sum(each.size for each in covering)
        assert all(trace.lifetimes()[n] in covering for n, at in enumerate(used) if now in at)
