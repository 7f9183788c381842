"""Calls by a plan that is far from what the device can do warn once, where the kernel's text costs most, and why."""

from __future__ import annotations

import warnings

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache

from ..runtime.gpu.fakes import FakeDriver, OnGpu, use


def recurrence(name: str = "recurrence") -> vk.Kernel:
    """A new kernel: each step reads what the one before wrote, so that a few threads do all, and load nothing ahead."""

    def other(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        for k in vk.range(1, "N"):
            out[i, k] = out[i, k - 1] * 0.5 + x[i, k]

    other.__name__ = name
    return vk.kernel(other)


def call(kernel: vk.Kernel, columns: int) -> None:
    kernel(OnGpu(torch.ones(4, columns)), OnGpu(torch.zeros(4, columns)))


def warned(monkeypatch, calls, session: CompilerSession) -> list[warnings.WarningMessage]:
    """The warnings of calls of new kernels, in a process that has made none."""
    with use_session(session), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use(monkeypatch, FakeDriver())
        calls()
    return [each for each in found if issubclass(each.category, vk.KernelWarning)]


def test_a_slow_plan_is_one_warning_at_the_line_of_the_call(monkeypatch):
    kernel = recurrence()

    def calls() -> None:
        for _ in range(3):
            call(kernel, 5000)

    (found,) = warned(monkeypatch, calls, CompilerSession(patience=600.0))
    assert found.category is vk.SlowPlanWarning
    assert found.filename == __file__
    text = str(found.message)
    assert text.startswith(f"{__file__}:")
    assert "4999 steps one after another" in text
    assert "have work" in text
    assert text.splitlines()[1].strip() == "out[i, k] = out[i, k - 1] * 0.5 + x[i, k]"


def test_the_next_process_warns_too_though_it_chooses_no_plan(monkeypatch, tmp_path):
    for _ in range(2):
        session = CompilerSession(DiskCache(tmp_path), patience=600.0)
        (found,) = warned(monkeypatch, lambda: call(recurrence(), 5000), session)
        assert "4999 steps one after another" in str(found.message)


def test_small_calls_and_good_plans_are_no_matter(monkeypatch):
    @vk.kernel
    def twice(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i, j = vk.tile("M"), vk.tile("N")
        out[i, j] = x[i, j] * 2

    def calls() -> None:
        call(recurrence(), 10)
        call(twice, 100_000)

    assert not warned(monkeypatch, calls, CompilerSession(patience=600.0))


def test_filters_silence_a_warning_or_make_it_an_error(monkeypatch):
    with use_session(CompilerSession(patience=600.0)), warnings.catch_warnings():
        use(monkeypatch, FakeDriver())
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", vk.SlowPlanWarning)
        call(recurrence(), 5000)
        warnings.simplefilter("error", vk.SlowPlanWarning)
        with pytest.raises(vk.SlowPlanWarning):
            call(recurrence("another"), 5000)
