"""Threads within `vk.cohost` that call on one GPU have the plan for their part of it, from launch to launch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch

import vkernels as vk
from tests.compiler.test_code_providers import finished
from vkernels.ir.cost_model.gpu import CACHE_HELD
from vkernels.ir.errors import OptionError
from vkernels.ir.planning.programs_beside import HeldPrograms
from vkernels.library.rows import softmax_rows
from vkernels.runtime import cohosted_calls
from vkernels.runtime.coordinator import gpu_company
from vkernels.runtime.coordinator.cohost import LEASE
from vkernels.runtime.coordinator.gpu_company import (
    CALLS,
    EPOCH,
    RETRY,
    SAMPLED_EVERY,
    Decided,
    GpuCompany,
    TaskNeeds,
    together,
)
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu.shares import SharingCalls
from vkernels.runtime.threads import forget_calls
from vkernels.targets import limits_of, target_named
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
    monkeypatch.setattr(GpuCompany, "decide", lambda self, kind: Decided(tasks))


@dataclass
class Kind:
    """Calls that need a part of the bandwidth of memory, and so many programs of a multiprocessor's shared memory."""

    key: str
    memory: float
    programs: int = 0
    shared: float = 0.0
    is_ready: bool = True

    @property
    def name(self) -> str:
        return f"kernel {self.key}"

    def needs(self, tasks: int) -> TaskNeeds | None:
        held = HeldPrograms(self.programs, (("shared memory", Fraction(self.shared).limit_denominator(100)),))
        return TaskNeeds({"memory": self.memory}, held, 132) if self.is_ready else None


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

    thread = ThreadPoolExecutor(1)

    def other(kind: Kind) -> int:
        return thread.submit(company.decide, kind).result().tasks

    own, more = Kind("own", 0.5), Kind("own", 1.0)
    assert company.decide(own).tasks == 1
    assert other(Kind("other", 0.5, is_ready=False)) == 1, "there is no code for its part yet"
    assert company.decide(own).tasks == 1
    assert company.stats() == ()
    assert other(Kind("other", 0.5)) >= 2
    assert company.decide(own).tasks >= 2
    assert company.decide(more).tasks == 1, "1.5 times the bandwidth of memory"
    now[0] = LEASE
    assert company.decide(own).tasks == 1, "the other is gone"


@pytest.mark.parametrize(
    ("own", "other", "what", "needed"),
    [
        ((64, 0.9), (64, 0.9), "shared memory", 2 * 64 * 0.9 / 132),
        ((132, 0.5), (132, 0.4), "shared memory", 0.9),
        ((132, 0.5), (132, 0.55), "shared memory", 2.0),  # none fits beside the other, whatever the sum
        ((100, 0.5), (64, 0.6), "shared memory", 1.5),
        ((1, 0.5), (1, 0.5), "memory", 0.2),
    ],
)
def test_programs_of_all_tasks_must_fit_on_the_multiprocessors(
    own: tuple[int, float], other: tuple[int, float], what: str, needed: float
) -> None:
    needs = [found for each in (own, other) if (found := Kind("any", 0.1, *each).needs(2)) is not None]
    assert together(needs) == (what, pytest.approx(needed))


def test_what_a_share_needs_is_what_its_code_takes(monkeypatch: pytest.MonkeyPatch, device: FakeDriver) -> None:
    """Programs at once on half the device; parts of bandwidths and caches; less room where programs take more."""
    found: list[TaskNeeds] = []
    (launcher, pair), kind = rows(), list[SharingCalls]()
    monkeypatch.setattr(GpuCompany, "decide", lambda self, each: kind.append(each) or Decided(1))
    with vk.patient(), vk.cohost():
        launcher(*pair)
        for tasks in (2, 3):
            assert kind[0].needs(tasks) is None, "made in the background"
            finished()
            needs = kind[0].needs(tasks)
            assert needs is not None
            found.append(needs)
    assert kind[0].needs(40) is None
    finished()
    assert kind[0].needs(40) is None, "the device has no such parts"
    for needs, multiprocessors in zip(found, (64, 44), strict=True):
        assert needs.held.programs == device.blocks * (multiprocessors // 8 * 8)
        assert set(dict(needs.held.taken)) >= {"threads", "registers", "programs"}
        assert all(0 < part <= 1 for part in needs.all_parts().values())
    assert found[0].parts["last cache"] == found[1].parts["last cache"] == pytest.approx(
        2 * 4000 * 64 * 4 / (CACHE_HELD * limits_of(device.target(0)).cache)
    )  # fmt: skip
    assert together(found)[1] <= 1


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
            decided = self.company.decide(Kind(f"{thread}", self.need))
            if decided.is_sampled:
                marks = iter((Passed(self.now), Passed(self.now + seconds)))
                with self.company.measured(decided, f"{thread}", lambda: next(marks)):
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
        thread = threading.Thread(target=lambda: company.decide(Kind("other", 0.1)))
        monkeypatch.setattr(company, "_clock", lambda: 1.0)
        thread.start()
        thread.join()
        launcher(*pair)
        assert shown == []
        finished()  # now there is code for half of the device
        launcher(*pair)
    assert shown == ["kernel other", "softmax_rows M=4000 N=64"]


def test_shares_are_slices() -> None:
    h200, mi300x = target_named("h200-sxm-141"), target_named("mi300x")
    assert share_of(h200, 2).key == "h200-sxm-141:sms=64"
    assert share_of(mi300x, 2).multiprocessors == 152
    with pytest.raises(OptionError, match="parts"):
        share_of(h200, 40)


def test_a_device_has_one_company() -> None:
    assert gpu_company.company_on(7) is gpu_company.company_on(7)
    gpu_company.COMPANIES.pop(7)
