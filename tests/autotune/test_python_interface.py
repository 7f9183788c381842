"""`vk.tune`, with a bench whose times are known."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk
from vkernels.autotune import first_use, python_interface
from vkernels.autotune.asked_task import place_of_kernel
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement
from vkernels.autotune.study import Study, StudyRow
from vkernels.autotune.trials import objective_from
from vkernels.compiler.session import CompilerSession
from vkernels.inspect.cases import executed
from vkernels.inspect.task import kernel_of
from vkernels.runtime.dispatch import Launcher

from .fake_bench import FakeBench
from .tuned_softmax import TASK, landscape, one_space

KERNEL = kernel_of(TASK)
INPUTS = tuple(np.zeros((TASK.shape["M"], TASK.shape["N"]), np.float32) for _ in KERNEL.parameters)


class OpenBench(FakeBench):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def _outcome(self, candidate, factor, setting):
        found = super()._outcome(candidate, factor, setting)
        if isinstance(found, Failed):
            return found
        return Measurement(found.seconds, found.low, found.high, 7, p99=3 * found.seconds, memory=weight(candidate))


def weight(candidate: Candidate) -> int:
    return 1000 + sum(candidate.plan.chunks.values())


@pytest.fixture
def bench(monkeypatch):
    made = OpenBench(landscape(one_space(), 1))
    monkeypatch.setattr(python_interface, "Bench", lambda task, slice, options: made)
    monkeypatch.setattr(python_interface, "read_space", lambda task, slice, bench, most, history: one_space())
    return made


def tune(budget="30", **more) -> vk.Tuned:
    found = vk.tune(KERNEL, INPUTS, budget=budget, **{"database": None, "caches": "cold", **more})
    assert isinstance(found, vk.Tuned)
    return found


def test_the_result_has_the_best_plan_its_gain_and_all_trials(bench):
    told = []
    result = tune(on_trial=told.append)
    least = min(trial.seconds for trial in result.trials if not trial.failure)
    assert result.best.seconds == pytest.approx(least, rel=1e-9)
    assert result.interval[0] <= result.speedup <= result.interval[1]
    assert result.speedup == pytest.approx(result.default.seconds / least)
    assert [trial.number for trial in result.trials] == list(range(len(result.trials)))
    assert [trial.plan for trial in told] == [trial.plan for trial in result.trials]
    assert {trial.failure for trial in result.trials} == {"", "compile-error"}
    assert all(trial.p99 == 3 * trial.seconds for trial in result.trials if not trial.failure)
    assert "times as fast as the default plan" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["best"]["plan"] == result.best.to_dict()["plan"]


def test_trials_are_a_data_frame_where_pandas_is(bench, monkeypatch):
    result = tune()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(vk.SetupError, match="pip install pandas"):
        result.to_frame()
    monkeypatch.undo()
    pytest.importorskip("pandas")
    frame = result.to_frame()
    assert len(frame) == len(result.trials)
    assert set(one_space().space.names) <= set(frame.columns)


@pytest.mark.parametrize("objective", ["memory", lambda trial: 5.0 / trial.seconds, "p99"])
def test_objectives_are_minimised_in_place_of_the_time(bench, objective):
    result = tune(objective=objective)
    wanted = objective_from(objective).of
    least = min(wanted(trial) for trial in result.trials if not trial.failure)
    assert result.best.value == pytest.approx(least)
    assert result.speedup == pytest.approx(wanted(result.default) / least)


def test_an_objective_may_run_the_kernel_with_a_plan(bench):
    outputs = []

    def peak(trial):
        trial.run()
        outputs.append(INPUTS[-1].sum())
        return trial.seconds

    random = np.random.default_rng(3)
    INPUTS[0][:] = random.standard_normal(INPUTS[0].shape, np.float32)
    result = tune(budget="3", objective=peak)
    assert result.objective == "peak"
    assert outputs == pytest.approx([TASK.shape["M"]] * len(outputs), rel=1e-5)
    INPUTS[-1][:] = np.nan
    result.kernel(*INPUTS)
    exact = np.exp(INPUTS[0].astype(np.float64))
    np.testing.assert_allclose(INPUTS[-1], exact / exact.sum(-1, keepdims=True), rtol=2e-5)


@pytest.mark.parametrize("objective", [lambda trial: -1.0, lambda trial: None, lambda trial: 1 / 0, "tme", 3])
def test_impossible_objectives_are_refused(bench, objective):
    with pytest.raises(vk.OptionError, match="objective"):
        tune(objective=objective)


@pytest.mark.parametrize(
    ("more", "text"),
    [({"budget": 0}, "budget"), ({"budget": "soon"}, "budget"), ({"search": "forrest"}, "did you mean forest"),
     ({"caches": "hot"}, "caches"), ({"constraints": 3}, "constraints"), ({"slices": "cores=1"}, "slices")],
)  # fmt: skip
def test_odd_options_are_refused(bench, more, text):
    with pytest.raises(vk.OptionError, match=text):
        tune(**more)


def test_inputs_that_are_not_row_major_are_refused(bench):
    turned = np.zeros(INPUTS[0].shape[::-1], np.float32).T
    with pytest.raises(vk.ArgumentError, match="strides"):
        vk.tune(KERNEL, (turned, *INPUTS[1:]), database=None)


def test_a_study_continues_where_it_was_interrupted(bench, tmp_path):
    path = tmp_path / "softmax.study"
    bench.interrupted = 12
    first = tune(study=path)
    assert first.stopped == "interrupted"
    bench.interrupted = None
    with path.open("a") as file:
        file.write('{"candidate": ')  # a process ended while it wrote
    second = tune(study=path)
    assert [trial.plan for trial in second.trials[:12]] == [trial.plan for trial in first.trials]
    assert [trial.earlier for trial in second.trials].count(True) == 12
    assert len({repr(each) for each in bench.measured}) == len(bench.measured)
    assert [trial.number for trial in second.trials] == list(range(len(second.trials)))
    assert tune(study=path).best.plan == second.best.plan
    with pytest.raises(vk.FileError, match="objective"):
        tune(study=path, objective="memory")


def test_a_study_is_for_one_process_and_no_other_file(tmp_path):
    path = tmp_path / "one.study"
    row = StudyRow(Candidate(one_space().plan(one_space().default)), *[Failed(FailureReason.CRASH, "so")] * 2)
    with Study(path, {"task": 1}) as study:
        study.add(row)
        with pytest.raises(vk.FileError, match="another process"):
            Study(path, {"task": 1})
    with Study(path, {"task": 1}) as study:
        assert study.rows == [row]
    for text in ("hello\n", "[1]\n", '{"format": "vkernels study", "version": 2}\n', "no line", "\xff\n"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(vk.FileError):
            Study(path, {"task": 1})


def test_the_report_stands_alone(bench, tmp_path, monkeypatch):
    result = tune()
    result.write_report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", text)
    assert all(f"<h2>{name}</h2>" in text for name in ("history", "importance", "parallel", "pairs"))
    with pytest.raises(vk.ArgumentError, match="did you mean history"):
        result.plot("histori")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "plotly.graph_objects", None)
        with pytest.raises(vk.SetupError, match="plotly is not installed"):
            result.plot()
    points = sum(len(trace.x) for trace in result.plot().data if trace.mode == "markers")
    assert points == len(result.trials)


SCRIPT = """
import vkernels as vk
from jaxtyping import Float
COUNT = []
@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2.0 * x[i]
"""


def test_a_tuned_program_must_guard_its_call(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT + "vk.tune(double, ())\n")
    with pytest.raises(vk.OptionError, match="__main__"):
        executed(str(path))


def test_the_program_that_runs_is_not_executed_again(tmp_path, monkeypatch):
    path = tmp_path / "program_again.py"
    path.write_text(SCRIPT)
    module = executed(str(path))
    monkeypatch.chdir(tmp_path)
    assert executed("program_again.py") is module
    assert executed(f"{tmp_path}/../{tmp_path.name}/program_again.py") is module
    path.with_name("wrong.py").write_text("raise ValueError")
    for _ in range(2):
        with pytest.raises(vk.FileError, match="ValueError"):
            executed(str(tmp_path / "wrong.py"))


# Kernels that tune themselves


def declared(**options):
    return type(KERNEL)(KERNEL.function, type(KERNEL.options)(**options))


def test_a_kernel_tunes_itself_before_its_first_call_with_new_sizes():
    kernel, session, asked = declared(tune=vk.Tuning(budget=3.0)), CompilerSession(), []
    session.tune_first_use = lambda kernel, inputs: asked.append({n: v.shape for n, v in inputs.items()})
    launcher = Launcher(kernel, session)
    for size in (3, 3, 4):
        launcher(*(np.ones((size, 5), np.float32) for _ in kernel.parameters))
    assert [each[kernel.parameters[0].name] for each in asked] == [(3, 5), (4, 5)]


def test_what_a_kernel_asks_the_tuner_for(monkeypatch):
    called = []
    monkeypatch.setattr(first_use, "tune", lambda kernel, inputs, **more: called.append(more) or vk.Tunings({}))
    monkeypatch.setattr(first_use, "database_in_use", lambda: (True, None))
    inputs = {p.name: value for p, value in zip(KERNEL.parameters, INPUTS, strict=True)}
    kernel = declared(tune=vk.Tuning(budget=3.0, caches="warm"))
    monkeypatch.setattr(first_use, "_begun", set())
    for _ in range(2):
        first_use.tune_first_use(kernel, inputs)
    assert called == [{"budget": 3.0, "caches": "warm", "slices": [f"cpu:cores={vk.get_threads()}"]}]
    monkeypatch.setattr(first_use, "_begun", set())
    monkeypatch.setattr(first_use, "database_in_use", lambda: (False, None))
    with pytest.warns(vk.KernelWarning, match="could not tune itself: there is no tuning database"):
        first_use.tune_first_use(kernel, inputs)


@pytest.mark.parametrize(
    "options", [{"tune": 3.0}, {"tune": vk.Tuning(), "deterministic": True}, {"tune": vk.Tuning(), "plan": vk.Plan()}]
)
def test_a_kernel_with_nothing_to_tune_does_not_tune_itself(options):
    with pytest.raises(vk.OptionError, match="tune"):
        declared(**options)


@pytest.mark.parametrize("values", [{"budget": 0}, {"budget": "10"}, {"caches": "hot"}])
def test_odd_tunings_are_refused(values):
    with pytest.raises(vk.OptionError, match=r"vk\.Tuning"):
        vk.Tuning(**values)


def test_a_function_is_tuned_kernel_by_kernel(monkeypatch):
    asked = []

    def tuned(asked_task, slices, options):
        asked.append((str(asked_task.task), slices, options.stop.evaluations))
        raise vk.ResourceError("no")

    monkeypatch.setattr(python_interface, "_tuned", tuned)

    def function(x, out):
        KERNEL(x, out)
        KERNEL(x[:1], out[:1])
        KERNEL(x, out)

    found = vk.tune(function, INPUTS, budget="5", database=None)
    assert {each[0].split()[0] for each in asked} == {TASK.name}
    assert len(asked) == 2
    assert sorted(found.calls.values()) == [1, 2]
    assert found.failed == {each[0]: "no" for each in asked}
    with pytest.raises(vk.ArgumentError, match="calls no kernel"):
        vk.tune(lambda: None, (), database=None)


def test_kernels_of_a_function_share_its_budget(monkeypatch):
    now, shares = [0.0], []

    def tuned(asked_task, slices, options):
        shares.append(options.stop.seconds)
        now[0] += options.stop.seconds
        raise vk.ResourceError("no")

    monkeypatch.setattr(python_interface, "_tuned", tuned)
    monkeypatch.setattr(python_interface, "monotonic", lambda: now[0])

    def function(x, out):
        for rows in range(1, len(x), len(x) // 8):
            KERNEL(x[:rows], out[:rows])

    found = vk.tune(function, INPUTS, budget=10.0, database=None)
    assert sum(shares) == pytest.approx(10.0)
    assert min(shares[:-1]) >= python_interface.SHORTEST
    assert set(found.failed.values()) == {"no", "the budget ended before its turn"}


def test_a_kernel_in_no_file_is_refused():
    with pytest.raises(vk.FileError, match="move it to a file"):
        place_of_kernel("<stdin>", "scaled")
    assert place_of_kernel(str(Path(python_interface.__file__)), "x") == f"{python_interface.__name__}:x"
