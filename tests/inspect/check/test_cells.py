"""What fits is what the device has room for."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.inspect.check.cells import Cell, LaunchFailure, LaunchUse, judge
from vkernels.targets import known_targets, target_named

from .fakes import resources


def use(threads=128, **given):
    return LaunchUse(threads, resources(**given), 1.0)


@given(
    key=st.sampled_from(list(known_targets())),
    threads=st.sampled_from([32, 64, 128, 256, 512, 1024, 2048]),
    registers=st.integers(1, 520),
    shared=st.integers(0, 300_000),
)
def test_it_fits_just_where_a_program_can_be_resident(key, threads, registers, shared):
    launch = judge("k", use(threads, registers=registers, dynamic_shared=shared), target_named(key))
    assert launch.fits == (launch.occupancy.blocks > 0)
    assert launch.fits == (launch.reason == "")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"dynamic_shared": 65537}, "needs 65537 B of shared memory, has 65536"),
        ({"static_shared": 1, "dynamic_shared": 65536}, "needs 65537 B of shared memory, has 65536"),
        ({"threads": 2048}, "needs 2048 threads a program, has 1024"),
        ({"tensor_memory": 512}, "needs 512 columns of tensor memory, has 0"),
        ({"threads": 1024, "registers": 168}, "1024 threads of 168 registers exceed registers"),
    ],
)
def test_the_reason_says_needed_and_had(given, reason):
    launch = judge("k", use(**given), target_named("t4"))
    assert not launch.fits
    assert reason in launch.reason


def test_tensor_memory_is_judged_where_there_is_some():
    assert judge("k", use(tensor_memory=512), target_named("b200-sxm-180")).fits
    assert not judge("k", use(tensor_memory=513), target_named("b200-sxm-180")).fits


def test_figures_of_launches_without_a_binary_are_absent():
    target = target_named("t4")
    cell = Cell("k", "t4", "sm_75", "float32", {}, {}, (judge("k", LaunchFailure("it hangs", 120.0), target),))
    assert (cell.fits, cell.reason, cell.compile_seconds) == (False, "it hangs", 120.0)
    assert (cell.registers_per_thread, cell.blocks_per_multiprocessor, cell.limited_by) == (None, None, ())


def test_what_nobody_can_tell_is_neither_fit_nor_misfit():
    cell = Cell("k", "t4", "sm_75", "float32", {}, {}, unknown="no compiler")
    assert (cell.fits, cell.reason) == (None, "no compiler")


def test_amds_scalar_registers_count():
    target = target_named("mi300x")
    sizes = target.sizes
    crowded = dataclasses.replace(target, sizes=dataclasses.replace(sizes, scalar_registers=800, scalar_unit=16))
    few, many = (judge("k", use(scalar_registers=n), crowded).occupancy.blocks for n in (16, 104))
    assert few > many
