"""The table, the JSON and the findings of `vk check`."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from vkernels.commands.check import Finding, has_finding
from vkernels.commands.check.results import as_json, show
from vkernels.inspect.check.cells import Cell, LaunchFailure, LaunchUse, PlanSummary, judge
from vkernels.inspect.check.check import Checked
from vkernels.ir.errors import SourceRange
from vkernels.ir.slow_plan import SlowPlan
from vkernels.targets import target_named

from ..inspect.check import fakes

REASONS = ("one element at a time", "elements of `x` are found by indices")
SLOW = SlowPlan(0.25, 0.01, REASONS, SourceRange(__file__, 3, 0, 4))


def checked(rung: str, slow: SlowPlan | None) -> Checked:
    plan = PlanSummary("chosen", {"tiles": {"i": 1}}, {}, rung, 0.25, "latency", 0.01, slow=slow)
    return Checked((Cell("mine.py:twice", "h100", "sm_90", "float32", {"M": 4}, {}, planned=plan),), 0, 0)


def shown(result: Checked) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(result, "3.9", 1.0, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rung", "slow", "words"),
    [
        ("registers", None, "yes"),
        ("registers", SLOW, "yes, slow"),
        ("bottom", SLOW, "yes, slow"),
        ("bottom", None, "yes, bottom"),
    ],
)
def test_the_verdict_says_more_than_yes_of_a_bad_plan(rung, slow, words):
    text = shown(checked(rung, slow))
    row = next(line for line in text.splitlines() if line.startswith("h100"))
    assert words in row
    assert ("yes, " in row) == (words != "yes")
    assert ("twice on h100: a call is modelled to take 0.25 s, 25 times" in text) == (slow is not None)
    assert ("one element at a time; elements of `x` are found by indices" in text) == (slow is not None)


def test_the_json_has_the_line_and_the_reasons():
    cell: dict[str, Any] = as_json(checked("bottom", SLOW), "3.9", 1.0)["cells"][0]
    assert cell["slow"] == {"times_roofline": 25.0, "reasons": list(SLOW.reasons), "file": __file__, "line": 3}
    assert as_json(checked("bottom", None), "3.9", 1.0)["cells"][0]["slow"] is None
    assert as_json(checked("bottom", SLOW), "3.9", 1.0)["counts"]["slow"] == 1


COLUMNS = "target", "fits", "registers", "shared", "spilled", "blocks", "seconds", "rung", "modelled", "bottleneck"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [70, 80, 90, 120, 200])
def test_words_of_the_table_stay_whole(width, terminal):
    plan = PlanSummary("chosen", {"tiles": {"i": 1}}, {}, "registers", 0.25, "operations", judged=5)
    cell = Cell("mine.py:twice", "jetson-agx-orin-64", "sm_87", "float32", {"M": 4}, {}, planned=plan)
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    show(Checked((cell,), 0, 0), "3.9", 1.0, console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    header, row = lines[1:3]
    assert header.startswith("target ")
    assert row.startswith("jetson-agx-orin-64 ")
    assert set(header.split()) - {"limited", "by"} <= {*COLUMNS}
    assert header.split()[:6] == list(COLUMNS[:6])
    if width >= 120 or not terminal:
        assert [*header.replace("limited by", "").split()] == list(COLUMNS)
    if not terminal:
        assert "registers (best of 5)" in row


def test_what_nobody_can_tell_is_no_finding():
    unknown = Cell("k", "t4", "sm_75", "float32", {}, {}, unknown="no compiler")
    spilt = judge("k", LaunchUse(128, fakes.resources(spill_store_bytes=4), 1.0), target_named("t4"))
    misfit = judge("k", LaunchFailure("it aborts", 1.0), target_named("t4"))
    cells = [Cell("k", "t4", "sm_75", "float32", {}, {}, (launch,)) for launch in (spilt, misfit)]
    assert not has_finding([unknown], list(Finding))
    assert [has_finding(cells[:1], [finding]) for finding in Finding] == [False, True]
    assert [has_finding(cells[1:], [finding]) for finding in Finding] == [True, False]
    assert not has_finding(cells, [])
