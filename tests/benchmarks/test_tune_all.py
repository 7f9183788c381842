"""What benchmarks/tune_all.py makes of turns, and how it goes on where it was: nothing is tuned here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import tune_all
from tune_all_judge import is_slower, judged, records_in, summary, table

SPENT = {"compiling": 3.0, "running": 1.0, "timing": 4.0}


def record(kernel: str, part: float = 1.0, gain: float = 1.0, long: bool = True) -> dict[str, Any]:
    spread = lambda value: {"median": value, "lower": 0.9 * value, "upper": 1.1 * value}  # noqa: E731
    tuned = {"tried": 50, "seconds": 60.0, "stopped": "seconds", "spent": SPENT}
    other = {"tried": 300, "seconds": 100.0, "stopped": "space"} if long else None
    judged = {"best": "tuned", "part": spread(part), "gain": spread(gain)}
    return {"kernel": kernel, "plans": 300, "tuned": tuned, "long": other, **judged}


def test_the_best_is_chosen_by_turns_that_do_not_judge_it():
    turns = {
        "tuned": [1.0] * 9,
        "default": [2.0] * 9,
        "lucky": [0.5] * 3 + [1.25] * 6,
        "steady": [0.6] * 3 + [0.8] * 6,
    }
    found = judged(turns, "tuned", "default")
    assert found["best"] == "lucky"
    assert found["part"]["median"] == 1.25
    assert found["gain"] == {"median": 2.0, "lower": 2.0, "upper": 2.0}
    del turns["lucky"]
    assert judged(turns, "tuned", "default")["part"]["median"] == 0.8


def test_turns_are_compared_one_by_one():
    """What slows everything for a while changes no part."""
    slow = np.array([1.0, 1, 1, 5, 1, 9])
    found = judged({"tuned": list(slow), "default": list(2 * slow), "long 0": list(0.9 * slow)}, "tuned", "default")
    np.testing.assert_allclose([found["part"]["median"], found["gain"]["median"]], [0.9, 2.0])


def test_the_same_plan_is_as_fast_as_itself():
    found = judged({"tuned": [1.0, 2.0, 3.0]}, "tuned", "tuned")
    assert (found["best"], found["part"]["median"], found["gain"]["upper"]) == ("tuned", 1.0, 1.0)


def test_noise_makes_nothing_slower_than_the_default():
    assert is_slower({"gain": {"median": 0.9, "upper": 0.95}})
    assert not is_slower({"gain": {"median": 0.9, "upper": 1.02}})
    assert not is_slower({"gain": {"median": 0.995, "upper": 0.997}})


def test_the_table_has_the_worst_first_and_counts():
    records = [
        record("good"), record("bad", 0.8), record("slow", 0.98, 0.5), record("alone", long=False),
        {"kernel": "broken", "failed": "RuntimeError: no plan has a time"},
    ]  # fmt: skip
    text = table(records)
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    assert rows == ["`bad`", "`slow`", "`good`", "`alone`", "`broken`"]
    assert "| 0.80 (0.72–0.88) |" in text
    assert "no plan has a time" in text
    assert "38 %, 12 %, 50 %" in text
    said = summary(records)
    assert "4 kernels tuned, 1 failed" in said
    assert "2 of 3 reach 0.97" in said
    assert "1 slower than the default" in said
    assert "0 kernels tuned" in summary([])


def test_a_file_that_was_cut_off_goes_on(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    first, again = record("a", 0.5), record("a", 0.9)
    path.write_text(f"{json.dumps(first)}\n[3]\n{json.dumps(again)}\n" + json.dumps(record("b"))[:40])
    assert records_in(path) == {"a": again}
    assert records_in(tmp_path / "none") == {}


def test_kernels_are_done_once_and_what_failed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "records.jsonl"
    asked: list[str] = []

    def child(settings: dict[str, Any], limit: float) -> dict[str, Any]:
        asked.append(settings["kernel"])
        return {"failed": "so it goes"} if settings["kernel"] == "softmax_rows" else record(settings["kernel"])

    monkeypatch.setattr(tune_all, "_child", child)
    arguments = ["run", str(path), "--kernels", "softmax_rows,mass"]
    for more in ([], [], ["--again"]):
        done = CliRunner().invoke(tune_all.app, [*arguments, *more])
        assert done.exit_code == 0, done.output
    assert asked == ["softmax_rows", "mass", "softmax_rows"]
    assert records_in(path)["softmax_rows"]["failed"] == "so it goes"
    shown = CliRunner().invoke(tune_all.app, ["show", str(path)])
    assert "1 kernels tuned, 1 failed" in shown.output


def test_a_child_that_takes_too_long_is_ended_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(tune_all, "__file__", str(script))
    assert tune_all._child({}, 0.5) == {"failed": "it took more than 0 s"}
    script.write_text("raise SystemExit('nothing here')\n")
    found = tune_all._child({}, 60.0)["failed"]
    assert "ended with 1" in found
    assert "nothing here" in found


def test_plans_of_earlier_files_are_rivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl", tmp_path / "none.jsonl"]
    found = [{"plan": {"rung": number}, "constants": [], "seconds": 1.0} for number in range(3)]
    base = record("mass")
    both = {**base, "tuned": {**base["tuned"], "best": found[0]}, "long": {"best": found[1]}}
    alone = {**base, "tuned": {**base["tuned"], "best": found[2]}, "long": None}
    failed = {"kernel": "softmax_rows", "failed": "so it goes"}
    for path, records in zip(paths, ([both, failed], [alone]), strict=False):
        path.write_text("\n".join(json.dumps(each) for each in records))
    asked: dict[str, Any] = {}

    def child(settings: dict[str, Any], limit: float) -> dict[str, Any]:
        asked[settings["kernel"]] = settings["known"]
        return {**record(settings["kernel"], long=False), "known": len(settings["known"])}

    monkeypatch.setattr(tune_all, "_child", child)
    arguments = ["run", str(tmp_path / "records.jsonl"), "--kernels", "softmax_rows,mass", "--only-tune"]
    done = CliRunner().invoke(tune_all.app, [*arguments, *(f"--known={path}" for path in paths)])
    assert done.exit_code == 0, done.output
    assert asked == {"softmax_rows": [], "mass": [{"plan": {"rung": rung}, "constants": []} for rung in range(3)]}
    assert "1 of 1 reach 0.97" in done.output
    assert "| 3 known |" in table(records_in(tmp_path / "records.jsonl").values())


def test_the_child_finds_the_task_by_the_name_in_its_settings():
    assert tune_all.task_named("softmax_rows").name == "softmax_rows"
