"""A model is run once, its tasks are those that it really calls, and tuning goes where its time is."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import vkernels as vk
from vkernels.autotune import model_tuning, slice_names
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import BenchOptions, Candidate, Effort, Measurement
from vkernels.autotune.model_tuning import TaskTurn, tune_model
from vkernels.autotune.models import ModelTasks, Part, read_model, tasks_of
from vkernels.autotune.plan_space import read
from vkernels.autotune.result import MEASURED, Success, TuningResult
from vkernels.autotune.slice_names import slice_limits
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan
from vkernels.library.catalogue import CATALOGUE

from .fake_benches import maker

ONE, LEAN = "cpu:cores=1", "cpu:cores=1,l2=65536"

MODEL = """
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    first = [nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48)]
    layers = nn.Sequential(*first, nn.Linear(48, 48), nn.LayerNorm(48), nn.Softmax(-1))
    return layers.eval(), torch.randn(16, 24)

def training():
    model, x = network()
    return model.train(), (x,)

def plain():
    return (lambda x, y: torch.ops.vkernels.softmax(x) + y), {"x": torch.randn(5, 7), "y": 1.0}

def nothing():
    return 3

def failing():
    raise ValueError("no weights here")

number = 4
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "some_models.py"
    path.write_text(MODEL)
    return path


def library_tasks_of(name: str, runs: int) -> ModelTasks:
    """The tasks of a model in a file, with the library's kernels put in."""
    from vkernels.torch import replace

    model, arguments, named = read_model(name)
    layers = str(replace(model, everywhere=True)) if hasattr(model, "named_modules") else ""
    return tasks_of(model, arguments, named, CATALOGUE, layers, runs)


@pytest.mark.slow
def test_the_tasks_of_a_model_are_its_kernels_with_the_sizes_that_it_calls_them_with(file: Path):
    pytest.importorskip("torch")
    found = library_tasks_of(f"{file}:network", runs=2)
    tasks = {part.task.name: part for part in found.parts}
    products = [part.task for part in found.parts if part.task.name == "matmul_bias"]
    assert {(task.shape["M"], task.shape["K"], task.shape["N"]) for task in products} == {(16, 24, 48), (16, 48, 48)}
    assert sorted(str(task.constants["activation"]) for task in products) == ["gelu", "none"]
    assert tasks["layer_norm_rows"].calls == 2
    assert dict(tasks["layer_norm_rows"].task.shape) == {"M": 16, "N": 48}
    assert set(tasks["softmax_rows"].task.dtypes.values()) == {"float32"}
    assert 0 < found.covered <= 1
    assert [part.seconds for part in found.parts] == sorted((part.seconds for part in found.parts), reverse=True)
    assert "GELU" in found.layers
    for part in found.parts[-1:]:
        assert read(part.task, slice_limits(ONE)).sizes.after > 1


def test_a_model_that_trains_is_run_backward_too(file: Path):
    pytest.importorskip("torch")
    kernels = {part.task.name for part in library_tasks_of(f"{file}:training", runs=1).parts}
    assert "layer_norm_gradient" in kernels
    assert "softmax_gradient" in kernels


def test_a_function_with_inputs_by_name_is_a_model_too(file: Path):
    pytest.importorskip("torch")
    pytest.importorskip("vkernels.torch")
    (part,) = library_tasks_of(f"{file}:plain", runs=1).parts
    assert (part.task.name, dict(part.task.shape), part.calls) == ("softmax_rows", {"M": 5, "N": 7}, 1)


def test_what_is_no_model_is_refused(file: Path):
    for name, error, message in (
        (f"{file}:nothing", vk.FileError, "return model, inputs"),
        (f"{file}:failing", vk.FileError, "ValueError: no weights here"),
        (f"{file}:netwrk", vk.OptionError, "network"),
        (f"{file}:number", vk.OptionError, "number"),
        ("some_models:network", vk.OptionError, "FILE.py:FUNCTION"),
        (f"{file.parent}/none.py:network", vk.FileError, "no such file"),
    ):
        with pytest.raises(error, match=message):
            read_model(name)


def _task(size: int) -> Task:
    return Task("vkernels.library.rows:softmax_rows", {"M": 16, "N": size}, {"x": "float32", "out": "float32"})


def _model(*seconds: float) -> ModelTasks:
    parts = tuple(Part(_task(8 * (number + 1)), 2, each) for number, each in enumerate(seconds))
    return ModelTasks(parts, sum(seconds))


class FakeTune:
    """Tunes as it is told: `best` of a task and slice after so many turns, in seconds a call; the default takes 1. Time
    goes by as it is used, on a clock of its own."""

    def __init__(self, best):
        self.time = 0.0
        self.best, self.turns = best, []
        self.lock = threading.Lock()

    def __call__(self, task: Task, slice: str, stop: Stop, bench, database, space) -> TuningResult:
        with self.lock:
            self.turns.append((task, slice, stop.seconds))
            count = sum(each[:2] == (task, slice) for each in self.turns)
        bench.measure(Candidate(Plan(warps=count)))
        with self.lock:
            self.time += stop.seconds / 2
        seconds = self.best(task, slice, count)
        if isinstance(seconds, vk.Error):
            raise seconds

        def success(each: float) -> Success:
            return Success(Candidate(Plan()), (), Measurement(each, each, each, 9))

        return TuningResult(
            task, slice, success(seconds), success(1.0), (), (), space.sizes, MEASURED, "seconds", "random", 0, 0.1
        )


def _tuned(model: ModelTasks, best, seconds: float = 30.0, lanes: int = 1, on_turn=lambda turn: None):
    tune = FakeTune(best)
    found = tune_model(
        model, [ONE, LEAN], seconds, lanes=lanes, tune=tune, make=maker(lambda slice, _: 1.0)[0], on_turn=on_turn,
        clock=lambda: tune.time,
    )  # fmt: skip
    return found, tune


@pytest.mark.slow
def test_every_task_has_a_turn_the_heaviest_first_and_the_heavier_the_longer():
    found, tune = _tuned(_model(1.0, 100.0, 10.0), lambda *_: 0.9)
    order = list(dict.fromkeys(turn.part for turn in found.turns))
    assert order[:3] == [1, 2, 0]
    lengths = {task.shape["N"]: seconds for task, _, seconds in reversed(tune.turns)}
    assert lengths[16] >= lengths[24] >= lengths[8]
    assert set(found.results) == {0, 1, 2}


@pytest.mark.slow
def test_more_turns_go_where_more_is_won():
    def best(task: Task, slice: str, count: int) -> float:
        return 0.9**count if task.shape["N"] == 16 else 1.0

    found, _ = _tuned(_model(1.0, 1.0, 1.0), best, seconds=200.0)
    turns = [turn.part for turn in found.turns]
    assert turns.count(1) > max(turns.count(0), turns.count(2))


def test_what_was_won_is_told_for_a_run_of_the_model():
    told: list[TaskTurn] = []
    found, _ = _tuned(_model(1.0, 2.0), lambda task, slice, count: 0.5 if slice == ONE else 1.0, on_turn=told.append)
    assert found.before_and_after(ONE) == (4.0, 2.0)
    before, after = found.before_and_after(LEAN)
    assert before == after
    assert tuple(told) == found.turns
    assert told[0].won == pytest.approx(2 * 0.5)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [part["task"]["shape"]["N"] for part in data["parts"]] == [8, 16]


@pytest.mark.slow
def test_a_task_that_cannot_be_tuned_is_told_of_and_the_others_go_on():
    def best(task: Task, slice: str, count: int):
        return vk.SetupError("no worker comes up") if task.shape["N"] == 16 else 0.5

    found, _ = _tuned(_model(1.0, 5.0, 1.0), best)
    assert found.failed == {1: "no worker comes up"}
    assert set(found.results) == {0, 2}


def test_lanes_work_at_once_on_different_tasks():
    meeting = threading.Barrier(2, timeout=60)

    def best(task: Task, slice: str, count: int) -> float:
        if count == 1 and slice == ONE:
            meeting.wait()  # passes only if two tasks are at work
        return 0.9

    found, _ = _tuned(_model(1.0, 1.0), best, lanes=2)
    assert set(found.results) == {0, 1}


@pytest.mark.parametrize(
    ("cores", "slices", "lanes"),
    [(1, 1, 1), (2, 1, 2), (2, 2, 2), (2, 3, 2), (2, 4, 1), (8, 1, 8), (8, 4, 4), (8, 99, 1)],
)
def test_as_many_tasks_at_once_as_keep_the_cores_at_work(
    monkeypatch: pytest.MonkeyPatch, cores: int, slices: int, lanes: int
):
    for module in (slice_names, model_tuning):
        monkeypatch.setattr(module, "usable", lambda: tuple(range(cores)))
    assert model_tuning.enough_lanes([ONE] * slices) == lanes


def test_slices_that_are_not_here_are_refused():
    for slices in ([], [ONE, ONE], ["t4"]):
        with pytest.raises(vk.OptionError, match="of this machine"):
            tune_model(_model(1.0), slices, 1.0)


@pytest.mark.thorough
def test_a_model_is_tuned_for_real(file: Path):
    pytest.importorskip("torch")
    model = library_tasks_of(f"{file}:network", runs=1)
    found = tune_model(model, [ONE, LEAN], 10.0, BenchOptions(Effort(seconds=0.02)))
    assert found.results
    assert not found.failed
    assert found.measured <= found.asked
    for name in (ONE, LEAN):
        before, after = found.before_and_after(name)
        assert 0 < after <= before
