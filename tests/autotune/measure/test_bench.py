"""Real candidates, some of them hostile: each takes only its own process with it, and the bench goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vkernels as vk
from vkernels.autotune.measure import (
    Bench,
    BenchOptions,
    Candidate,
    Effort,
    Failed,
    FailureReason,
    Measurement,
    WorkerLimits,
)
from vkernels.autotune.measure.lock import lock_names, locked
from vkernels.autotune.measure.measuring_worker import MeasuringWorker
from vkernels.autotune.measure.timing import SETTLED
from vkernels.autotune.slice_names import place_of, usable
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan

HERE = Path(__file__).parent / "hostile.py"
PLAN = Plan(tiles={"i": 64}, lanes="i", order=("i",), warps=1)
SCALED = Task(f"{HERE}:scaled", {"N": 20_000}, {"x": "float32", "index": "int64", "out": "float32"})
EFFORT = Effort(seconds=0.02)
GOOD = Candidate(PLAN)


def bad(how: str) -> Candidate:
    return Candidate(PLAN, {"bad": how})


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def bench(own_cache: None) -> Iterator[Bench]:
    with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT)) as made:
        yield made


def _failed(bench: Bench, candidate: Candidate, timeout: float = 60.0) -> Failed:
    outcome = bench.measure(candidate, timeout)
    assert isinstance(outcome, Failed), outcome
    return outcome


@pytest.mark.slow
def test_a_plan_is_compiled_compared_and_timed(bench: Bench):
    found = bench.measure(GOOD)
    assert isinstance(found, Measurement)
    assert 0 < found.low <= found.seconds <= found.high
    assert found.repeats >= 1
    assert bench.best is not None
    assert bench.best <= found.seconds


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What workers are asked to start with, as it is asked."""
    heard: list[dict[str, Any]] = []
    ask = MeasuringWorker.ask

    def hear(child: MeasuringWorker, request: dict[str, Any], *rest: Any) -> dict[str, Any]:
        heard.extend([request] if request["do"] == "start" else [])
        return ask(child, request, *rest)

    monkeypatch.setattr(MeasuringWorker, "ask", hear)
    return heard


@pytest.mark.slow
def test_a_renewed_bench_measures_on_other_arguments(starts: list[dict[str, Any]]):
    with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT)) as bench:
        processes = []
        for _ in range(3):
            assert isinstance(bench.measure(GOOD), Measurement)
            assert isinstance(bench.measure(GOOD), Measurement)
            assert bench._child is not None
            processes.append(bench._child._process.pid)
            bench.renew_inputs()
        assert [each["seed"] for each in starts] == [0, 1, 2]
        assert len(set(processes)) == 1
        bench.close()
        assert isinstance(bench.measure(GOOD), Measurement)
        assert [each["seed"] for each in starts] == [0, 1, 2, 3]


@pytest.mark.slow
def test_what_is_usual_is_known_to_a_worker_on_other_arguments(starts: list[dict[str, Any]]):
    with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT)) as bench:
        for _ in range(2):
            for _ in range(SETTLED):
                assert isinstance(bench.measure(GOOD), Measurement)
            bench.renew_inputs()
    first, second = (each["usual"] for each in starts)
    assert first is None
    assert second > 0


def test_a_wrong_answer_is_told_with_the_first_wrong_element(bench: Bench):
    found = _failed(bench, bad("wrong"))
    assert found.reason == FailureReason.WRONG_ANSWER
    assert "out: " in found.text
    assert "elements are wrong; the first, [" in found.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason", "timeout"), [("crash", FailureReason.CRASH, 60.0), ("loops", FailureReason.TIME_OUT, 1.5)]
)
def test_one_that_crashes_or_never_ends_takes_only_its_worker_with_it(bench: Bench, how: str, reason, timeout: float):
    before = bench.restarts
    assert _failed(bench, bad(how), timeout).reason == reason
    assert bench.restarts == before + 1
    assert isinstance(bench.measure(GOOD), Measurement)


def test_a_plan_that_the_kernel_cannot_have_is_refused(bench: Bench):
    found = _failed(bench, Candidate(Plan(tiles={"nowhere": 4})))
    assert found.reason == FailureReason.REFUSED
    assert "nowhere" in found.text or "elements" in found.text


def test_a_constant_that_the_kernel_lacks_is_refused_or_ignored_but_never_an_error(bench: Bench):
    assert isinstance(bench.measure(Candidate(PLAN, {"unknown": 1})), Measurement | Failed)


def test_a_worker_killed_from_outside_is_started_again(bench: Bench):
    bench.start()
    assert bench._child is not None
    os.kill(bench._child._process.pid, signal.SIGKILL)
    assert _failed(bench, GOOD).reason == FailureReason.CRASH
    assert isinstance(bench.measure(GOOD), Measurement)


def test_finalists_that_crash_or_are_wrong_are_left_out_of_a_duel(bench: Bench):
    found = bench.paired_comparison([GOOD, bad("crash"), bad("wrong"), Candidate(PLAN, {"bad": "not"})])
    assert [each.reason if isinstance(each, Failed) else "fine" for each in found] == [
        "fine", FailureReason.CRASH, FailureReason.WRONG_ANSWER, "fine",
    ]  # fmt: skip


def test_one_that_takes_more_memory_than_there_is_for_it_does_not_fit():
    options = BenchOptions(EFFORT, WorkerLimits(memory_bytes=1 << 16))
    with Bench(SCALED, "cpu:cores=1", options) as small:
        large = Candidate(Plan(tiles={"i": 1024}, lanes="i", order=("i",), warps=1))
        assert _failed(small, large).reason == FailureReason.DOES_NOT_FIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtypes"),
    [("added", {"x": "float32", "total": "float32"}), ("masked", {"x": "float16", "out": "float16"})],
)
def test_kernels_that_read_what_they_write_or_jump_with_rounding_are_measured(name: str, dtypes: dict[str, str]):
    with Bench(Task(f"{HERE}:{name}", {"N": 5000}, dtypes), "cpu:cores=1", BenchOptions(EFFORT)) as made:
        assert isinstance(made.measure(GOOD), Measurement)


@pytest.mark.slow
def test_mistakes_in_the_task_are_told_by_their_own_class():
    with Bench(Task("no_such_kernel", {}, {}), "cpu:cores=1") as made, pytest.raises(vk.OptionError, match="no kernel"):
        made.start()
    lacking = Task(f"{HERE}:added", {}, {"x": "float32", "total": "float32"})
    with Bench(lacking, "cpu:cores=1") as made, pytest.raises(vk.ArgumentError, match="size N"):
        made.measure(GOOD)
    drawn = Task(SCALED.kernel, {}, SCALED.dtypes)
    with Bench(drawn, "cpu:cores=1") as made, pytest.raises(vk.SetupError, match="start: KeyError"):
        made.start()


def test_slices_and_cores_that_there_are_not_are_refused():
    with pytest.raises(vk.OptionError):
        Bench(SCALED, "cpu:cores=4096")
    with pytest.raises(vk.OptionError, match="cores"):
        Bench(SCALED, "cpu:cores=1", BenchOptions(cores=(4096,)))
    with pytest.raises(vk.SetupError, match="not here"):
        Bench(SCALED, "t4")


@pytest.mark.slow
@pytest.mark.skipif(len(usable()) < 2, reason="there is one core")
def test_a_worker_on_two_cores_needs_both_for_timing_alone(tmp_path: Path):
    """It starts, makes a reference and compiles on whichever core is free."""
    place = place_of("cpu:cores=2")
    options = BenchOptions(EFFORT, WorkerLimits(lock_seconds=1.0), locks=tmp_path / "locks")
    with Bench(SCALED, "cpu:cores=2", options) as made:
        with locked(lock_names("cpu", place.cores[:1]), 0, tmp_path / "locks"):
            made.start()
            found = _failed(made, GOOD)
            assert "others have measured" in found.text
        assert isinstance(made.measure(GOOD), Measurement)


def test_the_worker_runs_on_its_cores_alone(bench: Bench):
    bench.start()
    assert bench._child is not None
    assert os.sched_getaffinity(bench._child._process.pid) == {max(os.sched_getaffinity(0))}
