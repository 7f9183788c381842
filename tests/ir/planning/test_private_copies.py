"""Private copies are chosen on CPUs where updating them, filling and combining them takes less than atomics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ir.lowering.ttir.lowering import kernel
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

from .kernels import kernel_of

ONE = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20, memory=1 << 34)
SIXTEEN = replace(ONE, multiprocessors=16)
GPU = Limits(
    registers=255, register_bytes=4, shared=99 << 10, multiprocessors=100, cache=40 << 20, threads=1024, warp=32
)


def _copies(limits: Limits, length: int, bins: int, pin: Pin | None = None) -> int:
    module = kernel("private_copies")
    plan = choose_plan(kernel_of(module), {"N": length, "B": bins}, limits, pin=pin).plan
    verify_mapped(apply_plan(module, plan, Facts(distinct=True)))
    return plan.private_copies


@pytest.mark.parametrize(("length", "bins"), [(1000, 16), (10**6, 16), (10**6, 10**6), (10**4, 10**7)])
def test_one_core_runs_programs_in_turn(length, bins):
    assert _copies(ONE, length, bins) == 1


@pytest.mark.parametrize(("length", "bins"), [(10**6, 16), (10**7, 4096), (10**8, 10**5)])
def test_each_core_has_a_copy_of_a_small_result(length, bins):
    assert _copies(SIXTEEN, length, bins) >= 16


@pytest.mark.parametrize(("length", "bins"), [(1000, 16), (10**4, 10**6), (10**5, 10**8)])
def test_a_result_with_few_updates_has_no_copies(length, bins):
    assert _copies(SIXTEEN, length, bins) < 2


def test_copies_find_room_in_memory():
    bins = 10**5
    assert _copies(replace(SIXTEEN, memory=4 * 16 * bins), 10**8, bins) < 16


def test_what_is_pinned_stays():
    for copies in (0, 1, 5):
        assert _copies(SIXTEEN, 10**6, 16, Pin(private_copies=copies)) == copies


def test_gpus_have_copies_only_where_they_are_pinned():
    assert _copies(GPU, 10**7, 16) == 0
    assert _copies(GPU, 10**7, 16, Pin(private_copies=264)) == 264


def test_the_model_counts_what_copies_take():
    """The more copies of a large result, the longer it takes to fill and combine them."""
    op = kernel_of(kernel("private_copies"))
    sizes = {"N": 10**5, "B": 10**6}
    space = read_space(op, sizes, SIXTEEN)
    plan = choose_plan(op, sizes, SIXTEEN, pin=Pin(private_copies=16)).plan
    seconds = [float(model_plan(space, replace(plan, private_copies=n)).seconds) for n in (16, 64, 256)]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 2 * seconds[0]
