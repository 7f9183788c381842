"""Whatever a worker does, its bench gets an answer or the reason why there is none, in time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vkernels.autotune.measure.measures import FailureReason
from vkernels.autotune.measure.measuring_worker import EndedError, MeasuringWorker

MUCH = 1 << 40


@pytest.fixture
def child() -> Iterator[MeasuringWorker]:
    made = MeasuringWorker([0], f"{__package__}.fake_worker:serve")
    yield made
    made.kill()


def _ended(child: MeasuringWorker, request: dict, seconds: float = 20.0, memory: int = MUCH) -> EndedError:
    with pytest.raises(EndedError) as caught:
        child.ask(request, seconds, 20.0, memory)
    assert not child.alive
    return caught.value


def test_answers_come_one_after_another(child: MeasuringWorker):
    for number in range(3):
        assert child.ask({"do": "answer", "number": number}, 20, 0, MUCH)["number"] == number


@pytest.mark.slow
def test_one_that_hangs_is_ended_and_it_is_known_at_what(child: MeasuringWorker):
    child.ask({"do": "answer"}, 20, 0, MUCH)  # it has started: on a busy machine that takes longer than 2 s
    end = _ended(child, {"do": "hang"}, seconds=2.0)
    assert (end.reason, end.at) == (FailureReason.TIME_OUT, {"note": "running", "of": 3})


@pytest.mark.slow
def test_waiting_for_others_does_not_count_but_has_an_end(child: MeasuringWorker):
    child.ask({"do": "answer"}, 20, 0, MUCH)
    assert child.ask({"do": "wait", "seconds": 1.0}, 0.9, 20, MUCH) == {"outcomes": []}
    begun = time.monotonic()
    with pytest.raises(EndedError) as caught:
        child.ask({"do": "wait", "seconds": 600}, 20, 0.2, MUCH)
    assert caught.value.reason == FailureReason.TIME_OUT
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    "text", ["{}}\n", "[1, 2]\n", "\udcff".encode(errors="surrogateescape").decode("latin1") + "\n"]
)
def test_nonsense_is_a_crash(child: MeasuringWorker, text: str):
    assert _ended(child, {"do": "nonsense", "text": text}).reason == FailureReason.CRASH


def test_one_that_eats_memory_is_ended_before_it_has_it_all(child: MeasuringWorker):
    end = _ended(child, {"do": "eat"}, memory=200 << 20)
    assert end.reason == FailureReason.DOES_NOT_FIT
    assert "200 MiB" in end.text


@pytest.mark.parametrize(
    ("what", "told"), [("end", "status 3 while starting\na last word"), ("kill", "SIGKILL"), ("silence", "closed")]
)
def test_how_one_ended_by_itself_is_told(child: MeasuringWorker, what: str, told: str):
    end = _ended(child, {"do": what})
    assert end.reason == FailureReason.CRASH
    assert told in end.text


def test_one_that_was_killed_before_it_was_asked_is_a_crash_too(child: MeasuringWorker):
    child.ask({"do": "answer"}, 20, 0, MUCH)
    os.kill(child._process.pid, 9)
    child._process.wait()
    assert _ended(child, {"do": "answer"}).reason == FailureReason.CRASH
    child.kill()  # once more does nothing


STARTING = """
import time
from vkernels.autotune.measure.measuring_worker import MeasuringWorker
child = MeasuringWorker([max(__import__("os").sched_getaffinity(0))])
print(child._process.pid, flush=True)
time.sleep(600)
"""


def test_no_worker_outlives_a_tuner_that_is_killed():
    tuner = subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True)
    assert tuner.stdout is not None
    worker = int(tuner.stdout.readline())
    tuner.kill()
    tuner.wait()
    tuner.stdout.close()
    deadline = time.monotonic() + 100
    while _is_running(worker):
        assert time.monotonic() < deadline, "the worker is still there"
        time.sleep(0.05)


def _is_running(process: int) -> bool:
    """Neither gone nor waiting for its parent to look at how it ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
