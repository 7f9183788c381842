"""What following costs as the simulator counts it, and the times of calls that followed."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
import torch
from msgspec import structs

import vkernels.memory
from vkernels.memory.cpu_device import AT_ONCE
from vkernels.memory.device import Lane
from vkernels.memory.following import StepTimes, copied_again, costs, simulated, simulated_times, with_program
from vkernels.memory.layout import lay_out
from vkernels.memory.limit import LINKS
from vkernels.memory.links import MemoryMachine, Tier
from vkernels.memory.schedule_check import least_bytes
from vkernels.memory.simulate import simulate

from .steps import step_of

NOTHING = {
    "operation_seconds": 0.0, "made_seconds": 0.0, "made_rate": inf, "absence_seconds": 0.0, "hand_over_seconds": 0.0,
    "at_once": 0, "flash_at_once": 0,
}  # fmt: skip


@pytest.fixture(scope="module", params=range(12))
def layout(request):
    """A step where half of what could leave has to; with flash in every other."""
    trace = step_of(request.param)
    aligned = tuple(structs.replace(each, size=-(-each.size // 64) * 64) for each in trace.tensors)
    least = least_bytes(replace(trace, tensors=aligned))[0]
    device, host = (least + trace.peak + 64 * len(trace.tensors)) // 2, 1 << 20 if request.param % 2 else 64
    return lay_out(trace, MemoryMachine(device, host, 640.0, 640.0, 64.0, 64.0))


def costing(layout, **more):
    """The same where only this costs anything."""
    return replace(layout, machine=replace(layout.machine, **NOTHING | more))


def test_an_operation_and_what_it_makes_cost_what_the_machine_says(layout):
    trace = layout.trace
    made = [each for each in trace.tensors if not each.is_global]
    assert costs(costing(layout)) == [0.0] * len(trace.operations)
    assert costs(costing(layout, operation_seconds=2.0)) == [2.0] * len(trace.operations)
    assert sum(costs(costing(layout, made_seconds=3.0))) == 3.0 * len(made)
    assert sum(costs(costing(layout, made_rate=64.0))) == pytest.approx(sum(each.size for each in made) / 64)


def test_every_transfer_that_is_begun_costs_the_programs_thread(layout):
    absences, count = layout.schedule.absences, len(layout.trace.operations)
    copies = sum(each.copy is not None for each in absences)
    again = sum(absences[n].copy is None for n in copied_again(layout))
    late = sum(each.back >= count and each.tier is Tier.FLASH for each in absences)
    read = sum(
        layout.trace.tensors[each.tensor].size / layout.machine.from_flash
        for each in absences if each.back >= count and each.tier is Tier.FLASH
    )  # fmt: skip
    begun = copies + again + len(absences)
    assert sum(costs(costing(layout, absence_seconds=1.0))) == pytest.approx(begun + late + read)
    assert sum(costs(costing(layout, hand_over_seconds=1.0))) == pytest.approx(begun + read)


def test_what_the_programs_thread_carries_itself_no_link_has_to(layout):
    everything = costing(layout, at_once=1 << 40, flash_at_once=1 << 40, hand_over_seconds=1e9)
    assert sum(costs(everything)) < 1e9
    assert sum(simulated(everything).stalls) == pytest.approx(0)


def test_without_costs_it_is_the_simulators_time_and_costs_add_to_it(layout):
    plain = simulate(layout.trace, layout.schedule, layout.machine)
    assert simulated(costing(layout)).seconds == plain.seconds
    dear = simulated(costing(layout, operation_seconds=1.0))
    assert dear.seconds > plain.seconds
    assert dear.ideal_seconds == pytest.approx(layout.trace.seconds)
    own = [2 * op.seconds for op in layout.trace.operations]
    assert simulated(costing(layout), own).ideal_seconds == pytest.approx(2 * layout.trace.seconds)
    calls = [StepTimes(0.0, tuple(each * op.seconds for op in layout.trace.operations)) for each in (1, 2, 40)]
    assert simulated_times(costing(layout), calls) == simulated(costing(layout), calls[1].own).seconds


def test_the_programs_own_time_counts_before_the_operation_it_precedes():
    trace = step_of(3)
    outside = [float(n) for n in range(len(trace.operations) + 1)]
    paced = with_program(trace, outside)
    assert paced.seconds == pytest.approx(trace.seconds + sum(outside))
    assert paced.operations[0].seconds == pytest.approx(trace.operations[0].seconds + outside[0] + outside[-1])
    assert paced.operations[2].seconds == pytest.approx(trace.operations[2].seconds + 2.0)


def test_calls_that_follow_their_plan_are_timed():
    weight = torch.ones(64, 64)

    def step():
        x = weight @ weight
        y = (x + 1).relu()
        return (y @ x).sum()

    limited = vkernels.memory.limit(step, 80_000, watch=True)
    for _ in range(3):
        limited()
    assert limited.report.seconds == 0
    for _ in range(70):
        limited()
    report = limited.report
    assert (report.planned, len(limited.times)) == (70, 64)
    assert all(0 < sum(each.own) <= each.seconds for each in limited.times)
    assert all(len(each.own) == len(limited.layout.trace.operations) for each in limited.times)
    assert 0 < report.own_seconds <= report.seconds
    assert report.own_seconds <= report.simulated_seconds
    assert limited.report == report


def test_usual_links_know_what_the_cpu_carries_at_once():
    assert (LINKS.at_once, LINKS.flash_at_once) == (AT_ONCE[Lane.TO_HOST], AT_ONCE[Lane.TO_FLASH])
