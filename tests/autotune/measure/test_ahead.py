"""Who measures finds what was compiled ahead; what goes wrong there takes nothing else with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from vkernels.autotune.benches import Benches
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
from vkernels.autotune.measure import bench as benches
from vkernels.autotune.measure import precompile as compiling_ahead
from vkernels.autotune.measure.measuring_worker import Children, MeasuringWorker
from vkernels.autotune.measure.precompile import MAX_AT_ONCE, MAX_AT_ONCE_FOR_A_GPU, PrecompileWorkers
from vkernels.autotune.plan_space import read
from vkernels.autotune.slice_names import slice_limits, usable
from vkernels.compiler.request import CompileTarget
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan
from vkernels.library.tasks import library_tasks
from vkernels.targets import limits_of, target_named

HERE = Path(__file__).parent / "hostile.py"
SCALED = Task(f"{HERE}:scaled", {"N": 20_000}, {"x": "float32", "index": "int64", "out": "float32"})
SLICE = "cpu:cores=1"
LONG = 60.0


def planned(tile: int, bad: str = "no") -> Candidate:
    return Candidate(Plan(tiles={"i": tile}, lanes="i", order=("i",), warps=1), {"bad": bad})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes keep code."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vkernels"


@pytest.fixture
def ahead(cache: Path, tmp_path: Path) -> Iterator[PrecompileWorkers]:
    made = PrecompileWorkers(SCALED, usable(), 1, WorkerLimits(), tmp_path / "locks")
    yield made
    made.close()


def entries(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("*.entry")}


@pytest.mark.skipif(len(usable()) == 1, reason="on one core nothing is compiled ahead")
@pytest.mark.parametrize(
    "name",
    [
        "scaled",
        pytest.param("matmul", marks=pytest.mark.thorough),
        pytest.param("softmax_rows", marks=pytest.mark.thorough),
    ],
)
def test_who_measures_finds_what_was_compiled_ahead(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(benches, "PRECOMPILE_AFTER_SECONDS", 0.0)
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    random = np.random.default_rng(seed)
    if name == "scaled":
        task, candidates = SCALED, [planned(tile) for tile in (32, 64, 128)]
    else:
        (task,) = library_tasks([name])
        space = read(task, slice_limits(SLICE), 200)
        points = [space.default, *(space.space.sample(random) for _ in range(3))]
        candidates = [Candidate(space.plan(point), space.constants(point)) for point in dict.fromkeys(points)]
    with Bench(task, SLICE, BenchOptions(Effort(seconds=0.01))) as bench:
        assert bench.at_once == 1
        assert isinstance(bench.measure(candidates[0]), Measurement)
        assert bench.at_once == min(len(usable()), MAX_AT_ONCE)
        assert bench.prepare(candidates) == [None] * len(candidates)
        kept = entries(cache)
        assert len(kept) >= len(candidates)
        for candidate in candidates:
            assert isinstance(bench.measure(candidate), Measurement)
        assert entries(cache) == kept


def test_for_a_gpu_candidates_are_compiled_together_from_the_beginning():
    bench = Bench(SCALED, "nvidia:0")
    assert bench.at_once == min(len(usable()), MAX_AT_ONCE_FOR_A_GPU)
    bench.close()


@pytest.mark.slow
def test_what_is_wrong_with_a_candidate_shows_without_measuring_it(ahead: PrecompileWorkers):
    unknown = Candidate(Plan(tiles={"i": 64, "nobody": 3}, lanes="i"))
    first, second, third = ahead.compile([planned(64), unknown, planned(32)], LONG)
    assert (first, third) == (None, None)
    assert isinstance(second, Failed)
    assert second.reason == FailureReason.REFUSED
    assert "nobody" in second.text


def test_none_at_all_are_compiled_too(ahead: PrecompileWorkers):
    assert ahead.compile([], LONG) == []


@pytest.mark.slow
def test_who_takes_too_long_or_dies_is_told_and_others_are_compiled_after_it(ahead: PrecompileWorkers):
    assert ahead.compile([planned(64)], LONG) == [None]
    (late,) = ahead.compile([planned(48)], 0.0)
    assert isinstance(late, Failed)
    assert late.reason == FailureReason.TIME_OUT
    assert ahead.compile([planned(48)], LONG) == [None]
    child = ahead._children[0]
    os.kill(child._process.pid, signal.SIGKILL)
    (dead,) = ahead.compile([planned(32)], LONG)
    assert isinstance(dead, Failed)
    assert dead.reason == FailureReason.CRASH
    assert ahead.compile([planned(32)], LONG) == [None]


def test_where_no_process_comes_up_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling_ahead, "MeasuringWorker", partial(MeasuringWorker, service="vkernels.nowhere:serve"))
    ahead = PrecompileWorkers(SCALED, usable(), 1, WorkerLimits(), tmp_path)
    assert ahead.compile([planned(64), planned(32)], LONG) == [None, None]
    ahead.close()


def test_where_the_authors_inputs_cannot_be_made_nothing_is_said(tmp_path: Path):
    file = tmp_path / "odd.py"
    file.write_text(ODD)
    ahead = PrecompileWorkers(
        Task(f"{file}:scaled", {"N": 64}, {"x": "float32"}), usable(), 1, WorkerLimits(), tmp_path
    )
    assert ahead.compile([Candidate(Plan(tiles={"i": 8}, lanes="i"))], LONG) == [None]
    ahead.close()


ODD = """
import vkernels as vk
from jaxtyping import Float

@vk.kernel
def scaled(x: Float[vk.Tensor, "N"], by: float):
    i = vk.tile("N")
    x[i] = x[i] * by

@scaled.inputs
def inputs(sizes, dtypes, random):
    raise ValueError("no")
"""


def test_a_worker_says_what_it_was_not_started_for():
    child = MeasuringWorker(usable()[:1])
    for what in ("compile", "measure", "dance"):
        assert f"{what}: nothing was started" in child.ask({"do": what, "candidates": []}, LONG, 1.0, 1 << 40)["error"]
    child.kill()


def test_after_the_end_nothing_is_compiled(ahead: PrecompileWorkers):
    assert ahead.compile([planned(64)], LONG) == [None]
    children = [child for child in ahead._children if child is not None]
    ahead.close()
    assert children
    assert not any(child.alive for child in children)
    assert ahead._compiled(0, planned(64), LONG) is None


@pytest.mark.slow
def test_code_for_a_gpu_is_compiled_by_what_is_known_of_it(tmp_path: Path, cache: Path):
    target = target_named("h200-sxm-141")
    gpu = CompileTarget(limits_of(target), target.architecture, target.key)
    ahead = PrecompileWorkers(SCALED, usable(), 1, WorkerLimits(), tmp_path, gpu)
    ahead.begin()
    plan = Candidate(Plan(tiles={"i": 256}, lanes="i", order=("i",), warps=4), {"bad": "no"})
    assert ahead.compile([plan], LONG) == [None]
    assert entries(cache)
    ahead.close()


def test_idle_processes_are_kept_for_the_next_task(tmp_path: Path):
    with Children() as idle:
        ahead = PrecompileWorkers(SCALED, usable()[:1], 1, WorkerLimits(), tmp_path, idle=idle)
        assert ahead.compile([planned(64)], LONG) == [None]
        (child,) = ahead._children
        ahead.close()
        after = PrecompileWorkers(
            replace(SCALED, shape={"N": 64}), usable()[:1], 1, WorkerLimits(), tmp_path, idle=idle
        )
        assert after.compile([planned(32)], LONG) == [None]
        assert after._children == [child]
        after.close(keep=False)
        assert not child.alive


@pytest.mark.slow
def test_a_slice_alone_prepares_as_its_bench_does(tmp_path: Path):
    gpu = Benches(SCALED, ["nvidia:0"]).on("nvidia:0")
    assert gpu.at_once == min(len(usable()), MAX_AT_ONCE_FOR_A_GPU)
    with Benches(SCALED, [SLICE], BenchOptions(locks=tmp_path)) as alone:
        bench = alone.on(SLICE)
        assert bench.at_once == 1
        assert isinstance(bench.measure(planned(64)), Measurement)
        alone._all[0].spent["compiling"] = 10.0
        assert bench.at_once == min(len(usable()), MAX_AT_ONCE)
        assert bench.prepare([planned(32)]) == [None]
    with Benches(SCALED, [SLICE, "cpu"], BenchOptions(locks=tmp_path)) as several:
        several._all[0].spent["compiling"] = 10.0
        assert several.on(SLICE).at_once == 1
