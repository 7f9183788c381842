"""The simulator: steps worked out by hand, and where tensors were in random ones."""

from __future__ import annotations

import random

import pytest

from vkernels.ir.errors import MemoryPlanError, OptionError
from vkernels.memory.links import G10, MemoryMachine, Tier
from vkernels.memory.schedule import SwapSchedule, idle_times
from vkernels.memory.schedule_check import check, held_bytes, resident_bytes
from vkernels.memory.simulate import SimulatedRun, simulate
from vkernels.memory.strategies.on_demand import on_demand
from vkernels.memory.strategies.search import search
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor

from .steps import absent, machine_of, replay, step_of

RATE = MemoryMachine(device_bytes=20, host_bytes=100, to_host=10, from_host=10, to_flash=5, from_flash=5)
"""A byte takes a tenth of a second to the host, a fifth to flash."""


def hand(
    *operations: tuple[float, tuple[int, ...], tuple[int, ...]], sizes: tuple[int, ...], weights: int = 0
) -> MemoryTrace:
    """A trace; the first `weights` tensors are global."""
    tensors = tuple(TracedTensor(f"t{n}", size, n < weights) for n, size in enumerate(sizes))
    return MemoryTrace("hand", tensors, tuple(Operation(f"op{n}", *each) for n, each in enumerate(operations)))


ACTIVATION = hand((1, (), (0,)), (1, (), (1,)), (1, (1,), (2,)), (1, (0, 2), ()), sizes=(10, 10, 10))
"""Tensor 0 is made by the first operation, and idle until the last; two others live between."""


def test_with_memory_enough_nothing_waits():
    run = simulate(ACTIVATION, SwapSchedule(), RATE.with_device(30))
    assert (run.seconds, run.peak, set(run.stalls), run.fraction) == (4, 30, {0.0}, 1)


def test_a_copy_out_holds_its_room_until_it_is_complete():
    """Copying takes 1 s from 1 on: operation 2 may start at 2, when the copy is just complete; back at 4, not 3."""
    run = simulate(ACTIVATION, SwapSchedule((absent(0, 0, 3),)), RATE, timeline=True)
    assert run.stalls == (0, 0, 0, 1)
    assert run.seconds == 5
    assert [(each.link, each.start, each.end) for each in run.timeline.transfers] == [(0, 1, 2), (2, 3, 4)]


def test_a_slow_copy_makes_the_operation_wait_that_needs_its_room():
    """Flash: 2 s out, from 1 to 3, and 2 s back: operation 2 waits from 2 to 3, operation 3 from 4 to 6."""
    run = simulate(ACTIVATION, SwapSchedule((absent(0, 0, 3, Tier.FLASH),)), RATE)
    assert run.stalls == (0, 0, 1, 2)


def test_fetching_early_hides_it_where_there_is_room():
    run = simulate(ACTIVATION, SwapSchedule((absent(0, 0, 3, back=2),)), RATE.with_device(30))
    assert run.seconds == 4


def test_latency_comes_on_top():
    machine = MemoryMachine(20, 100, 10, 10, 5, 5, host_seconds=0.25)
    assert simulate(ACTIVATION, SwapSchedule((absent(0, 0, 3),)), machine).stalls == (0, 0, 0.25, 1.25)


def test_faults_cost_once_a_block():
    machine = MemoryMachine(20, 100, 10, 10, 5, 5, fault_seconds=0.5, fault_bytes=4)
    run = simulate(ACTIVATION, SwapSchedule((absent(0, 0, 3),), faults=True), machine)
    assert run.stalls[3] == pytest.approx(1 + 3 * 0.5)


def test_host_and_flash_share_the_device_s_link():
    """Both copies begin at 1. Flash has 5 of 10 bytes a second for 1 s; the host has 5 until then, and 10 after: its 10
    bytes take 1.5 s."""
    trace = hand((1, (), (0, 1)), (4, (), ()), (1, (0, 1), ()), sizes=(10, 5))
    schedule = SwapSchedule((absent(0, 0, 2), absent(1, 0, 2, Tier.FLASH)))
    alone = simulate(trace, schedule, RATE, timeline=True)
    shared = simulate(trace, schedule, MemoryMachine(20, 100, 10, 10, 5, 5, shared=10), timeline=True)
    ends = [{each.link: each.end for each in run.timeline.transfers} for run in (alone, shared)]
    assert (ends[0][0], ends[0][1]) == (2, 2)
    assert (ends[1][0], ends[1][1]) == (2.5, 2)


WEIGHT = hand((1, (0,), ()), (1, (), (1,)), (1, (1,), ()), (1, (0,), (0,)), (1, (), ()), sizes=(10, 15), weights=1)
"""A weight is used by the first operation and written by the last but one; a large tensor lives between."""


def test_what_is_away_at_the_end_is_away_at_the_start():
    """Copied from 4 to 5 while operation 4 runs; fetched before operation 0 of the next iteration: 1 s late."""
    run = simulate(WEIGHT, SwapSchedule((absent(0, 3, 5),)), RATE.with_device(25), timeline=True)
    assert run.stalls == (1, 0, 0, 0, 0)
    assert run.timeline.memory[0][1] == run.timeline.memory[-1][1] == 0


def test_a_copy_that_is_still_right_costs_nothing():
    """Copied when written, by operation 3 of the iteration before; it leaves operation 0 free of charge."""
    machine = RATE
    early = simulate(WEIGHT, SwapSchedule((absent(0, 0, 3, copy=-2),)), machine)
    late = simulate(WEIGHT, SwapSchedule((absent(0, 0, 3),)), machine)
    assert early.stalls == (0, 0, 0, 1, 0)
    assert late.stalls == (0, 1, 0, 1, 0)


def test_a_kept_copy_is_used_twice():
    schedule = SwapSchedule((absent(0, 3, 5), absent(0, 0, 3, copy=None)))
    run = simulate(WEIGHT, schedule, RATE, timeline=True)
    assert [each.link for each in run.timeline.transfers].count(0) == 1
    assert [size for _, size in run.timeline.host][-1] == 10
    assert held_bytes(WEIGHT, schedule, Tier.HOST) == [10] * 5


@pytest.mark.parametrize("seed", range(100))
def test_random_steps_keep_to_capacity_and_find_their_tensors(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed + 1)
    for schedule in _schedules(trace, machine, seed):
        run = simulate(trace, schedule, machine, timeline=True)
        replay(trace, schedule, machine, run, [op.seconds for op in trace.operations])
        assert run.seconds >= run.ideal_seconds * (1 - 1e-12)
        assert sum(run.stalls) == pytest.approx(run.seconds - run.ideal_seconds, abs=1e-9)
        assert run.peak <= machine.device_bytes
        again = simulate(trace, schedule, machine, timeline=True)
        assert again == run


@pytest.mark.parametrize("seed", range(40))
def test_nothing_gets_stuck_when_operations_take_other_times(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed + 1)
    draw = random.Random(seed)
    for schedule in _schedules(trace, machine, seed):
        seconds = [draw.choice((0.0, 1e-3, 5.0)) for _ in trace.operations]
        run = simulate(trace, schedule, machine, seconds)
        assert run.seconds >= sum(seconds) * (1 - 1e-12)


def _schedules(trace: MemoryTrace, machine: MemoryMachine, seed: int) -> list[SwapSchedule]:
    return [on_demand(trace, machine), search(trace, machine, rounds=1, trials=3, others=())]


GOOD = absent(0, 0, 3)
HOSTILE = {
    "no such tensor": (absent(7, 0, 3), "there is no tensor 7"),
    "negative tensor": (absent(-1, 0, 3), "there is no tensor -1"),
    "leaves in the next iteration": (absent(0, 4, 7), "out of order"),
    "back before it leaves": (absent(0, 2, 1), "out of order"),
    "back after it is needed": (absent(0, 0, 3, back=4), "out of order"),
    "copied after it has left": (absent(0, 0, 3, copy=1), "out of order"),
    "copied an age ago": (absent(0, 0, 3, copy=-9), "out of order"),
    "comes for an operation that does not use it": (absent(0, 0, 2), "uses it while"),
    "used while away": (absent(1, 1, 3), "uses it while"),
    "never copied": (absent(0, 0, 3, copy=None), "there is no copy"),
    "copied before it is made": (absent(0, 0, 3, copy=-1), "from before it was written"),
    "away when it does not live": (absent(0, 3, 4), "does not live as long"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schedule_that_contradicts_the_trace_is_refused(name):
    absence, message = HOSTILE[name]
    with pytest.raises(MemoryPlanError, match=message):
        simulate(ACTIVATION, SwapSchedule((absence,)), RATE.with_device(1000))


def test_being_away_twice_at_once_is_refused():
    with pytest.raises(MemoryPlanError, match="begins before"):
        simulate(ACTIVATION, SwapSchedule((GOOD, GOOD)), RATE.with_device(1000))


def test_a_schedule_over_capacity_names_the_operation():
    with pytest.raises(
        MemoryPlanError, match=r"operation 2 \(op2\) has 30 bytes on the device, which has 29 bytes"
    ) as error:
        simulate(ACTIVATION, SwapSchedule(), RATE.with_device(29))
    assert error.value.operation == 2


def test_a_schedule_over_the_host_s_capacity_is_refused():
    with pytest.raises(MemoryPlanError, match=r"after operation 0 \(op0\) host holds 10 bytes, of 9 bytes"):
        check(ACTIVATION, SwapSchedule((GOOD,)), MemoryMachine(20, 9, 10, 10, 5, 5))


def test_other_bytes_than_a_machine_can_have_are_refused():
    for wrong in (
        {"to_host": 0.0},
        {"from_flash": float("nan")},
        {"device_bytes": -1},
        {"shared": 3.0},
        {"fault_bytes": 0},
    ):
        with pytest.raises(OptionError):
            MemoryMachine(**{**G10.__dict__, **wrong})


def test_resident_bytes_are_what_is_left_when_transfers_have_ended():
    assert resident_bytes(ACTIVATION, SwapSchedule((GOOD,))) == [10, 10, 20, 20]
    assert resident_bytes(WEIGHT, SwapSchedule((absent(0, 3, 5),))) == [10, 25, 25, 10, 0]


def test_idle_times_know_when_a_tensor_was_written():
    found = [(each.tensor, each.last, each.next, each.written) for each in idle_times(WEIGHT)]
    assert found == [(0, 0, 3, -2), (0, 3, 5, 3)]


def test_a_run_with_a_timeline_is_the_same_run():
    trace = step_of(3)
    machine = machine_of(trace, 4)
    schedule = on_demand(trace, machine)
    plain, drawn = simulate(trace, schedule, machine), simulate(trace, schedule, machine, timeline=True)
    assert (plain.seconds, plain.steady) == (pytest.approx(drawn.seconds), drawn.steady)
    assert isinstance(plain, SimulatedRun)
    assert plain.timeline is None
