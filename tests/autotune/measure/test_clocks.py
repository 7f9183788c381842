"""Clocks count what they should; a GPU's, on a stand-in for torch, since there is none here."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from vkernels.autotune.measure import clocks
from vkernels.autotune.measure.clocks import CpuClock, CudaClock


def test_waiting_on_one_thread_is_no_time_of_its_own_and_disturbs():
    found = CpuClock(1).sample([lambda: time.sleep(0.05)])
    assert found.seconds >= 0.05
    assert found.disturbed
    assert found.own is not None
    assert found.own < found.seconds


@pytest.mark.parametrize(("waited", "disturbed"), [(0.0001, False), (0.004, False), (0.006, True)])
def test_a_moment_off_the_core_is_no_disturbance_of_a_long_sample(
    monkeypatch: pytest.MonkeyPatch, waited: float, disturbed: bool
):
    """Whether the system took the core is not asked, but for how long."""
    walls, owns = iter([5.0, 5.1 + waited]), iter([1.0, 1.1])
    usage = iter(SimpleNamespace(ru_nivcsw=count) for count in range(9))
    monkeypatch.setattr(
        clocks, "time", SimpleNamespace(perf_counter=lambda: next(walls), thread_time=lambda: next(owns))
    )
    monkeypatch.setattr(clocks.resource, "getrusage", lambda who: next(usage))
    found = CpuClock(1).sample([])
    assert found.disturbed == disturbed
    assert found.seconds == pytest.approx(0.1 + waited)
    assert found.own == pytest.approx(0.1)


def test_on_several_threads_only_the_system_knows_who_was_disturbed():
    found = CpuClock(2).sample([lambda: time.sleep(0.01)] * 2)
    assert found.seconds >= 0.02
    assert found.own is None
    assert threading.active_count() >= 1


class FakeTorch:
    """A GPU on which a call takes the milliseconds that it adds to `now`, and flushing takes 7."""

    int8 = "int8"

    def __init__(self, level_2: int = 1 << 20):
        self.now, self.flushed, self.flushes = 0.0, 0, 0
        self.cuda = SimpleNamespace(
            get_device_properties=lambda device: SimpleNamespace(L2_cache_size=level_2),
            Event=lambda enable_timing: FakeEvent(self),
            synchronize=lambda device: None,
        )

    def empty(self, size: int, dtype: str, device: str):
        self.flushed = size
        return SimpleNamespace(zero_=self._flush)

    def _flush(self) -> None:
        self.flushes += 1
        self.now += 7.0


class FakeEvent:
    def __init__(self, torch: FakeTorch):
        self.torch, self.at = torch, 0.0

    def record(self) -> None:
        self.at = self.torch.now

    def elapsed_time(self, end: FakeEvent) -> float:
        return end.at - self.at


@pytest.mark.parametrize(("level_2", "flushed"), [(1 << 20, 2 << 20), (0, 128 << 20)])
def test_a_gpu_is_timed_by_its_events_without_the_flush_between_calls(level_2: int, flushed: int):
    torch = FakeTorch(level_2)
    clock = CudaClock("cuda:0", torch)

    def call() -> None:
        torch.now += 2.0

    found = clock.sample([call, call, call])
    assert found.seconds == pytest.approx(6e-3)
    assert torch.flushes == 3
    assert torch.flushed == flushed
    assert not found.disturbed


def test_with_warm_arguments_a_gpu_is_not_flushed_and_nothing_is_kept_for_it():
    torch = FakeTorch(1 << 20)
    clock = CudaClock("cuda:0", torch, warm=True)

    def call() -> None:
        torch.now += 2.0

    assert clock.sample([call, call]).seconds == pytest.approx(4e-3)
    assert torch.flushes == 0
