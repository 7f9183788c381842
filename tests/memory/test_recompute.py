"""Tensors made again: every operation still reads the values that it read before."""

from __future__ import annotations

import pytest

from vkernels.memory.links import MemoryMachine
from vkernels.memory.recompute import _cheapest, can_recompute, search_recomputing, with_recomputed
from vkernels.memory.schedule_check import check
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies import search
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor

from .steps import machine_of, step_of


def values_read(trace: MemoryTrace) -> list[tuple[str, tuple[object, ...]]]:
    """What each operation reads, as the terms that made it; operations that run again are left out."""
    now: dict[int, object] = {}
    read = []
    for op in trace.operations:
        inputs = tuple(now.get(index, f"before: {index}") for index in op.reads)
        name = op.name.removesuffix(" again")
        if not op.name.endswith(" again"):
            read.append((op.name, inputs))
        for place, index in enumerate(op.writes):
            now[index] = hash((name, inputs, place))
    return read


@pytest.mark.parametrize("seed", range(120))
def test_operations_read_what_they_read_before(seed):
    trace = step_of(seed)
    again = _cheapest(trace, lambda op: True) if any(tensor.size for tensor in trace.tensors) else []
    changed = with_recomputed(trace, again)
    assert values_read(changed) == values_read(trace)
    assert len(changed.operations) == len(trace.operations) + len(again)


def test_random_steps_have_something_to_make_again():
    assert sum(len(list(can_recompute(step_of(seed), lambda op: True))) for seed in range(120)) > 50


@pytest.mark.parametrize("seed", range(12))
def test_recomputing_is_never_worse_than_the_whole_search_without(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    found = search_recomputing(trace, machine, lambda op: True)
    check(found.trace, found.schedule, machine)
    plain = simulate(trace, search(trace, machine), machine)
    assert found.run.seconds <= plain.seconds * (1 + 2e-6)
    assert found.run.ideal_seconds == trace.seconds


STEP = MemoryTrace(
    "t",
    (TracedTensor("w", 1, True), TracedTensor("x", 10), TracedTensor("y", 10)),
    (
        Operation("make x", 0.1, (0,), (1,)),
        Operation("use x", 1, (1,), ()),
        Operation("make y", 1, (), (2,)),
        Operation("use y", 1, (2,), ()),
        Operation("use x again later", 1, (1,), ()),
    ),
)
SLOW = MemoryMachine(11, 100, 1, 1, 0.5, 0.5)


def test_what_is_made_faster_than_carried_is_made_again():
    """Carrying 10 bytes takes 10 s each way; making them again a tenth of a second."""
    found = search_recomputing(STEP, SLOW, lambda op: True)
    assert found.run.seconds == pytest.approx(4.1 + 0.1)
    assert [(each.tensor, each.maker, each.next) for each in found.again] == [(1, 0, 4)]


def test_operations_that_are_not_known_run_once():
    found = search_recomputing(STEP, SLOW, lambda op: op.name != "make x")
    assert found.again == ()
    assert found.run.seconds > 20


def test_what_was_read_has_to_be_what_it_was():
    written = Operation("write w", 1, (), (0,))
    changed = MemoryTrace("t", STEP.tensors, (*STEP.operations[:3], written, *STEP.operations[3:]))
    assert [each.tensor for each in can_recompute(STEP, lambda op: True)] == [1]
    assert 1 not in [each.tensor for each in can_recompute(changed, lambda op: True)]
