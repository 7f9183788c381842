"""Rates of this machine's CPU: measured when asked for, kept, and measured again where what is kept is damaged."""

import json
import subprocess
import sys
from dataclasses import asdict, astuple, fields, replace

import pytest

from vkernels.compiler import calibrate_cpu as measuring
from vkernels.compiler.calibrate_cpu import calibrate_cpu
from vkernels.ir.disk_cache import DiskCache
from vkernels.targets import host_cpu, limits_of
from vkernels.targets.host_cpu import MeasuredCpuRates, known_cpu_rates, store_cpu_rates
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import cpu_slice_limits

SOME = MeasuredCpuRates(clock=3e9, memory=4e10, core_memory=1.5e10, cache=2e11, shared=4e11, multiply_adds=1e11)


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def measured(monkeypatch):
    """How often something was measured; gives other rates every time."""
    times = []

    def measure():
        times.append(1)
        return replace(SOME, clock=3e9 + len(times))

    monkeypatch.setattr(measuring, "measure_cpu", measure)
    return times


def test_rates_are_measured_once_and_kept(cache, measured):
    assert known_cpu_rates(cache) is None
    first = calibrate_cpu(cache)
    assert calibrate_cpu(cache) == first == known_cpu_rates(cache)
    assert len(measured) == 1
    assert calibrate_cpu(cache, again=True) != first
    assert len(measured) == 2


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("field", [each.name for each in fields(MeasuredCpuRates)])
def test_rates_that_cannot_be_are_measured_again(cache, measured, field, wrong):
    store_cpu_rates(replace(SOME, **{field: wrong}), cache)
    assert known_cpu_rates(cache) is None
    assert calibrate_cpu(cache) == known_cpu_rates(cache)
    assert len(measured) == 1


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"null", b"[" * 100_000, b'{"clock": 3e9}', json.dumps(asdict(SOME)).encode()[:-3]]
)
def test_other_bytes_are_measured_again(cache, measured, data):
    cache.put(host_cpu._key(), data)
    assert calibrate_cpu(cache).clock > 3e9
    assert len(measured) == 1


def test_a_file_that_was_changed_is_measured_again(cache, measured, tmp_path):
    calibrate_cpu(cache)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    calibrate_cpu(cache)
    assert len(measured) == 2


def test_importing_and_looking_measure_nothing():
    code = (
        "from vkernels.compiler import calibrate_cpu as m\n"
        "m.measure_cpu = lambda: 1 / 0\n"
        "import vkernels as vk; from vkernels.runtime.dispatch import limits\n"
        "from vkernels.targets import present_targets; present_targets(); limits()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_is_measured_makes_sense():
    rates = measuring.measure_cpu()
    assert all(rate > 0 for rate in astuple(rates))
    assert 2e8 < rates.clock < 1e10
    assert rates.core_memory <= rates.memory <= rates.cache <= rates.shared
    assert rates.core_memory < 1e12
    assert rates.multiply_adds > rates.clock / 100  # the machine may be busy


def test_limits_take_what_was_measured(monkeypatch):
    monkeypatch.setattr("vkernels.targets.present.known_cpu_rates", lambda: SOME)
    monkeypatch.setattr("vkernels.targets.present.cpu_limits", lambda: replace(CPU, multiprocessors=4))
    limits = limits_of(present_cpu())
    assert (limits.clock, limits.memory_bandwidth, limits.shared_bandwidth) == (3e9, 4e10, 4e11)
    assert limits.multiply_adds["float32"] == pytest.approx(1e11)
    one = cpu_slice_limits(1)
    assert (one.multiprocessors, one.memory_bandwidth, one.cache) == (1, 1.5e10, CPU.cache)
    assert one.multiply_adds["float32"] == pytest.approx(1e11 / 4)
    assert cpu_slice_limits(9) == replace(limits, multiprocessors=9)


def test_without_them_limits_are_those_of_sizes(monkeypatch):
    monkeypatch.setattr("vkernels.targets.present.known_cpu_rates", lambda: None)
    assert limits_of(present_cpu()) == CPU
    assert cpu_slice_limits(CPU.multiprocessors) == CPU


CPU = measuring.cpu_limits()
