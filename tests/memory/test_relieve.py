"""Exchanges where operations wait: schedules get faster, stay valid, and the draft holds the best."""

from __future__ import annotations

import pytest

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.schedule_check import check
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies.draft import Draft
from vkernels.memory.strategies.relieve import relieve

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
