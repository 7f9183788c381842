"""Schedules, whoever makes them: always kept, never better than the bound, ours no worse than any other."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.bound import lower_bound
from vkernels.memory.imports import read_g10
from vkernels.memory.links import G10 as MACHINE
from vkernels.memory.links import MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.schedule_check import check, least_bytes
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies import PUBLISHED, search
from vkernels.memory.strategies.search import largest_saving
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor

from .places import DATA, G10, needs_data
from .steps import machine_of, step_of

STRATEGIES = {**PUBLISHED, "search": lambda trace, machine: search(trace, machine, rounds=2, trials=6)}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(15))
def test_every_strategy_keeps_to_capacity_and_the_bound(name, seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    schedule = STRATEGIES[name](trace, machine)
    check(trace, schedule, machine)
    run = simulate(trace, schedule, machine)
    assert run.steady
    assert run.seconds >= lower_bound(trace, machine).seconds * (1 - 1e-9)
    assert STRATEGIES[name](trace, machine) == schedule


@pytest.mark.parametrize("seed", range(25))
def test_ours_is_no_worse_than_any_other(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    ours = simulate(trace, search(trace, machine, rounds=1, trials=3), machine).seconds
    for name, other in PUBLISHED.items():
        theirs = simulate(trace, other(trace, machine), machine).seconds
        assert ours <= theirs + 2e-6 * trace.seconds, name


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(10))
def test_the_least_memory_does_and_a_byte_less_is_refused_by_name(name, seed):
    trace = step_of(seed)
    least, at = least_bytes(trace)
    machine = machine_of(trace, seed).with_device(least)
    check(trace, STRATEGIES[name](trace, machine), machine)
    with pytest.raises(MemoryPlanError, match=f"operation {at} .*at least {least} bytes.* are needed") as error:
        STRATEGIES[name](trace, machine.with_device(least - 1))
    assert (error.value.operation, error.value.least) == (at, least)


def test_host_and_flash_that_are_too_small_are_refused_with_what_would_do():
    trace = MemoryTrace(
        "t",
        (TracedTensor("x", 10), TracedTensor("y", 10)),
        (
            Operation("a", 1, (), (0,)),
            Operation("b", 1, (), (1,)),
            Operation("c", 1, (1,), ()),
            Operation("d", 1, (0,), ()),
        ),
    )
    machine = MemoryMachine(12, 3, 10, 10, 5, 5, flash_bytes=4)
    for strategy in STRATEGIES.values():
        with pytest.raises(MemoryPlanError, match=r"operation 1 \(b\).*at least 13 bytes") as error:
            strategy(trace, machine)
        assert error.value.least == 13


@pytest.mark.parametrize("seed", range(20))
def test_where_host_and_flash_are_small_a_schedule_keeps_to_them_or_is_refused(seed):
    trace = step_of(seed)
    machine = replace(machine_of(trace, seed), host_bytes=25, flash_bytes=25)
    for strategy in STRATEGIES.values():
        schedule = None
        with suppress(MemoryPlanError):
            schedule = strategy(trace, machine)
        if schedule is not None:
            check(trace, schedule, machine)
            continue
        with pytest.raises(MemoryPlanError, match="bytes"):
            strategy(trace, machine)


def test_nothing_leaves_where_there_is_memory_enough():
    trace = step_of(5)
    assert search(trace, MACHINE) == SwapSchedule()
    assert lower_bound(trace, MACHINE).waiting == 0


def test_the_bound_of_a_step_that_must_wait():
    """10 bytes are made by operation 0 and needed again by operation 3; 10 others fill the device in between. Copying
    takes 2 s, of which operation 1 hides one; fetching takes 2 s, of which nothing hides any."""
    trace = MemoryTrace(
        "t",
        (TracedTensor("x", 10), TracedTensor("y", 10)),
        (
            Operation("a", 1, (), (0,)),
            Operation("b", 1, (), ()),
            Operation("c", 1, (), (1,)),
            Operation("d", 1, (1,), ()),
            Operation("e", 1, (0,), ()),
        ),
    )
    machine = MemoryMachine(10, 100, 5, 5, 1e-3, 1e-3, shared=5)
    bound = lower_bound(trace, machine)
    assert bound.waiting == pytest.approx(1 + 2)
    run = simulate(trace, search(trace, machine), machine)
    assert run.seconds == pytest.approx(5 + 3)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", G10)
def test_published_g10_is_reached_and_noise_costs_little(name):
    path = DATA / "g10" / f"{name}.json.gz"
    trace = read_g10(path)
    published = json.loads(gzip.decompress(path.read_bytes()))["published_fraction_of_ideal"]["g10"]
    schedule = search(trace, MACHINE, rounds=0, trials=0, others=())
    fraction = simulate(trace, schedule, MACHINE).fraction
    assert fraction >= published
    assert fraction <= trace.seconds / lower_bound(trace, MACHINE).seconds + 1e-9
    draw = random.Random(8)
    for _ in range(3):
        seconds = [op.seconds * draw.uniform(0.75, 1.25) for op in trace.operations]
        assert simulate(trace, schedule, MACHINE, seconds).fraction >= fraction - 0.03


@pytest.mark.parametrize("seed", range(15))
def test_the_largest_saving_costs_no_time(seed):
    trace = step_of(seed)
    machine = machine_of(trace, seed)
    saving = largest_saving(trace, machine)
    assert least_bytes(trace)[0] <= saving.device_bytes <= saving.peak == trace.peak
    run = simulate(trace, saving.schedule, machine.with_device(saving.device_bytes))
    assert run.seconds <= trace.seconds * (1 + 1e-5)
    assert saving.part == pytest.approx(1 - saving.device_bytes / trace.peak)


def test_a_saving_with_links_of_no_use_is_none():
    """Links that carry nothing in time: every byte of the peak is needed."""
    trace = step_of(7)
    assert largest_saving(trace, MemoryMachine(0, 1000, 1e-9, 1e-9, 1e-9, 1e-9)).device_bytes == trace.peak
