"""A whole run: its figures add up, its findings are told, its JSON is what the documentation says."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vkernels.ir.errors import OptionError
from vkernels.sparse_network.bench.challenge import as_json, run_challenge
from vkernels.sparse_network.bench.timing import Spread, interleave, ratio
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.images import digits

from .networks import numpy_layers

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "json.md"


def small_run(most_held=1 << 30, **options):
    options = {"threads": 1, "rounds": 2, "kernel": numpy_layers} | options
    return run_challenge(replace(radix_network(1024, 8), most_held=most_held), digits(1024)[:, :200], **options)


def deaf(y, column, weight, bias, cap, out, peak):
    """A kernel that is wrong: nobody survives it."""
    out[:] = 0
    peak[:] = 0


def test_a_run_is_checked_and_measured():
    report = small_run(compare=True)
    assert report.matches
    assert 0 < len(report.survivors) < 200
    assert report.rounds == 2
    assert 0 < report.truth.real_edges <= report.executed_edges <= report.nominal_edges == 200 * 8 * 32768
    assert 0 < report.seconds.least <= report.seconds.middle <= report.seconds.most
    assert list(report.baselines) == ["torch_csr", "torch_csr_batched", "scipy_csr"]
    for baseline in report.baselines.values():
        assert baseline.matches
        assert 0 < baseline.ratio.least <= baseline.ratio.middle <= baseline.ratio.most


def test_wrong_survivors_are_a_finding():
    report = small_run(kernel=deaf)
    assert not report.matches
    assert as_json(report, "cpu")["categories"] == "differ"


def test_survivors_that_are_wrong_in_one_round_only_are_a_finding():
    calls = []

    def fickle(*arguments):
        calls.append(arguments[0].shape[1] == 200)
        (deaf if sum(calls) == 3 else numpy_layers)(*arguments)

    assert not small_run(kernel=fickle).matches


def test_the_json_is_what_is_documented():
    data = as_json(small_run(compare=True), "cpu-x")
    assert json.loads(json.dumps(data)) == data
    section = DOCUMENTATION.read_text().split("## vk run spdnn")[1].split("\n## ")[0]
    documented = {name for row in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert documented == set(data)
    assert set(data["baselines"]["torch_csr"]) == {"categories", "seconds", "seconds_spread", "ratio", "ratio_spread"}
    for name in ("real", "executed", "nominal"):
        assert data[f"{name}_edges_per_second"] == pytest.approx(data[f"{name}_edges"] / data["seconds"])


def test_progress_is_told_to_the_end():
    told = {}

    def progress(what, done, total, steps):
        told[what] = (done, total, steps)

    report = small_run(progress=progress)
    assert told["float64 reference"] == (8, 8, f"layers, {report.truth.live[-1]} images alive")
    assert told["inference"] == (8, 8, f"layers, {len(report.survivors)} images alive")
    assert told["measuring"] == (1, 2, "rounds")


def test_a_network_too_large_for_memory_is_run_but_not_compared():
    assert small_run(most_held=1000).matches
    with pytest.raises(OptionError, match="leave --compare out"):
        small_run(most_held=1000, compare=True)


def test_rounds_take_turns_and_end_when_patience_does():
    turns = []
    seconds = interleave({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, rounds=3)
    assert "".join(turns) == "ababab"
    assert [len(times) for times in seconds.values()] == [3, 3]
    assert len(interleave({"a": lambda: None}, rounds=3, patience=-1)["a"]) == 1


def test_a_ratio_is_taken_round_by_round():
    assert ratio([2, 6, 4], [1, 2, 4]) == Spread(2, 1, 3)
    assert Spread.of(np.array([3.0, 1.0]).tolist()) == Spread(2, 1, 3)
