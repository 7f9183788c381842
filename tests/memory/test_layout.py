"""Where things lie under a schedule: on random steps, nothing shares a byte, and every use finds its tensor."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from msgspec import structs

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.layout import lay_out
from vkernels.memory.links import Tier
from vkernels.memory.residency import DEVICE, Shelf, StorageResidency
from vkernels.memory.trace import Lifetime

from .drawn import assert_apart
from .steps import machine_of, step_of

SEEDS = 14


@cache
def laid_out(seed):
    """A layout for a random step, in units that are aligned, and None where there is no room for gaps."""
    drawn = step_of(seed)
    machine = machine_of(drawn, seed)
    tensors = tuple(structs.replace(each, size=64 * each.size) for each in drawn.tensors)
    operations = tuple(structs.replace(each, scratch=0) for each in drawn.operations)
    trace = replace(drawn, tensors=tensors, operations=operations)
    machine = replace(machine, device_bytes=machine.device_bytes * 64, host_bytes=machine.host_bytes * 64)
    try:
        return lay_out(trace, machine)
    except MemoryPlanError:
        return None


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_pieces_and_copies_lie_apart_and_every_use_finds_its_tensor(seed):
    layout = laid_out(seed)
    if layout is None:
        return
    trace, count = layout.trace, len(layout.trace.operations)

    def blocks(them):
        sizes = [trace.tensors[each.tensor].size for each in them]
        starts = [each.start % count for each in them]
        return [
            Lifetime(start, start + min(each.end - each.start, count), size)
            for each, start, size in zip(them, starts, sizes, strict=True)
        ]

    assert_apart(blocks(layout.pieces), count, tuple(each.offset for each in layout.pieces))
    for tier in Tier:
        mine = [each for each in layout.stays if each.tier is tier]
        assert_apart(blocks(mine), count, tuple(each.offset for each in mine))
    for at, op in enumerate(trace.operations):
        for tensor in {*op.reads, *op.writes}:
            there = [each for each in layout.pieces if each.tensor == tensor and each.holds(at, count)]
            assert len(there) == 1, f"operation {at} finds tensor {tensor} {len(there)} times"
            assert there[0].offset + trace.tensors[tensor].size <= layout.machine.device_bytes
    assert sorted(n for each in layout.stays for n in each.absences) == [*range(len(layout.schedule.absences))]
    fetched = sorted(each.fetched for each in layout.pieces if each.fetched is not None)
    assert fetched == [*range(len(layout.schedule.absences))]


@pytest.mark.slow
def test_most_random_steps_can_be_laid_out_and_some_need_a_schedule():
    found = [each for each in map(laid_out, range(SEEDS)) if each is not None]
    assert len(found) >= 7
    assert sum(bool(each.schedule.absences) for each in found) >= 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(8))
def test_the_least_memory_that_an_error_names_is_enough(seed):
    """For the offsets too, which may leave gaps."""
    drawn = step_of(seed)
    tensors = tuple(structs.replace(each, size=64 * each.size) for each in drawn.tensors)
    operations = tuple(structs.replace(each, scratch=0) for each in drawn.operations)
    trace = replace(drawn, tensors=tensors, operations=operations)
    machine = replace(machine_of(drawn, seed), device_bytes=1, host_bytes=1 << 40, flash_bytes=0)
    with pytest.raises(MemoryPlanError, match="are needed") as error:
        lay_out(trace, machine)
    assert error.value.least is not None
    layout = lay_out(trace, machine.with_device(error.value.least))
    assert layout.device_bytes <= error.value.least


@pytest.mark.parametrize("seed", range(20))
def test_a_shelf_finds_what_meets_a_place(seed):
    draw = random.Random(seed)
    shelf, there = Shelf(), {}
    for number in range(200):
        place = StorageResidency(DEVICE, draw.randint(0, 100), draw.randint(1, 12))
        met = {other for other in there if place.meets(other)}
        assert {other for other, _ in shelf.take(place)} == met
        for other in met:
            del there[other]
        if draw.random() < 0.8:
            there[place] = number
            shelf.put(place, number)
