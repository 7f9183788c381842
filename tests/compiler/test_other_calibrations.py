"""With the rates of another machine plans change, and results stay right; a plan that is pinned gives the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vkernels as vk
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.language.kernel import Kernel, Options
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.runtime.dispatch import Launcher
from vkernels.targets import cpu_rates

from .calibrations import CALIBRATIONS, calibrating
from .rates import OTHER


@pytest.fixture
def calibrated(monkeypatch):
    with calibrating(monkeypatch) as calibrate:
        yield calibrate


def called(kernel, *values, disk=None):
    """The plan that a new process calls a kernel by; the last tensor is written."""
    seen = []
    with vk.on_launch(seen.append):
        Launcher(kernel, CompilerSession(disk, patience=600.0))(*values)
    return seen[-1].plan


def aligned(shape):
    """A tensor of torch, whose address allows stores past the caches."""
    import torch

    return torch.randn(shape)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_plans_change_and_results_stay_right(calibrated, tmp_path, threads):
    before, plans = vk.get_threads(), []
    x = aligned((4096, 1024))
    a, b, c = aligned((130, 170)), aligned((170, 150)), aligned(150)
    vk.set_threads(threads)
    try:
        for rates in CALIBRATIONS:
            calibrated(rates)
            out, product = x.new_full(x.shape, np.nan), a.new_full((130, 150), np.nan)
            plans.append(called(softmax_rows, x, out, disk=DiskCache(tmp_path)))
            np.testing.assert_allclose(out, x.double().softmax(1), rtol=2e-6)
            called(matmul_bias, a, b, c, product, disk=DiskCache(tmp_path))
            np.testing.assert_allclose(product, a.double() @ b.double() + c, atol=2e-4)
    finally:
        vk.set_threads(before)
    assert len({repr(plan) for plan in plans}) > 1


def test_calibrations_do_not_share_cached_plans(calibrated, tmp_path):
    x, disk = aligned((4096, 1024)), DiskCache(tmp_path)
    plans = {}
    for rates in (*CALIBRATIONS, *CALIBRATIONS):
        calibrated(rates)
        out = x.new_empty(x.shape)
        plans.setdefault(rates, []).append(called(softmax_rows, x, out, disk=disk))
    assert all(first == again for first, again in plans.values())


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", [softmax_rows, layer_norm_rows], ids=lambda kernel: kernel.name)
def test_a_plan_gives_the_same_bits_whatever_the_calibration(calibrated, kernel):
    """The order of additions follows from the plan and the width of vectors alone, not from rates."""
    x, ones = aligned((37, 5001)), aligned(5001).fill_(1)
    more = () if kernel is softmax_rows else (ones, 0 * ones, 1e-5)
    planned = Kernel(kernel.function, Options(plan=vk.Plan({"i": 1}, {"j": 256}, lanes="j", order=("i",))))
    found = set()
    for rates in CALIBRATIONS:
        calibrated(rates and replace(rates, register_bytes=64))
        out = x.new_full(x.shape, np.nan)
        called(planned, x, *more, out)
        found.add(out.numpy().tobytes())
    assert len(found) == 1


def test_the_width_of_vectors_is_that_of_the_calibration(calibrated):
    from vkernels.compiler.backends.llvm import host_register_bytes

    calibrated(OTHER)
    assert host_register_bytes() == min(32, cpu_rates.cpu_limits().register_bytes)
