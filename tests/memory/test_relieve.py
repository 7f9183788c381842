"""Exchanges where operations wait: schedules get faster, stay valid, and the draft holds the best. Steady schedules."""

from __future__ import annotations

import pytest

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.links import MemoryMachine, Tier
from vkernels.memory.schedule import Absence, SwapSchedule
from vkernels.memory.schedule_check import check
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies.autoswap import learned, swdoa
from vkernels.memory.strategies.draft import Draft
from vkernels.memory.strategies.relieve import relieve
from vkernels.memory.strategies.search import _steadiest, judge
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor

from .steps import machine_of, step_of


@pytest.mark.parametrize("seed", range(40))
def test_each_step_is_faster_and_a_failed_one_is_undone(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    draft = Draft(trace, machine, early=True)
    try:
        draft.cover()
    except MemoryPlanError:
        return
    before, chosen = simulate(trace, draft.schedule(), machine).seconds, dict(draft.chosen)
    fork = draft.fork()
    times = [before]
    for schedule in relieve(fork, 0.0, 20):
        check(trace, schedule, machine)
        times.append(simulate(trace, schedule, machine).seconds)
    assert times == sorted(times, reverse=True)
    assert simulate(trace, fork.schedule(), machine).seconds == pytest.approx(times[-1])
    assert draft.chosen == chosen, "a fork changes by itself"
    assert len(times) > 1 or fork.chosen == chosen


@pytest.mark.parametrize("seed", range(8))
def test_learned_weights_of_autoswap_are_no_worse_than_its_last_score(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    times = [simulate(trace, each(trace, machine), machine).seconds for each in (learned, swdoa)]
    assert times[0] <= times[1] * (1 + 1e-9)


def test_of_schedules_that_take_as_long_the_steadiest_is_chosen():
    """Both fetch in time; one an operation later than it could."""
    trace = MemoryTrace(
        "t",
        (TracedTensor("x", 10), TracedTensor("y", 10)),
        (
            Operation("make x", 1, (), (0,)),
            Operation("make y", 1, (), (1,)),
            Operation("use y", 1, (1,), ()),
            Operation("wait", 1, (), ()),
            Operation("wait again", 1, (), ()),
            Operation("use x", 1, (0,), ()),
        ),
    )
    machine = MemoryMachine(20, 100, 10, 10, 1, 1)
    early, late = (SwapSchedule((Absence(0, Tier.HOST, 0, 0, back, 5),)) for back in (3, 4))
    judged = [judge(trace, machine, each) for each in (late, early)]
    assert judged[0].seconds == judged[1].seconds
    assert _steadiest(trace, machine, judged).schedule == early
