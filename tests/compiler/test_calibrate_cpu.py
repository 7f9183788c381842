"""Rates of this machine's CPU: measured when asked for, kept, and measured again where what is kept is damaged."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from itertools import cycle

import pytest

from vkernels.compiler import calibrate_cpu as measuring
from vkernels.compiler.calibrate_cpu import Measured, calibrate_cpu, confirmed, measure_and_store
from vkernels.ir.disk_cache import DiskCache
from vkernels.targets import cpu_rates, limits_of
from vkernels.targets.cpu_rates import RANGES, known_cpu_rates, store_cpu_rates
from vkernels.targets.host_cpu import cpu_limits
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import cpu_slice_limits

from .rates import SOME


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def measured(monkeypatch):
    """How often something was measured; gives other rates every time, which agree, while nobody else works."""
    times = []

    def measure(launch, quiet):
        times.append(1)
        return Measured(replace(SOME, clock=3e9 + len(times)), disturbed=False)

    monkeypatch.setattr(measuring, "measure_cpu", measure)
    monkeypatch.setattr(measuring, "quiet_cores", lambda wanted: ())
    return times


def found_in_turn(monkeypatch, *found):
    """Let measurements find these in turns, in no time."""
    left = cycle(found)
    monkeypatch.setattr(measuring, "measure_cpu", lambda launch, quiet: next(left))
    monkeypatch.setattr(measuring, "quiet_cores", lambda wanted: ())


ONCE = 2
"""Measurements of one calibration: a second one confirms the first."""


def test_rates_are_measured_once_and_kept(cache, measured):
    assert known_cpu_rates(cache) is None
    first = calibrate_cpu(cache)
    assert calibrate_cpu(cache) == first == known_cpu_rates(cache)
    assert len(measured) == ONCE
    assert calibrate_cpu(cache, again=True) != first
    assert len(measured) == 2 * ONCE


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("field", [each.name for each in fields(SOME)])
def test_rates_that_cannot_be_are_measured_again(cache, measured, field, wrong):
    store_cpu_rates(replace(SOME, **{field: wrong}), cache)
    assert known_cpu_rates(cache) is None
    assert calibrate_cpu(cache) == known_cpu_rates(cache)
    assert len(measured) == ONCE


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"null", b"[" * 100_000, b'{"clock": 3e9}', json.dumps(asdict(SOME)).encode()[:-3]]
)
def test_other_bytes_are_measured_again(cache, measured, data):
    cache.put(cpu_rates._key(), data)
    assert calibrate_cpu(cache).clock > 3e9
    assert len(measured) == ONCE


def test_a_file_that_was_changed_is_measured_again(cache, measured, tmp_path):
    calibrate_cpu(cache)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    calibrate_cpu(cache)
    assert len(measured) == 2 * ONCE


def test_importing_and_looking_measure_nothing():
    code = (
        "from vkernels.compiler import calibrate_cpu as m\n"
        "m.measure_cpu = lambda: 1 / 0\n"
        "import vkernels as vk; from vkernels.runtime.dispatch import limits\n"
        "from vkernels.targets import present_targets; present_targets(); limits()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_bytes", "rounds"),
    [(1 << 26, 3), pytest.param(measuring.MAX_BYTES, measuring.ROUNDS, marks=pytest.mark.thorough)],
)
def test_what_is_measured_makes_sense(monkeypatch, max_bytes, rounds):
    monkeypatch.setattr(measuring, "MAX_BYTES", max_bytes)
    monkeypatch.setattr(measuring, "ROUNDS", rounds)
    monkeypatch.setattr(measuring, "MOST_ROUNDS", 5 * rounds)
    rates = measuring.measure_cpu(lambda cores: (7e-6, 5e-5)).rates
    assert (rates.launch, rates.wake) == (7e-6, 5e-5)
    assert all(low <= getattr(rates, name) <= high for name, (low, high) in RANGES.items())
    assert rates.core_memory <= rates.memory <= rates.cache <= rates.shared
    assert rates.core_memory <= rates.core_cache <= rates.cache
    assert rates.register_bytes in (cpu_limits().register_bytes, cpu_limits().register_bytes // 2)


def test_measurements_that_differ_are_not_kept(cache, monkeypatch):
    found_in_turn(monkeypatch, *(Measured(replace(SOME, clock=clock * 1e9), False) for clock in (1, 2, 3, 4)))
    found = measure_and_store(cache)
    assert (found.disturbed, found.stored, found.rates.clock) == (True, False, 4e9)
    assert known_cpu_rates(cache) is None


def test_interrupted_measurements_are_not_kept_although_they_agree(cache, monkeypatch):
    found_in_turn(monkeypatch, Measured(SOME, disturbed=True))
    assert measure_and_store(cache).disturbed
    assert known_cpu_rates(cache) is None


def test_interrupted_measurements_between_others_do_not_count(cache, monkeypatch):
    slow = Measured(replace(SOME, clock=2e9), disturbed=True)
    found_in_turn(monkeypatch, Measured(SOME, False), slow, slow, Measured(replace(SOME, clock=3.1e9), False))
    assert measure_and_store(cache).stored
    assert known_cpu_rates(cache) == replace(SOME, clock=3.1e9)


def test_of_each_rate_the_fastest_that_is_confirmed_counts_and_of_a_cost_the_mean():
    assert confirmed([]) is None
    assert confirmed([SOME]) is None
    assert confirmed([SOME, replace(SOME, memory=1.1 * SOME.memory, past=SOME.past + 0.1)]) == replace(
        SOME, memory=1.1 * SOME.memory, past=SOME.past + 0.05
    )
    assert confirmed([SOME, replace(SOME, memory=1.5 * SOME.memory)]) is None
    assert confirmed([SOME, replace(SOME, past=SOME.past + 0.5)]) is None
    assert confirmed([SOME, replace(SOME, register_bytes=32)]) is None
    assert confirmed([replace(SOME, memory=times * SOME.memory) for times in (1, 2, 0.5, 0.9)]) == SOME
    assert confirmed([SOME, replace(SOME, register_bytes=32), SOME]) == SOME


def test_what_half_of_the_cores_do_is_counted_up(monkeypatch):
    monkeypatch.setattr(measuring, "cpu_limits", lambda: replace(cpu_limits(), multiprocessors=8))
    monkeypatch.setattr(measuring, "paying_width", lambda limits, measure: 32)
    monkeypatch.setattr(measuring, "loops", nullcontext)
    used = []

    def rates(self):
        used.append((self.limits.multiprocessors, self.measure._cores))
        return SOME

    monkeypatch.setattr(measuring._Measurement, "rates", rates)
    some = measuring.measure_cpu(None, (1, 3, 4, 6)).rates
    assert some == replace(SOME, **{name: 2 * getattr(SOME, name) for name in ("multiply_adds", "shared", "cache")})
    assert measuring.measure_cpu(None, (1, 3, 4)).rates == SOME
    assert used == [(4, (1, 3, 4, 6)), (8, measuring._cores())]


def test_only_runs_that_nothing_interrupts_count(monkeypatch):
    runs = [(True, 1.0), (False, 3.0), (True, 0.5), (False, 2.0), (False, 4.0)]
    left = cycle(runs)
    measure = measuring.Measure(None)
    monkeypatch.setattr(measure, "_run", lambda work, steps: next(left))
    assert measure._fastest([], 1, measuring.ROUNDS) == (False, 2.0)
    left = cycle([(True, 2.0), (True, 1.0)])
    assert measure._fastest([], 1, measuring.ROUNDS) == (True, 1.0)


@pytest.mark.parametrize(("pass_seconds", "longest"), [(1e-7, 5), (4e-3, 5), (0.1, 3)])
def test_few_runs_time_a_loop(monkeypatch, pass_seconds, longest):
    """Short passes are first counted, by one run of each number; of long ones no run is repeated."""
    measure, ran = measuring.Measure(None), []

    def run(work, steps):
        ran.append(steps)
        return False, steps * pass_seconds

    monkeypatch.setattr(measure, "_run", run)
    assert measure.seconds_a_step([]) == pytest.approx(pass_seconds)
    assert ran.count(max(ran)) == longest
    assert max(ran) * pass_seconds >= measuring.SECONDS / 2
    assert len(ran) <= longest + 10


@pytest.mark.parametrize(("narrow", "expected"), [(1.0, 64), (1.04, 64), (1.2, 32)])
def test_the_vectors_that_pay_are_taken(monkeypatch, narrow, expected):
    rates = {64: 1e11, 32: narrow * 1e11}
    monkeypatch.setattr(measuring, "_multiply_adds", lambda limits, width, code, measure: rates[width])
    monkeypatch.setattr(measuring, "loops", nullcontext)
    assert measuring.paying_width(replace(cpu_limits(), register_bytes=64), None) == expected


def test_limits_take_what_was_measured(monkeypatch):
    monkeypatch.setattr("vkernels.targets.present.known_cpu_rates", lambda: SOME)
    monkeypatch.setattr("vkernels.targets.present.cpu_limits", lambda: replace(cpu_limits(), multiprocessors=4))
    limits = limits_of(present_cpu())
    assert (limits.clock, limits.memory_bandwidth, limits.shared_bandwidth) == (3e9, 4e10, 4e11)
    assert limits.multiply_adds["float32"] == pytest.approx(1e11)
    assert limits.core == SOME.core_costs(cpu_rates.host_level_1())
    assert limits.launch_seconds == pytest.approx(1e-5)
    one = cpu_slice_limits(1)
    assert (one.multiprocessors, one.memory_bandwidth, one.cache) == (1, 1.5e10, cpu_limits().cache)
    assert one.cache_bandwidth == 6e10  # one core draws more than its share
    assert one.multiply_adds["float32"] == pytest.approx(1e11 / 4)
    assert one.core == limits.core
    assert cpu_slice_limits(9) == replace(limits, multiprocessors=9)


def test_without_them_limits_are_those_of_the_family(monkeypatch):
    monkeypatch.setattr("vkernels.targets.present.known_cpu_rates", lambda: None)
    cpu, assumed = present_cpu(), cpu_rates.family_cpu_rates()
    limits = limits_of(cpu)
    assert cpu.unverified == ("rates",)
    assert limits.clock == pytest.approx(assumed.clock)
    assert limits.cache_bandwidth == pytest.approx(assumed.cache)
    assert limits.core == assumed.core_costs(cpu_rates.host_level_1())
    assert cpu_slice_limits(cpu.multiprocessors) == limits
    sizes = ("registers", "register_bytes", "shared", "multiprocessors", "cache", "memory")
    assert [getattr(limits, name) for name in sizes] == [getattr(cpu_limits(), name) for name in sizes]
