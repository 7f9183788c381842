"""How benchmarks/tuning_holds.py goes on where it was, and ends in time: nothing is tuned here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import tuning_holds

ONE = (1.02, 0.99, 1.05)


def test_kernels_are_judged_once_failures_again_and_none_that_would_end_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    broken = {"mass"}
    now = [0.0]

    def held(name: str, is_model: bool, budget: float, caches: str, processes: int) -> dict[str, Any]:
        asked.append(name)
        now[0] += 40
        if name in broken:
            raise subprocess.TimeoutExpired(["python"], 120)
        settings = ["whole model"] if is_model else tuning_holds.SETTINGS
        return {"kernel": name, "claimed": 1.1, "settings": dict.fromkeys(settings, ONE)}

    monkeypatch.setattr(tuning_holds, "held", held)
    monkeypatch.setattr(tuning_holds, "monotonic", lambda: now[0])
    app = typer.Typer()
    app.command()(tuning_holds.main)
    options = [str(tmp_path / "found.jsonl"), "--kernels", "mass,softmax_rows,convolve", "--models", "gnn_layer"]

    def run(*more: str) -> str:
        done = CliRunner().invoke(app, [*options, *more])
        assert done.exit_code == 0, done.output
        return done.output

    first = run("--budget", "15", "--sitting", "100")
    assert asked == ["mass", "softmax_rows", "gnn_layer"]
    assert "not judged: mass" in first
    assert "left for the next sitting: convolve" in first
    broken.clear()
    last = run("--budget", "15")
    assert asked[3:] == ["mass", "convolve"]
    assert "1.02 (0.99–1.05)" in last
    assert "slower after tuning: none" in last
    assert "left" not in last
