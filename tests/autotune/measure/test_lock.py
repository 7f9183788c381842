"""Who measures on a core is alone there."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import vkernels as vk
from vkernels.autotune.measure import lock
from vkernels.autotune.measure.lock import HOLD_SECONDS, BusyError, lock_names, locked, locked_one

HOLDING = """
import sys, time
from pathlib import Path
from vkernels.autotune.measure.lock import locked
with locked(sys.argv[2:], 10, Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Starts a process that holds locks until it is killed."""
    started: list[subprocess.Popen[str]] = []

    def hold(*names: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDING, str(tmp_path / "locks"), *names]
        started.append(process := subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_second_one_waits_until_the_first_is_killed(tmp_path: Path, holder):
    process = holder("cpu-1")
    waiting = threading.Event()

    def kill_then() -> None:
        waiting.set()
        process.kill()

    with locked(["cpu-0", "cpu-1"], 30, tmp_path / "locks", kill_then):
        assert waiting.is_set()
    assert process.wait() != 0


def test_patience_ends(tmp_path: Path, holder):
    holder("cpu-0")
    with (
        pytest.raises(BusyError, match="cpu-0: others have measured there"),
        locked(["cpu-0"], 0.1, tmp_path / "locks"),
    ):
        pass


def test_who_gave_up_waiting_holds_nothing_later(tmp_path: Path, holder):
    process = holder("cpu-0")
    with pytest.raises(BusyError), locked(["cpu-0"], 0.05, tmp_path / "locks"):
        pass
    process.kill()
    with locked(["cpu-0"], 30, tmp_path / "locks"):
        pass
    with locked(["cpu-0"], 30, tmp_path / "locks"):
        pass


def test_who_waits_has_its_turn_though_another_takes_the_lock_again_and_again(tmp_path: Path):
    done, taken = threading.Event(), threading.Event()

    def greedy() -> None:
        while not done.is_set():
            with locked(["cpu-0"], 30, tmp_path / "locks"):
                taken.set()
                time.sleep(0.02)

    thread = threading.Thread(target=greedy)
    thread.start()
    try:
        assert taken.wait(30)
        for _ in range(3):
            with locked(["cpu-0"], 60, tmp_path / "locks"):
                pass
    finally:
        done.set()
        thread.join(60)


def test_other_cores_are_free_and_what_was_held_is_given_back_after_an_error(tmp_path: Path, holder):
    holder("cpu-1")
    for _ in range(2):
        with pytest.raises(KeyError), locked(["cpu-0"], 0, tmp_path / "locks"):
            raise KeyError
    with pytest.raises(BusyError), locked(["cpu-0", "cpu-1"], 0, tmp_path / "locks"):
        pass
    with locked(["cpu-0"], 0, tmp_path / "locks"):
        pass


@pytest.mark.slow
def test_who_waits_for_long_keeps_nobody_from_what_is_free(tmp_path: Path, holder):
    """The last core is taken: the first is used by others meanwhile, though somebody wants both."""
    process, has = holder("cpu-1"), threading.Event()

    def want_both() -> None:
        with locked(["cpu-0", "cpu-1"], 60, tmp_path / "locks"):
            has.set()

    thread = threading.Thread(target=want_both)
    thread.start()
    try:
        time.sleep(2 * HOLD_SECONDS)
        for _ in range(3):
            with locked(["cpu-0"], 60, tmp_path / "locks"):
                assert not has.is_set()
    finally:
        process.kill()
        thread.join(60)
    assert has.is_set()


@pytest.mark.slow
def test_who_gave_back_too_often_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Others take one core each, one after another, never both at rest by chance: who wants both has its turn."""
    monkeypatch.setattr(lock, "HOLD_SECONDS", 0.001)
    done = threading.Event()

    def take(name: str) -> None:
        while not done.is_set():
            with locked([name], 60, tmp_path / "locks"):
                time.sleep(0.02)

    threads = [threading.Thread(target=take, args=(name,)) for name in ("cpu-0", "cpu-0", "cpu-1", "cpu-1")]
    for thread in threads:
        thread.start()
    had: list[bool] = []
    try:
        for _ in range(3):
            with locked(["cpu-0", "cpu-1"], 60, tmp_path / "locks"):
                had.append(done.is_set())
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert had == [False] * 3


def test_many_threads_with_overlapping_cores_never_meet_and_never_wait_in_a_circle(tmp_path: Path):
    there: list[int] = []
    met: list[int] = []

    def work(cores: list[int]) -> None:
        for _ in range(10):
            with locked(lock_names("cpu", cores), 30, tmp_path / "locks"):
                met.extend(set(there) & set(cores))
                there.extend(cores)
                time.sleep(0.0005)
                for core in cores:
                    there.remove(core)

    threads = [threading.Thread(target=work, args=(cores,)) for cores in ([0, 1], [1, 2], [2, 0], [2, 1, 0])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert met == there == []


def test_one_of_several_is_one_that_is_free(tmp_path: Path, holder):
    process = holder("cpu-0")
    with locked_one(["cpu-0", "cpu-1"], 0, tmp_path / "locks") as name:
        assert name == "cpu-1"
        with pytest.raises(BusyError), locked_one(["cpu-0", "cpu-1"], 0.05, tmp_path / "locks"):
            pass
        with pytest.raises(BusyError), locked(["cpu-1"], 0, tmp_path / "locks"):
            pass
    with pytest.raises(KeyError), locked_one(["cpu-1"], 0, tmp_path / "locks"):
        raise KeyError
    with locked_one(["cpu-0"], 30, tmp_path / "locks", process.kill) as name:
        assert name == "cpu-0"


def test_names_are_of_devices_and_of_each_core():
    assert lock_names("cpu", (3, 1, 3)) == ("cpu-1", "cpu-3")
    assert lock_names("cuda:0", (1, 2)) == ("cuda-0",)


def test_what_is_no_place_for_locks_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/cpu-0.lock").symlink_to(tmp_path / "elsewhere")
    for folder, name in ((tmp_path / "file", "cpu-0"), (tmp_path / "folder", "cpu-0"), (tmp_path, "../x")):
        with pytest.raises(vk.SetupError), locked([name], 1, folder):
            pass
    assert not (tmp_path / "elsewhere").exists()
