"""`vk run bp` solves a bake-off problem, and says what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from vkernels.commands import main

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "json.md"


def run(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as left:
        main(["run", "bp", *arguments])
    return left.value.code or 0


def test_a_problem_is_solved_and_written(tmp_path, capsys):
    file = tmp_path / "bp.json"
    assert run("--problem", "5", "--degree", "3", "--elements", "2x3x2", "--json", str(file)) == 0
    shown, written = " ".join(capsys.readouterr().out.split()), json.loads(file.read_text())
    assert "BP5: stiffness at nodes, 1 component, degree 3, 2 × 3 × 2 elements, 200 unknowns, float64" in shown
    assert written["converged"]
    assert written["error"] < 1e-1
    assert written["unknowns"] == 5 * 8 * 5
    section = DOCUMENTATION.read_text().split("## vk run bp")[1].split("\n## ")[0]
    fields = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in section.splitlines() if row.startswith("| `")]
    assert {name for row in fields for name in row} == set(written)


@pytest.mark.slow
def test_a_residual_that_is_not_reached_is_a_finding(capsys):
    assert run("--degree", "2", "--elements", "3", "--iterations", "2") == 1
    assert "not converged in 2 iterations" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [["--elements", "0"], ["--elements", "2x2"], ["--problem", "9"], ["--dtype", "int8"]], ids=" ".join
)
def test_mistakes(options, capsys):
    assert run(*options) == 2
    assert capsys.readouterr().err
