"""Threads within `vk.cohost` that call on one GPU have the plan for their part of it, from launch to launch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

import vkernels as vk
from tests.compiler.test_code_providers import finished
from vkernels.ir.errors import OptionError
from vkernels.library.rows import softmax_rows
from vkernels.runtime import cohosted_calls
from vkernels.runtime.coordinator import gpu_company
from vkernels.runtime.coordinator.cohost import LEASE
from vkernels.runtime.coordinator.gpu_company import CALLS, EPOCH, RETRY, SAMPLED_EVERY, Decided, GpuCompany
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
    monkeypatch.setattr(GpuCompany, "decide", lambda self, need, kind, name: Decided(tasks))


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
        thread = threading.Thread(target=lambda: found.append(company.decide(need, "other").tasks))
        thread.start()
        thread.join()
        return found[0]

    assert company.decide(0.5, "own").tasks == 1
    assert other(0.5) == 2
    assert company.decide(0.5, "own").tasks >= 2
    assert company.decide(1.0, "own").tasks == 1, "1.5 times the bandwidth of memory"
    now[0] = LEASE
    assert company.decide(0.5, "own").tasks == 1, "the other is gone"


@dataclass
class Passed:
    """A mark that is passed, at a time in seconds."""

    at: float

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Passed) -> float:
        return 1e3 * (end_event.at - self.at)


class Two:
    """Two threads that call in turns on a device; how long calls take is given."""

    def __init__(self, need: float) -> None:
        self.now, self.need = 0.0, need
        self.company = GpuCompany(lambda: self.now)

    def call(self, thread: int, seconds: float) -> Decided:
        """A call of a thread by its number."""
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(threading, "get_ident", lambda: thread)
            decided = self.company.decide(self.need, f"kind {thread}", f"kernel {thread}")
            if decided.is_sampled:
                marks = iter((Passed(self.now), Passed(self.now + seconds)))
                with self.company.measured(decided, f"kind {thread}", lambda: next(marks)):
                    pass
        self.now += SAMPLED_EVERY
        return decided

    def alone(self) -> None:
        for thread in (1, 2):
            for _ in range(3):
                self.call(thread, 1e-3)
            self.now += 2 * LEASE

    def together(self, times: float, seconds: float) -> list[int]:
        """For so many seconds calls take so many times as long side by side as alone; returns how they shared."""
        end, found = self.now + seconds, []
        while self.now < end:
            found += [self.call(thread, times * 1e-3).tasks for thread in (1, 2)]
        return found


@pytest.mark.parametrize(("times", "is_beside"), [(1.2, True), (3.0, False)])
def test_how_long_calls_take_beside_each_other_decides_whether_more_is_allowed(times: float, is_beside: bool) -> None:
    """Side by side while it gains, in turns where it does not, whatever the model says of needs just within bounds."""
    two = Two(need=0.54)  # 1.08 together
    two.alone()
    found = two.together(times, 0.4)
    (stats,) = two.company.stats()
    assert stats.kernels == ("kernel 1", "kernel 2")
    assert stats.needed == pytest.approx(1.08)
    assert stats.gain == pytest.approx(2 / times)
    assert stats.is_beside == is_beside
    assert (stats.oversubscription > 0.1) == is_beside
    assert found[-1] == (2 if is_beside else 1)
    assert (stats.turns == 0) == is_beside


def test_who_takes_turns_tries_again_after_a_while() -> None:
    two = Two(need=0.54)
    two.alone()
    assert two.together(3.0, 0.4)[-1] == 1
    found = two.together(1.2, 3 * RETRY)
    assert 1 in found
    assert found[-1] == 2
    assert two.company.stats()[0].gain == pytest.approx(2 / 1.2)


def test_calls_are_not_judged_before_they_are_known_alone_and_several_were_measured() -> None:
    two = Two(need=0.4)
    assert set(two.together(9.0, 0.2)[1:]) == {2}
    assert two.company.stats()[0].gain is None
    other = Two(need=0.4)
    other.alone()
    other.together(9.0, EPOCH + (CALLS - 1) * 2 * SAMPLED_EVERY)
    assert other.company.stats()[0].gain is None


def test_a_call_now_and_then_is_marked(monkeypatch: pytest.MonkeyPatch, device: FakeDriver) -> None:
    marks: list[float] = []
    monkeypatch.setattr(device, "mark", lambda: marks.append(0.0) or Passed(0.0), raising=False)
    monkeypatch.setattr(gpu_company, "COMPANIES", {0: GpuCompany(lambda: now[0])})
    now, (launcher, pair) = [0.0], rows()
    with vk.patient():
        launcher(*pair)
        with vk.cohost():
            for _ in range(10):
                launcher(*pair)
            assert len(marks) == 2
            now[0] = SAMPLED_EVERY
            launcher(*pair)
            assert len(marks) == 4
        launcher(*pair)
    assert len(marks) == 4
    assert len(device.launches) == 13


def test_tasks_that_meet_on_a_gpu_are_shown(monkeypatch: pytest.MonkeyPatch, device: FakeDriver) -> None:
    shown: list[str] = []
    launcher, pair = rows()
    company = GpuCompany()
    monkeypatch.setattr(gpu_company, "COMPANIES", {0: company})
    monkeypatch.setattr(device, "mark", lambda: Passed(0.0), raising=False)
    monkeypatch.setattr(cohosted_calls, "joined_board", object)
    monkeypatch.setattr(cohosted_calls, "show_companies", lambda companies: shown.extend(companies[-1].kernels))
    monkeypatch.setattr(cohosted_calls, "_shown_at", float("-inf"))
    with vk.patient(), vk.cohost():
        launcher(*pair)
        assert shown == []
        thread = threading.Thread(target=lambda: company.decide(0.1, "other", "other M=3"))
        monkeypatch.setattr(company, "_clock", lambda: 1.0)
        thread.start()
        thread.join()
        launcher(*pair)
    assert shown == ["other M=3", "softmax_rows M=4000 N=64"]


def test_shares_are_slices() -> None:
    h200, mi300x = target_named("h200-sxm-141"), target_named("mi300x")
    assert share_of(h200, 2).key == "h200-sxm-141:sms=64"
    assert share_of(mi300x, 2).multiprocessors == 152
    with pytest.raises(OptionError, match="parts"):
        share_of(h200, 40)


def test_a_device_has_one_company() -> None:
    assert gpu_company.company_on(7) is gpu_company.company_on(7)
    gpu_company.COMPANIES.pop(7)
