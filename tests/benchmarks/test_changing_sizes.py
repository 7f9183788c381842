"""benchmarks/changing_sizes.py runs, compares results, and counts compiles. Its times are not judged here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from vkernels.runtime import class_calls, get_threads, set_threads

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import changing_sizes


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """What the benchmark sets is as it was afterwards."""
    monkeypatch.setattr(class_calls, "WORTH_SECONDS", class_calls.WORTH_SECONDS)
    before = get_threads(), torch.get_num_threads()
    yield
    set_threads(before[0])
    torch.set_num_threads(before[1])


@pytest.mark.slow
def test_few_lengths_are_measured(tmp_path):
    changing_sizes.main(only=["softmax", "rope"], quick=True, path=tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())["results"]
    assert found["rope"]["compiles"] == 1
    assert 4 < found["softmax"]["compiles"] <= 12
    assert all(len(result["speeds"]) == 2 for result in found.values())


def test_a_wrong_result_is_told():
    case = changing_sizes.CASES["softmax"]
    with pytest.raises(SystemExit, match="softmax_rows: wrong for"):
        changing_sizes.check(case, lambda x, out: out.zero_(), case.arguments(5))
