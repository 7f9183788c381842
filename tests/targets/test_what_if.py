"""Limits that a device does not have, as questions name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkernels.commands.options import target_named
from vkernels.ir.errors import OptionError
from vkernels.targets.slices import planned_limits
from vkernels.targets.what_if import read_what_if


def named(name):
    return target_named(name, None, None)


def asked(text, target="h100-sxm5-80"):
    return read_what_if(text, named(target), named)


@pytest.mark.parametrize(
    ("text", "field", "after"),
    [
        ("shared=+32K", "shared", lambda before: before + (32 << 10)),
        ("shared=-1K", "shared", lambda before: before - 1024),
        ("shared=64k", "shared", lambda before: 64 << 10),
        ("l2=2x", "cache", lambda before: 2 * before),
        ("cache=0.5x", "cache", lambda before: before // 2),
        ("registers=128", "registers", lambda before: 128),
        ("bandwidth=4T", "memory_bandwidth", lambda before: 4e12),
        ("clock=+100M", "clock", lambda before: before + 1e8),
        ("threads=512", "threads", lambda before: 512),
        (" Shared = 2X ", "shared", lambda before: 2 * before),
    ],
)
def test_a_limit_is_given_as_a_number_a_difference_or_a_factor(text, field, after):
    before = planned_limits(named("h100-sxm5-80"))
    found = asked(text)
    assert getattr(found.limits, field) == pytest.approx(after(getattr(before, field)))
    sizes = ("shared", "registers", "threads", "clock", "memory_bandwidth", "cache")
    assert [name for name in sizes if getattr(found.limits, name) != getattr(before, name)] == [field]


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x"])
def test_what_a_program_gains_its_multiprocessor_gains(target):
    before, found = planned_limits(named(target)), asked("shared=+16K,registers=96", target).limits
    assert found.sizes.shared - before.sizes.shared == found.shared - before.shared == 16 << 10
    assert (found.sizes.block_shared, found.sizes.thread_registers) == (found.shared, 96)
    assert found.sizes.registers == before.sizes.registers


@pytest.mark.parametrize("text", ["multiprocessors=0.5x", "clock=2x"])
def test_rates_on_chip_go_with_the_number_of_multiprocessors_and_the_clock(text):
    before, found = planned_limits(named("a100-sxm4-80")), asked(text, "a100-sxm4-80").limits
    factor = float(text.partition("=")[2][:-1])
    assert found.shared_bandwidth == pytest.approx(factor * before.shared_bandwidth)
    assert found.multiply_adds == pytest.approx({name: factor * rate for name, rate in before.multiply_adds.items()})
    assert found.memory_bandwidth == before.memory_bandwidth


def test_another_target_comes_first_and_other_changes_apply_to_it():
    found = asked("shared=+1K,target=t4")
    there = planned_limits(named("t4"))
    assert found.limits.shared == there.shared + 1024
    assert found.limits.multiprocessors == there.multiprocessors
    assert found.changed["shared"] == (planned_limits(named("h100-sxm5-80")).shared, there.shared + 1024)


def test_nothing_that_stays_is_said_to_change():
    limits = planned_limits(named("t4"))
    assert asked(f"registers={limits.registers}", "t4").changed == {}
    assert asked("target=t4", "t4").limits == limits


def test_level_2_of_a_cpu_is_its_shared_memory_and_level_3_its_last_cache():
    before, found = planned_limits(named("cpu:znver4")), asked("l2=0.5x,l3=2x", "cpu:znver4").limits
    assert found == replace(before, shared=before.shared // 2, cache=2 * before.cache)


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("shared", "t4", "give a name and a value"),
        ("shared=", "t4", "give a name and a value"),
        ("", "t4", "give a name and a value"),
        ("share=2x", "t4", "did you mean shared or shared_bandwidth?"),
        ("shared=much", "t4", "write a number (64K), a difference (+32K, -32K) or a factor (2x)"),
        ("shared=+2x", "t4", "write a number"),
        ("shared=1e9", "t4", "write a number"),
        ("shared=-1G", "t4", "would be -1,073,676,288, from 65,536 bytes"),
        ("registers=0", "t4", "would be 0"),
        ("threads=33", "t4", "warps of 32"),
        ("l2=2x,l2=3x", "t4", "given twice"),
        ("l2=2x", "mi300x", "write cache=2x"),
        ("l3=2x", "t4", "write cache=2x"),
        ("target=h100-sxm", "t4", "did you mean h100-sxm5-80?"),
        ("target=cpu:znver4", "t4", "explain with --target cpu:znver4"),
        ("target=t4", "cpu:znver4", "explain with --target t4"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(text, target, said):
    with pytest.raises(OptionError) as error:
        asked(text, target)
    assert said in str(error.value)
    assert str(error.value).startswith("--what-if")
