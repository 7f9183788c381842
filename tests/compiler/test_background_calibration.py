"""Rates are measured once for a user and a machine, beside calls, and only where nothing disturbs that."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler import background_calibration as background
from vkernels.compiler.background_calibration import BackgroundCalibration, measure_when_idle, start_child
from vkernels.compiler.calibrate_cpu import Measured
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.runtime.dispatch import Launcher
from vkernels.targets.cpu_rates import family_cpu_rates, known_cpu_rates, store_cpu_rates

RATES = family_cpu_rates()


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache")


class Child:
    """Stands for a child process: holds what it inherits until it ends."""

    started: list[list[str]]

    def __init__(self, command, pass_fds=(), **options):
        self.started.append(command)
        self.claims = [os.dup(each) for each in pass_fds]

    def end(self):
        for each in self.claims:
            os.close(each)


@pytest.fixture
def started(monkeypatch):
    """The commands of the child processes that are started."""
    Child.started = []
    monkeypatch.setattr(subprocess, "Popen", Child)
    return Child.started


def test_the_child_is_started_once(cache, started, tmp_path):
    child = start_child(cache)
    assert [command[1:] for command in started] == [["-P", "-m", background.CHILD, str(tmp_path / "cache")]]
    assert start_child(cache) is None  # it is at work
    child.end()
    assert start_child(cache) is None  # it was a moment ago
    assert len(started) == 1


def test_a_later_process_tries_again(cache, started, tmp_path):
    child = start_child(cache)
    os.utime(tmp_path / "cache/calibration.claim", (0, 0))
    assert start_child(cache) is None  # it is at work yet
    child.end()
    start_child(cache).end()
    assert len(started) == 2


def test_nothing_is_started_where_rates_are_known(cache, started):
    store_cpu_rates(RATES, cache)
    assert start_child(cache) is None
    assert not started


def test_nothing_is_started_where_they_cannot_be_kept(started, tmp_path):
    (tmp_path / "file").write_text("")
    assert start_child(DiskCache(tmp_path / "file")) is None
    (tmp_path / "others").mkdir()
    (tmp_path / "others").chmod(0o777)
    assert start_child(DiskCache(tmp_path / "others")) is None
    (tmp_path / "linked").mkdir(mode=0o700)
    (tmp_path / "linked/calibration.claim").symlink_to(tmp_path / "file")
    assert start_child(DiskCache(tmp_path / "linked")) is None
    assert not started


def test_a_child_that_cannot_be_started_is_no_failure(cache, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(11, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert start_child(cache) is None


@pytest.fixture
def still(monkeypatch):
    """A quiet machine, and how often it was looked at; time passes in no time."""
    looks, now = [], [0.0]
    monkeypatch.setattr(background, "free_memory", lambda: 1 << 40)
    monkeypatch.setattr(background, "is_quiet", lambda cores: looks.append(now[0]) or True)
    monkeypatch.setattr(background.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(background.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    return looks


def measured(monkeypatch, *found):
    left = list(found)
    monkeypatch.setattr("vkernels.compiler.calibrate_cpu.measure_undisturbed", lambda *given: left.pop(0))
    return left


def test_rates_of_a_quiet_machine_are_kept(cache, still, monkeypatch):
    measured(monkeypatch, Measured(RATES, disturbed=True), Measured(RATES, disturbed=False))
    assert measure_when_idle(cache, 60.0)
    assert known_cpu_rates(cache) == RATES
    assert len(still) == 2


def test_a_busy_machine_is_left_alone(cache, still, monkeypatch):
    left = measured(monkeypatch, Measured(RATES, disturbed=False))
    monkeypatch.setattr(background, "is_quiet", lambda cores: False)
    assert not measure_when_idle(cache, 60.0)
    monkeypatch.setattr(background, "is_quiet", lambda cores: True)
    monkeypatch.setattr(background, "free_memory", lambda: background.ROOM - 1)
    assert not measure_when_idle(cache, 60.0)
    assert len(left) == 1
    assert known_cpu_rates(cache) is None


def test_the_child_ends_as_a_program(cache, tmp_path):
    """The whole child, of a machine that counts as busy."""
    code = (
        "from vkernels.compiler import background_calibration as b\n"
        "b.is_quiet = lambda cores: False\n"
        f"from {background.CHILD} import main; main([{str(tmp_path / 'cache')!r}], 0.0)\n"
        "import os; assert os.nice(0) == 19"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert known_cpu_rates(cache) is None


@vk.kernel
def doubled(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + x[i]


def test_a_call_begins_it_and_does_not_wait(cache, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def start(disk):
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr(background, "start_child", start)
    monkeypatch.setattr(background, "START_SECONDS", 0.0)
    session = CompilerSession(cache, patience=600.0, calibrates=True)
    monkeypatch.setattr(session.calibration, "begin", lambda begin=session.calibration.begin: begin(0.0))
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    Launcher(doubled, session)(x, out)
    np.testing.assert_array_equal(out, 2 * x)
    assert begun.wait(60)
    Launcher(doubled, session)(out, x)
    np.testing.assert_array_equal(x, 2 * out)
    may_end.set()


def test_a_session_begins_once_and_most_sessions_never(monkeypatch):
    monkeypatch.setattr(threading, "Timer", lambda *arguments: pytest.fail("started"))
    BackgroundCalibration(None).begin()
    CompilerSession(DiskCache()).calibration.begin()


def test_a_process_without_more_threads_calibrates_nothing(cache, monkeypatch):
    refused = []

    def refuse(self):
        refused.append(self)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", refuse)
    BackgroundCalibration(cache).begin()
    assert len(refused) == 1
