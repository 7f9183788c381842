"""Moves between host and flash, and addresses that device, host and flash share, in the simulator."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from msgspec import structs

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory import schedule_file
from vkernels.memory.bound import lower_bound
from vkernels.memory.links import MemoryMachine, Tier
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.schedule_check import check, held_bytes
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies.moves import with_moves
from vkernels.memory.strategies.search import search
from vkernels.memory.trace import MemoryTrace

from .steps import absent, machine_of, replay, step_of
from .test_simulate import hand

RATE = MemoryMachine(device_bytes=20, host_bytes=10, to_host=10, from_host=10, to_flash=5, from_flash=5).with_moves()
"""A byte takes a tenth of a second to the host, a fifth from there to flash."""
LONG = hand(
    (1, (), (0,)), (1, (), (1,)), (1, (1,), ()), (4, (), ()), (1, (), (2,)), (1, (2,), ()), (4, (), ()), (1, (0,), ()),
    sizes=(10, 10, 10),
)  # fmt: skip
"""Tensor 0 is made by the first operation and used by the last."""
MOVED = structs.replace(absent(0, 0, 7, back=7), down=0, up=6)


def test_a_tensor_goes_down_by_the_host_and_comes_up_in_time():
    """To the host from 1 to 2, down from 2 to 4; up after operation 5, from 9 to 11, and back from 13 to 14."""
    run = simulate(LONG, SwapSchedule((MOVED,)), RATE, timeline=True)
    assert [(each.link, each.start, each.end) for each in run.timeline.transfers] == [(0, 1, 2), (2, 13, 14)]
    assert [(each.link, each.start, each.end) for each in run.timeline.moves] == [(1, 2, 4), (3, 9, 11)]
    assert run.stalls == (0, 0, 0, 0, 0, 0, 0, 1)


def test_the_host_has_room_for_another_tensor_meanwhile():
    """Both need the whole host, one after the other."""
    trace = hand(
        (1, (), (0,)), (1, (), (1,)), (1, (1,), ()), (4, (), ()), (1, (1,), ()), (4, (), ()), (4, (), ()),
        (1, (0,), ()), sizes=(10, 10),
    )  # fmt: skip
    other = absent(1, 2, 4)
    both = SwapSchedule((MOVED, other))
    assert held_bytes(trace, both, Tier.HOST) == [10, 0, 10, 10, 0, 10, 10, 0]
    assert held_bytes(trace, both, Tier.FLASH) == [10] * 7 + [0]
    run = simulate(trace, both, RATE, timeline=True)
    assert max(size for _, size in run.timeline.host) == 10
    with pytest.raises(MemoryPlanError, match="host holds 20 bytes, of 10 bytes"):
        check(trace, SwapSchedule((absent(0, 0, 7), other)), RATE)


def test_a_copy_waits_until_the_host_has_room():
    """The second copy may begin at 3, and has room at 12, when the first has gone down at 1 byte a second."""
    trace = hand((1, (), (0,)), (1, (), (1,)), (1, (1,), ()), (20, (), ()), (1, (1,), ()), (20, (), ()), (1, (), ()),
                 (1, (0,), ()), sizes=(10, 10))  # fmt: skip
    slow = replace(RATE, host_to_flash=1.0)
    run = simulate(trace, SwapSchedule((MOVED, absent(1, 2, 4))), slow, timeline=True)
    copies = sorted((each.absence, each.start, each.end) for each in run.timeline.transfers if each.link == 0)
    assert copies == [(0, 1, 2), (1, 12, 13)]


def test_moves_take_nothing_of_the_device_s_link():
    """The second copy has all of the link while the first goes down; not while a third goes to flash directly."""
    trace = hand((1, (), (0, 1)), (1, (), ()), (1, (1,), ()), (8, (), ()), (1, (1,), ()), (9, (), ()), (1, (), ()),
                 (1, (0,), ()), sizes=(10, 10))  # fmt: skip
    machine = replace(RATE, shared=10.0, host_bytes=20)
    ends = []
    for first in (MOVED, absent(0, 0, 7, Tier.FLASH, copy=2)):
        run = simulate(trace, SwapSchedule((first if first is MOVED else structs.replace(first, leave=2, copy=2),
                                            absent(1, 2, 4))), machine, timeline=True)  # fmt: skip
        ends.append(next(each.end for each in run.timeline.transfers if (each.absence, each.link) == (1, 0)))
    assert ends == [4, 5]


WRONG = {
    "up too soon": ({"down": 0, "up": 2}, "out of order"),
    "down before it is copied": ({"down": -1, "up": 6}, "out of order"),
    "up after it is fetched": ({"down": 0, "up": 8}, "out of order"),
    "down for ever": ({"down": 0, "up": None}, "out of order"),
    "on flash anyway": ({"tier": Tier.FLASH}, "out of order"),
    "never copied": ({"copy": None}, "there is no copy"),
}


@pytest.mark.parametrize("name", WRONG)
def test_moves_out_of_order_are_refused(name):
    changes, message = WRONG[name]
    with pytest.raises(MemoryPlanError, match=message):
        simulate(LONG, SwapSchedule((structs.replace(MOVED, **changes),)), replace(RATE, host_bytes=100))


def test_a_copy_for_two_absences_does_not_move():
    trace = hand((1, (0,), (0,)), *[(1, (), ())] * 5, (1, (0,), ()), *[(1, (), ())] * 5, sizes=(10,), weights=1)
    first = structs.replace(absent(0, 0, 6), down=0, up=4)
    with pytest.raises(MemoryPlanError, match="needs a copy"):
        simulate(trace, SwapSchedule((first, absent(0, 6, 12, copy=None))), RATE)


def test_a_machine_without_moves_refuses_them():
    with pytest.raises(MemoryPlanError, match="which the machine does not"):
        simulate(LONG, SwapSchedule((MOVED,)), RATE.without_moves())


def moving_schedules(trace: MemoryTrace, machine: MemoryMachine) -> list[SwapSchedule]:
    """With moves: what is on flash goes by the host wherever it has room; at least one that is not, too."""
    direct = search(trace, machine.without_moves(), rounds=1, trials=3, others=())
    return [each for each in with_moves(trace, machine, direct) if each.has_moves]


@pytest.mark.parametrize("seed", range(150))
def test_random_steps_with_moves_keep_to_capacity_and_never_get_stuck(seed):
    trace = step_of(seed)
    draw = random.Random(seed)
    machine = replace(machine_of(trace, seed + 1), host_bytes=draw.choice((30, 60, 90))).with_moves()
    machine = machine.staged() if draw.random() < 0.5 else machine
    for schedule in moving_schedules(trace, machine):
        run = simulate(trace, schedule, machine, timeline=True)
        replay(trace, schedule, machine, run, [op.seconds for op in trace.operations])
        assert run.seconds >= lower_bound(trace, machine).seconds * (1 - 1e-9)
        assert run == simulate(trace, schedule, machine, timeline=True)
        for _ in range(3):
            seconds = [draw.choice((0.0, 1e-3, 5.0)) for _ in trace.operations]
            assert simulate(trace, schedule, machine, seconds).seconds >= sum(seconds) * (1 - 1e-12)


def test_random_steps_do_move():
    found = 0
    for seed in range(60):
        trace = step_of(seed)
        found += len(moving_schedules(trace, replace(machine_of(trace, seed + 1), host_bytes=60).with_moves()))
    assert found >= 10


@pytest.mark.parametrize("seed", range(20))
def test_with_moves_a_search_is_never_worse(seed):
    trace = step_of(seed)
    machine = replace(machine_of(trace, seed), host_bytes=40).with_moves().staged()
    direct = machine.without_moves()
    least = simulate(trace, search(trace, direct, rounds=1, trials=3), direct).seconds
    assert simulate(trace, search(trace, machine, rounds=1, trials=3), machine).seconds <= least * (1 + 1e-5)


def test_moves_are_kept_in_files(tmp_path):
    schedule = SwapSchedule((MOVED, absent(1, 1, 2)))
    schedule_file.save(schedule, tmp_path / "schedule.json")
    assert schedule_file.load(tmp_path / "schedule.json") == schedule


def test_each_page_that_moves_gets_a_new_address():
    """Three pages of 4 bytes, half a second each, both ways."""
    trace = hand((1, (), (0,)), (1, (), (1,)), (1, (1,), (2,)), (1, (0, 2), ()), sizes=(10, 10, 10))
    machine = replace(RATE, translation_seconds=0.5, translation_bytes=4)
    assert simulate(trace, SwapSchedule((absent(0, 0, 3),)), machine).stalls == (0, 0, 1.5, 2.5)
