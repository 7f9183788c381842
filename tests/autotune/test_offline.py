"""Tuning for devices that are not here: compiled for real, ranked by static bounds, or by the model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import vkernels as vk
from vkernels.autotune import offline
from vkernels.autotune.database import MODELLED, Database
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement
from vkernels.autotune.offline import ModelledBench, space_for, tune_offline
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.result import STATIC_BOUND
from vkernels.autotune.slice_names import slice_limits
from vkernels.compiler.judge_by_static_bound import PlanBound
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task
from vkernels.ir.plan_json import frozen
from vkernels.library.tasks import library_tasks
from vkernels.targets import limits_of, target_named

H100 = "h100-sxm5-80"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def small(**more: object) -> Task:
    (task,) = library_tasks(["softmax_rows"], SpecialisationRequest(shape={"M": 64, "N": 200}, **more))
    return task


@pytest.fixture(scope="module")
def on_gpu() -> PlanSpace:
    return read(small(), slice_limits(H100))


def test_without_a_compiler_the_model_alone_ranks(on_gpu: PlanSpace, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(offline, "_architecture", lambda name, limits: None)
    with Database.open(str(tmp_path / "t.db")) as database:
        result = tune_offline(small(), H100, Stop(evaluations=20), database, space=on_gpu)
        entries = database.entries()
    assert result.origin == MODELLED
    assert {entry.origin for entry in entries} == {MODELLED}
    assert not any(entry.final for entry in entries)
    times = [success.seconds for success in result.successes]
    assert len(times) == 20
    assert result.best.seconds in (min(times), result.default.seconds)
    assert result.best.seconds <= result.default.seconds


def test_plans_are_tried_in_the_order_of_their_modelled_times(on_gpu: PlanSpace, monkeypatch):
    monkeypatch.setattr(offline, "_architecture", lambda name, limits: None)
    result = tune_offline(small(), H100, Stop(evaluations=12), space=on_gpu)
    ranked = sorted(on_gpu.space, key=on_gpu.seconds)
    assert [success.point for success in result.successes[1:]] == [p for p in ranked if p != on_gpu.default][:11]


def test_gpu_plans_are_compiled_and_modelled_with_what_their_binaries_take(on_gpu: PlanSpace):
    pytest.importorskip("triton")
    bench = ModelledBench(on_gpu, "sm_90")
    plan = on_gpu.plan(on_gpu.default)
    outcome = bench.measure(Candidate(plan, on_gpu.constants(on_gpu.default)))
    assert isinstance(outcome, Measurement)
    assert outcome.repeats == 0
    assert 0.2 < outcome.seconds / on_gpu.seconds(on_gpu.default) < 5
    assert bench.paired_comparison([Candidate(plan, {})]) == [outcome]


def test_gpu_plans_are_ranked_by_the_bounds_of_their_binaries(on_gpu: PlanSpace, monkeypatch, tmp_path: Path):
    pytest.importorskip("triton")
    bounds: dict[Hashable, float] = {}

    def loops(code, *of):
        bounds.setdefault(frozen(code.plan), 1.0 / (1 + len(bounds)))  # each lower than those before
        return frozen(code.plan)

    monkeypatch.setattr(
        offline, "code_of", lambda task, candidate, *of: SimpleNamespace(plan=candidate.plan, binaries=())
    )
    monkeypatch.setattr(offline, "loops_of_code", loops)
    monkeypatch.setattr(offline, "bound_of_launches", lambda plan, least: PlanBound(bounds[plan], False))
    with Database.open(str(tmp_path / "t.db")) as database:
        result = tune_offline(small(), H100, Stop(evaluations=5), database, space=on_gpu)
        entries = database.entries()
    assert (result.origin, result.ranked_by) == (MODELLED, STATIC_BOUND)
    assert [success.seconds for success in result.successes] == [1.0 / n for n in range(1, 6)]
    assert result.best == result.successes[-1]
    assert {frozen(entry.shown): entry.seconds for entry in entries} == bounds
    assert {entry.origin for entry in entries} == {MODELLED}


def test_where_a_binary_cannot_be_read_the_model_ranks(on_gpu: PlanSpace, monkeypatch):
    plan = on_gpu.plan(on_gpu.default)
    monkeypatch.setattr(offline, "code_of", lambda *of: SimpleNamespace(plan=plan, binaries=()))
    monkeypatch.setattr(offline, "loops_of_code", lambda *of: None)
    assert ModelledBench(on_gpu, "sm_90").measure(Candidate(plan, {})).seconds == on_gpu.seconds(on_gpu.default)


def test_what_does_not_fit_in_truth_is_told(on_gpu: PlanSpace):
    pytest.importorskip("triton")
    tiny = replace(on_gpu, limits=replace(limits_of(target_named(H100)), threads=32))
    plan = replace(on_gpu.plan(on_gpu.default), warps=8)
    outcome = ModelledBench(tiny, "sm_90").measure(Candidate(plan, {}))
    assert isinstance(outcome, Failed)
    assert outcome.reason is FailureReason.DOES_NOT_FIT


def test_plans_that_a_kernel_cannot_have_are_refused(on_gpu: PlanSpace):
    plan = vk.Plan(tiles={"no axis": 3})
    assert ModelledBench(on_gpu, None).measure(Candidate(plan, {})).reason is FailureReason.REFUSED


def test_cpu_plans_are_compiled_for_this_cpu():
    space = read(small(), slice_limits("cpu:cores=1"))
    outcome = ModelledBench(space, "cpu").measure(Candidate(space.plan(space.default), {}))
    assert outcome.seconds == space.seconds(space.default)


def test_an_unknown_target_is_refused():
    with pytest.raises(vk.OptionError, match="there is no target"):
        tune_offline(small(), "h1000")


def test_the_plan_without_tuning_is_the_first_whose_code_fits(on_gpu: PlanSpace, monkeypatch):
    """As in calls, which go on to the next plan where code takes more than was foretold."""
    first = on_gpu.plan(on_gpu.default)
    taken = offline.read_taken

    def code(task: Task, candidate: Candidate, *where: object) -> object:
        made = code_of(task, candidate, *where)
        return SimpleNamespace(binaries=("too large",)) if frozen(candidate.plan) == frozen(first) else made

    code_of = offline.code_of
    monkeypatch.setattr(offline, "code_of", code)
    monkeypatch.setattr(offline, "read_taken", lambda binary: taken(binary) if binary != "too large" else None)
    monkeypatch.setattr(offline, "spill", lambda taken: "too large" if taken is None else None)
    space = space_for(small(), H100)
    assert frozen(space.plan(space.default)) != frozen(first)
    assert frozen(first) in {frozen(space.plan(point)) for point in space.space}
