"""`vk tune`: what it takes, what it prints, how it ends."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from tests.autotune.fake_bench import FakeBench
from tests.autotune.fake_benches import maker
from vkernels.autotune import drive
from vkernels.autotune import tune as tuning
from vkernels.autotune.database import Database
from vkernels.autotune.drive import stop_from
from vkernels.autotune.measure import FailureReason
from vkernels.commands.tune import run as running
from vkernels.commands.tune.run import slice_names
from vkernels.ir.errors import OptionError, SetupError

SMALL = ["--shapes", "M=100,N=64", "--slice", "cores=1"]


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def vk(run_vk):
    """Runs `vk tune` in this process; gives exit code, output and errors."""
    return partial(run_vk, "tune")


@pytest.fixture
def bench(monkeypatch):
    """What measures: the plan that comes first, the default one, is the slowest; of others, the more elements a program
    takes, the faster."""
    first = []

    def seconds(candidate):
        first.extend([candidate.plan] if not first else [])
        return 1e-3 if candidate.plan == first[0] else 5e-4 / sum(candidate.plan.tiles.values())

    fake = FakeBench(seconds)

    class Context:
        def __enter__(self):
            return fake

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(tuning, "_bench", lambda bench, task, slice, stop: Context())
    return fake


def test_a_faster_plan_is_told_with_what_moved_it_and_remembered(vk, bench, tmp_path):
    path, url = tmp_path / "found.json", tmp_path / "tuning.db"
    code, out, _ = vk("softmax_rows", *SMALL, "--budget", 40, "--json", path, "--db", url)
    data = json.loads(path.read_text())
    (result,) = data["results"]
    assert code == 0
    assert f"{result['gain']:.2f} times as fast as the default plan" in out
    assert "decisions that matter: " in out
    assert "plans tried" in out
    assert (data["command"], data["schema_version"], data["interrupted"]) == ("tune", 1, False)
    assert result["best"]["seconds"] < result["default"]["seconds"]
    with Database.open(str(url)) as database:
        assert len(database.entries()) == result["tried"]


def test_results_go_to_standard_output_alone_where_json_is_asked_for_there(vk, bench):
    code, out, errors = vk("softmax_rows", *SMALL, "--budget", 5, "--json", "-", "--db", "none")
    assert code == 0
    assert json.loads(out)["results"][0]["task"]["shape"] == {"M": 100, "N": 64}
    assert "softmax_rows M=100 N=64" in errors


def test_each_shape_and_each_slice_is_tuned_and_run_on_the_others(vk, monkeypatch):
    make, _ = maker(lambda slice, candidate: 1e-3 / sum(candidate.plan.tiles.values()))
    monkeypatch.setattr(running, "tune_slices", partial(running.tune_slices, make=make))
    given = ["--shapes", "M=10,N=64", "--shapes", "M=20,N=64", "--slice", "cores=1", "--slice", "registers=8"]
    code, out, errors = vk("softmax_rows", *given, "--budget", 3, "--json", "-", "--db", "none")
    data = json.loads(out)
    found = [(each["task"]["shape"]["M"], each["slice"]) for each in data["results"]]
    assert code == 0
    assert found == [(m, f"cpu:{spec}") for m in (10, 20) for spec in ("cores=1", "registers=8")]
    assert [each["task"]["shape"]["M"] for each in data["crossed"]] == [10, 20]
    assert errors.count("tuned for ↓ run on →") == 2
    assert errors.count("best common plan") == 2


MODEL = """
import torch

def small():
    return torch.nn.Sequential(torch.nn.LayerNorm(32), torch.nn.Softmax(-1)).eval(), torch.randn(4, 32)

def failing():
    return (lambda x: x.nowhere), torch.randn(4, 32)
"""


@pytest.fixture
def small_model(monkeypatch, tmp_path):
    """A model whose runs are quicker with the plan of its first task, and slower with that of its second."""
    pytest.importorskip("torch")
    from vkernels.autotune import model_tuning
    from vkernels.commands.tune import model as of_models

    @contextmanager
    def runner(model, databases):
        yield lambda parts: 2.0 - 0.5 * (0 in parts) + 0.25 * (1 in parts)

    monkeypatch.setattr(of_models, "model_runner", runner)

    def make(task, slice, options):  # the default plan comes first
        first = []

        def seconds(slice, candidate):
            first.extend([candidate] if not first else [])
            return 1e-3 if candidate == first[0] else 5e-4

        return maker(seconds)[0](task, slice, options)

    monkeypatch.setattr(model_tuning, "tune_model", partial(model_tuning.tune_model, make=make, evaluations=3))
    path = tmp_path / "small.py"
    path.write_text(MODEL)
    return f"{path}:small"


def test_the_tasks_of_a_model_are_tuned_together_and_the_model_is_run_with_them(vk, small_model):
    code, out, errors = vk("--model", small_model, "--slice", "cores=1", "--json", "-", "--db", "none")
    data = json.loads(out)
    assert code == 0
    assert {part["task"]["kernel"] for part in data["model"]["parts"]} == {"layer_norm_rows", "softmax_rows"}
    assert "times as fast as before" in errors
    end = data["model"]["end_to_end"]["cpu:cores=1"]
    assert (end["gain"], end["taken_back"]) == (pytest.approx(2.0 / 1.5), [1])
    assert "the model is 1.33 times as fast as untuned (95 % interval 1.333–1.333)" in errors
    assert f"without them: {data['model']['parts'][1]['task']['kernel']}" in errors
    taken_back = data["model"]["parts"][1]["results"]["cpu:cores=1"]
    assert taken_back["best"]["plan"] == taken_back["default"]["plan"]


def test_a_model_whose_tasks_keep_their_default_plans_is_told(vk, small_model, monkeypatch):
    from vkernels.autotune import model_tuning

    alike = partial(model_tuning.tune_model, make=maker(lambda slice, candidate: 1e-3)[0])
    monkeypatch.setattr(model_tuning, "tune_model", alike)
    code, out, _ = vk("--model", small_model, "--slice", "cores=1", "--db", "none")
    assert code == 0
    assert "every task keeps its default plan" in out


def test_a_model_that_there_was_no_time_to_run_is_told(vk, small_model, monkeypatch):
    from vkernels.commands.tune.model import TimedRuns

    monkeypatch.setattr(TimedRuns, "may", lambda self, runs: False)
    code, out, errors = vk("--model", small_model, "--slice", "cores=1", "--json", "-", "--db", "none")
    assert code == 0
    assert "the model was not run end to end" in errors
    assert "give more time" in errors
    assert json.loads(out)["model"]["end_to_end"] == {}


@pytest.mark.thorough
def test_a_model_runs_in_a_process_with_the_plans_of_a_database(tmp_path):
    pytest.importorskip("torch")
    from vkernels.commands.tune.model import model_runner

    (tmp_path / "small.py").write_text(MODEL)

    class Databases:
        slice = "cpu:cores=1"

        def of(self, parts):
            return str(tmp_path / "none.db") if parts else None

    with model_runner(f"{tmp_path / 'small.py'}:small", Databases()) as run:
        assert all(0 < run(frozenset(parts)) < 60 for parts in ([], [0], []))
    with (
        pytest.raises(SetupError, match="has no attribute 'nowhere'"),
        model_runner(f"{tmp_path / 'small.py'}:failing", Databases()) as run,
    ):
        run(frozenset())


def test_families_are_all_their_kernels_and_are_summed_up(vk, bench):
    code, out, _ = vk("cumulative_sum", "--slice", "cores=1", "--budget", 2, "--db", "none")
    assert code == 0
    assert out.count("cumulative_sum_rows") == 2  # by itself, and in the table at the end
    assert "gain" in out


def test_a_live_page_has_all_results_in_the_end(vk, bench, tmp_path):
    page = tmp_path / "live.html"
    code, out, _ = vk("cumulative_sum", "--slice", "cores=1", "--budget", 2, "--db", "none", "--live", page)
    assert code == 0
    assert "open it in a browser" in out
    assert page.read_text().count("cumulative_sum_rows") == 1
    assert "refresh" not in page.read_text()
    code, _, errors = vk("softmax_rows", *SMALL, "--db", "none", "--live", tmp_path / "nowhere" / "live.html")
    assert code == 2
    assert "does not exist" in errors


def test_a_budget_that_ends_before_the_first_plan_is_no_failure(vk, bench, monkeypatch):
    monkeypatch.setattr(drive, "LEAST_SECONDS", 0.0)
    _, out, _ = vk("softmax_rows", *SMALL, "--budget", "0.001s", "--db", "none")
    assert "no plan was tried" in out
    assert "failed" not in out


def test_the_seconds_of_a_result_are_all_since_the_command_began(vk, bench, monkeypatch):
    monkeypatch.setattr(running, "monotonic", lambda: time.monotonic() + 1000)
    _, out, _ = vk("softmax_rows", *SMALL, "--budget", "60s", "--db", "none")
    said = re.search(r"plans tried in (\d+) s, until the time was over; the model ruled out \d+ more", out)
    assert int(said[1]) >= 1000


def test_failures_are_counted_by_reason(vk, bench):
    bench.times = lambda candidate: FailureReason.TIME_OUT
    code, out, _ = vk("softmax_rows", *SMALL, "--budget", 4, "--db", "none")
    assert code == 0
    assert "every plan failed" in out
    assert "4 failed: 4 time-out" in out


def test_an_interrupt_keeps_what_was_found(vk, bench, tmp_path):
    bench.interrupted = 7
    code, out, _ = vk("softmax_rows", "layer_norm_rows", *SMALL, "--budget", 40, "--db", tmp_path / "t.db")
    assert code == 130
    assert "7 of" in out
    assert "layer_norm_rows" not in out
    with Database.open(str(tmp_path / "t.db")) as database:
        assert len(database.entries()) == 7


def test_what_cannot_be_tuned_leaves_the_others_alone(vk, bench, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import vkernels as vk\nfrom jaxtyping import Float, Int\n\n@vk.kernel\n"
        'def take(x: Float[vk.Tensor, "M"], index: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):\n'
        '    i = vk.tile("N")\n    out[i] = x[index[i]] + nothing\n'
    )
    code, out, errors = vk(f"{path}:take", "softmax_rows", *SMALL, "--budget", 3, "--json", "-", "--db", "none")
    data = json.loads(out)
    assert code == 1
    assert [each["task"]["kernel"] for each in data["results"]] == ["softmax_rows"]
    assert "nothing" in data["refused"][0]["reason"]
    assert "nothing" in errors


def test_what_is_no_database_is_told_before_anything_is_tuned(vk, tmp_path):
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)
    code, out, errors = vk("softmax_rows", *SMALL, "--budget", 3, "--db", tmp_path / "broken.db")
    assert (code, out) == (2, "")
    assert "--db none" in errors


def test_a_database_that_cannot_be_written_is_told_before_anything_is_tuned(vk, tmp_path, monkeypatch):
    def refuse(connection):
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr("vkernels.autotune.database.database.prove_writable", refuse)
    code, out, errors = vk("softmax_rows", *SMALL, "--budget", 3, "--db", tmp_path / "full.db")
    assert (code, out) == (3, "")
    assert "disk is full" in errors
    assert "--db none" in errors


def test_a_database_that_fills_up_meanwhile_costs_no_result_and_is_told_in_the_end(vk, bench, tmp_path, monkeypatch):
    path = tmp_path / "found.json"

    def add(self, *given):
        raise SetupError("database or disk is full")

    monkeypatch.setattr(Database, "add", add)
    code, out, errors = vk("softmax_rows", *SMALL, "--budget", 4, "--db", tmp_path / "t.db", "--json", path)
    assert code == 3
    assert "could not be remembered" in errors
    assert "disk is full" in errors
    assert json.loads(path.read_text())["results"]
    assert "softmax_rows" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["softmax_row"], 2, "did you mean softmax_rows"),
        (["softmax_rows", "--budget", "soon"], 2, "--budget: expected a time"),
        (["softmax_rows", "--budget", "0"], 2, "--budget: expected a time"),
        (["softmax_rows", "--search", "forrest"], 2, "did you mean forest"),
        (["softmax_rows", "--shapes", "Q=1"], 2, "has no size 'Q'"),
        (["softmax_rows", "--target", "h100-sxm5-80"], 3, "--offline"),
        (["softmax_rows", "--target", "h100"], 2, "there is no target 'h100'"),
        (["softmax_rows", "--slice", "cores=1000"], 2, "cores"),
        (["softmax_rows", "--target", "cpu:cores=1", "--slice", "cores=1"], 2, "is a slice already"),
        (["nowhere.py:kernel"], 2, "nowhere.py: there is no such file"),
        (["softmax_rows", "--json", "/nowhere/at/all.json"], 2, "does not exist"),
        (["softmax_rows", "--dtype", "int8"], 2, "cannot be int8"),
        ([], 2, "give kernels, or --model"),
        (["softmax_rows", "--model", "a.py:b"], 2, "give kernels, or --model"),
        (["--model", "nowhere.py:b"], 2, "nowhere.py: there is no such file"),
        (["--model", "nowhere.py:b", "--budget", "100"], 2, "--budget must be a time"),
        (["--model", "nowhere.py:b", "--offline"], 2, "cannot be combined with --offline"),
    ],
)
def test_what_does_not_exist_is_one_message(vk, arguments, code, message):
    found, out, errors = vk(*arguments, "--db", "none")
    assert found == code
    assert message in errors
    assert "Traceback" not in errors + out


@pytest.mark.parametrize(
    ("text", "seconds", "evaluations"),
    [("60s", 60, None), ("1.5m", 90, None), ("1h", 3600, None), ("200", None, 200), ("30s,200", 30, 200)],
)
def test_budgets_are_times_or_numbers_of_plans(text, seconds, evaluations):
    stop = stop_from(text)
    assert (stop.seconds, stop.evaluations) == (seconds, evaluations)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1e3", "0s", "10,0", "١s"])
def test_odd_budgets_are_refused(text):
    with pytest.raises(OptionError, match="--budget"):
        stop_from(text, "--budget")


def test_slices_are_named_by_their_device():
    assert slice_names("cpu", []) == ["cpu"]
    assert slice_names("cpu", ["cores=1,l2=1024", "all", "cores=1,l2=1024"]) == ["cpu:cores=1,l2=1024", "cpu"]
    assert slice_names("nvidia:0", []) == ["nvidia:0"]


@pytest.mark.slow
def test_offline_compiles_for_what_is_not_here_and_marks_its_times(vk, tmp_path):
    pytest.importorskip("triton")
    url = tmp_path / "t.db"
    code, out, _ = vk(
        "softmax_rows", "--offline", "--target", "h100-sxm5-80", "--shapes", "M=64,N=128", "--budget", 2, "--db", url
    )
    assert code == 0
    assert "modelled" in out
    with Database.open(str(url)) as database:
        assert {entry.origin for entry in database.entries()} == {"modelled"}


@pytest.mark.thorough
def test_plans_are_really_measured_and_ctrl_c_really_keeps_them(tmp_path: Path):
    url = tmp_path / "t.db"
    program = "from vkernels.commands import main; main()"
    command = [sys.executable, "-c", program, "tune", "softmax_rows", *SMALL, "--budget", "600s", "--db", str(url)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        began = time.monotonic()
        while time.monotonic() - began < 120 and (not url.exists() or _entries(url) < 3):
            time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "plans tried" in out
    assert _entries(url) >= 3


def _entries(url: Path) -> int:
    with Database.open(str(url)) as database:
        return len(database.entries())
