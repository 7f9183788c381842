"""What planning knows of a device: every rate there, none absurd, and nothing lost on the way through JSON."""

import json
import sys
from dataclasses import asdict

import pytest

from vkernels.ir.limits import Limits, limits_from
from vkernels.targets import known_targets, limits_of, present_targets, target_named
from vkernels.targets.host_cpu import cpu_limits

DEFAULT = Limits(16, 32, 1 << 19, 1, 1 << 23)


@pytest.mark.parametrize("key", known_targets())
def test_every_known_device_has_every_rate(key):
    target, limits = known_targets()[key], limits_of(known_targets()[key])
    assert limits.clock == target.rates.clock_mhz * 1e6
    assert limits.memory_bandwidth == target.rates.memory_gb_s * 1e9  # a whole device is not bound by its paths
    assert limits.memory_bandwidth < limits.cache_bandwidth < limits.shared_bandwidth
    assert limits.multiply_adds["float32"] == pytest.approx(target.rates.float32_tflops * 5e11)
    assert limits.multiply_adds["float64"] <= limits.multiply_adds["float32"]
    assert {"float32", "float64", "int32", "int64"} == set(limits.multiply_adds)
    assert limits.memory == target.memory
    assert limits.sizes == target.sizes


@pytest.mark.parametrize("key", known_targets())
def test_tensor_cores_are_faster_than_plain_units(key):
    limits = limits_of(known_targets()[key])
    if key == "rx6900xt":
        assert limits.tensor_multiply_adds == {}
    else:
        assert limits.tensor_multiply_adds["float16"] > limits.multiply_adds["float32"]


def test_the_cpus_limits_are_the_same_where_llvm_is_not_installed(monkeypatch):
    by_llvm = cpu_limits.__wrapped__()
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert cpu_limits.__wrapped__() == by_llvm


def test_figures_of_data_sheets_come_out():
    h100, a100, t4 = (limits_of(target_named(key)) for key in ("h100-sxm5-80", "a100-sxm4-40", "t4"))
    assert h100.tensor_multiply_adds["float8"] == pytest.approx(1979e12 / 2, rel=0.01)
    assert h100.multiply_adds["float64"] == pytest.approx(33.5e12 / 2, rel=0.01)
    assert a100.tensor_multiply_adds["tf32"] == pytest.approx(156e12 / 2, rel=0.01)
    assert a100.multiply_adds["float64"] == pytest.approx(9.7e12 / 2, rel=0.01)
    assert t4.tensor_multiply_adds["int8"] == pytest.approx(130e12 / 2, rel=0.01)
    assert "bfloat16" not in t4.tensor_multiply_adds
    mi300x = limits_of(target_named("mi300x"))
    assert mi300x.multiply_adds["float64"] == pytest.approx(81.7e12 / 2, rel=0.01)
    assert mi300x.tensor_multiply_adds["float8"] == pytest.approx(2614.9e12 / 2, rel=0.01)


@pytest.mark.parametrize("target", [*known_targets().values(), present_targets()[-1]], ids=lambda target: target.key)
def test_limits_come_back_from_json(target):
    limits = limits_of(target)
    again = limits_from(json.loads(json.dumps(asdict(limits))))
    assert again == limits
    assert hash(again) == hash(limits)


def test_sizes_alone_give_limits_that_a_model_of_time_can_divide_by():
    rates = (DEFAULT.clock, DEFAULT.memory_bandwidth, DEFAULT.cache_bandwidth, DEFAULT.shared_bandwidth)
    assert min(*rates, *DEFAULT.multiply_adds.values(), DEFAULT.launch_seconds, DEFAULT.memory) > 0
