"""Threads within `vk.cohost` that call on one GPU have the plan for their part of it, from launch to launch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

import vkernels as vk
from tests.compiler.test_code_providers import finished
from vkernels.ir.errors import OptionError
from vkernels.library.rows import softmax_rows
from vkernels.runtime import cohosted_calls
from vkernels.runtime.coordinator import gpu_company
from vkernels.runtime.coordinator.cohost import LEASE
from vkernels.runtime.coordinator.gpu_company import GpuCompany
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.threads import forget_calls
from vkernels.targets import target_named
from vkernels.targets.slices.shares import share_of

from .fakes import FakeDriver, OnGpu, use


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A GPU. Afterwards calls are as in a process that never used `cohost`."""
    driver = FakeDriver()
    use(monkeypatch, driver)
    monkeypatch.setattr(cohosted_calls, "in_use", False)
    yield driver
    finished()
    cohosted_calls.in_use = False
    forget_calls()


def shared_by(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    monkeypatch.setattr(GpuCompany, "sharing", lambda self, need: tasks)


def rows(deterministic: bool = False) -> tuple[Launcher, tuple[OnGpu, OnGpu]]:
    pair = OnGpu(torch.zeros(4000, 64)), OnGpu(torch.zeros(4000, 64))
    return Launcher(vk.kernel(deterministic=deterministic)(softmax_rows.function)), pair


def test_a_call_has_the_plan_for_its_share_while_it_shares(monkeypatch: pytest.MonkeyPatch, device: FakeDriver) -> None:
    launcher, pair = rows()
    with vk.patient():
        launcher(*pair)
        whole = device.launches[-1]
        with vk.cohost():
            shared_by(monkeypatch, 2)
            launcher(*pair)
            assert device.launches[-1].function == whole.function, "code for the share is not there yet"
            finished()
            launcher(*pair)
            share = device.launches[-1]
            shared_by(monkeypatch, 1)
            launcher(*pair)
        shared_by(monkeypatch, 2)
        launcher(*pair)
    assert share.function != whole.function
    assert share.grid <= 64 * device.blocks, "as many programs as 64 of 132 multiprocessors hold"
    assert [each.function for each in device.launches[-2:]] == [whole.function] * 2


@pytest.mark.parametrize("kind", ["deterministic", "captured", "high"])
def test_other_calls_keep_their_plan(monkeypatch: pytest.MonkeyPatch, device: FakeDriver, kind: str) -> None:
    launcher, pair = rows(deterministic=kind == "deterministic")
    shared_by(monkeypatch, 2)
    with vk.patient(), vk.cohost(), vk.priority("high" if kind == "high" else "normal"):
        shared_by(monkeypatch, 1)
        launcher(*pair)
        shared_by(monkeypatch, 2)
        device.captures = kind == "captured"
        for _ in range(2):
            launcher(*pair)
            finished()
    assert len({each.function for each in device.launches}) == 1


def test_threads_share_while_their_calls_meet_and_their_needs_fit() -> None:
    now = [0.0]
    company = GpuCompany(lambda: now[0])

    def other(need: float) -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(company.sharing(need)))
        thread.start()
        thread.join()
        return found[0]

    assert company.sharing(0.5) == 1
    assert other(0.5) == 2
    assert company.sharing(0.5) >= 2
    assert company.sharing(1.0) == 1, "1.5 times the bandwidth of memory"
    now[0] = LEASE
    assert company.sharing(0.5) == 1, "the other is gone"


def test_shares_are_slices() -> None:
    h200, mi300x = target_named("h200-sxm-141"), target_named("mi300x")
    assert share_of(h200, 2).key == "h200-sxm-141:sms=64"
    assert share_of(mi300x, 2).multiprocessors == 152
    with pytest.raises(OptionError, match="parts"):
        share_of(h200, 40)


def test_a_device_has_one_company() -> None:
    assert gpu_company.company_on(7) is gpu_company.company_on(7)
    gpu_company.COMPANIES.pop(7)
