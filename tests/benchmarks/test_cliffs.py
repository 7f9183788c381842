"""What benchmarks/cliffs.py makes of seconds: judged by hand from a small table, without measuring anything."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from cliffs_draw import write_docs
from cliffs_judge import (
    Case,
    Choice,
    Point,
    Porting,
    Timed,
    case_from_json,
    case_to_json,
    judge,
    port_fixed,
    port_free,
    port_pinned,
    range_fixed,
    range_pinned,
    steps,
)

KIB = 1 << 10
POINTS = (Point(32, 64 * KIB), Point(32, 32 * KIB), Point(16, 64 * KIB), Point(16, 32 * KIB))


def plan(seconds: float, registers: int, shared: int = 0) -> Timed:
    return Timed({"tiles": {"i": registers}}, registers, shared, "drawn", True, seconds, seconds, seconds)


BIG, SHARED, SMALL, SLOW, OTHER = range(5)
"""The best of all; as good, of fewer registers, but in shared memory; what fits anywhere; what fits and is bad; what is
chosen for the least limits."""
PLANS = (plan(1.0, 32), plan(1.04, 16, 64 * KIB), plan(2.0, 8), plan(20.0, 8), plan(2.5, 16))
CASE = Case(
    "kernel", POINTS, PLANS, [Choice(BIG, "registers", 1.0), Choice(BIG, "registers", 1.0),
    Choice(SHARED, "shared", 1.0), Choice(OTHER, "registers", 2.0)],
    {BIG: [BIG, BIG, SHARED, OTHER], SHARED: [SHARED, BIG, SHARED, SMALL], SMALL: [SMALL, SMALL, SMALL, SMALL],
     SLOW: [SMALL, SMALL, SMALL, SMALL]},
    [BIG, SHARED, SLOW], 100, 1,
)  # fmt: skip


def test_plans_are_admitted_that_take_no_more_than_there_is():
    assert CASE.admitted(0) == [BIG, SHARED, SMALL, SLOW, OTHER]
    assert CASE.admitted(1) == [BIG, SMALL, SLOW, OTHER]
    assert CASE.admitted(2) == [SHARED, SMALL, SLOW, OTHER]
    assert CASE.admitted(3) == [SMALL, SLOW, OTHER]


def test_the_bottom_rung_counts_where_it_is_chosen():
    bottom = replace(CASE, plans=[*PLANS, plan(9.0, 99)], choices=[*CASE.choices[:3], Choice(5, "bottom", 9.0)])
    assert 5 in bottom.admitted(3)
    assert all(5 not in bottom.admitted(at) for at in range(3))


def test_a_step_halves_one_of_both_limits():
    found = {(one, other): ratio for one, other, ratio in steps(CASE)}
    assert found.keys() == {(0, 1), (0, 2), (1, 3), (2, 3)}
    assert found[0, 1] == 1
    assert found[1, 3] == 2.5
    assert found[2, 3] == pytest.approx(2.5 / 1.04)


def test_bars_are_judged_by_the_worst_step_the_worst_limits_and_the_furthest_from_the_best():
    verdict = judge(CASE)
    assert verdict.step == (1, 3, 2.5)
    assert verdict.in_all == (3, 2.5)
    assert verdict.from_best == (3, 1.25)
    assert not verdict.holds
    level = replace(CASE, choices=[Choice(BIG, "registers", 1.0)] * 2 + [Choice(SHARED, "shared", 1.0)] * 2)
    assert judge(level).holds


def test_whole_plans_that_are_good_fail_where_they_do_not_fit_and_lose_nothing_where_they_do():
    assert CASE.good(0) == [BIG, SHARED]
    assert port_fixed(CASE, 0, 1) == Porting(0.0, 0.5)
    assert port_fixed(CASE, 0, 2) == Porting(0.0, 0.5)
    assert port_fixed(CASE, 0, 3) == Porting(None, 1.0)


def test_whole_plans_made_for_little_lose_what_more_would_give():
    assert CASE.good(3) == [SMALL]
    assert port_fixed(CASE, 3, 0) == Porting(1.0, 0.0)


def test_virtual_sizes_never_fail_and_lose_what_the_worst_of_their_plans_does():
    assert port_pinned(CASE, 0, 3) == Porting(0.25, 0.0)
    assert port_pinned(CASE, 0, 1) == Porting(0.0, 0.0)
    assert port_pinned(CASE, 3, 0) == Porting(1.0, 0.0)


def test_what_nobody_pinned_loses_what_the_chosen_plan_does():
    assert port_free(CASE, 3) == Porting(0.25, 0.0)
    assert port_free(CASE, 0).loss == 0


def test_good_plans_are_those_that_the_toolkit_was_asked_about():
    assert replace(CASE, pinned={SMALL: CASE.pinned[SMALL]}).good(0) == []
    assert port_fixed(replace(CASE, pinned={}), 0, 1) == Porting(None, 0.0)


def test_the_range_is_the_worst_that_runs_against_the_best():
    assert range_fixed(CASE, 0).worst == 20
    assert range_fixed(CASE, 0).failed == 0
    assert range_fixed(CASE, 3).worst == 10
    assert range_fixed(CASE, 3).failed == pytest.approx(2 / 3)
    assert range_pinned(CASE, 0).worst == 2
    assert range_pinned(CASE, 3).worst == 1.25
    assert range_pinned(CASE, 3).failed == 0


def test_a_case_comes_back_from_json():
    assert case_from_json(json.loads(json.dumps(case_to_json(CASE)))) == replace(
        CASE, points=list(POINTS), plans=list(PLANS), choices=list(CASE.choices)
    )


def test_tables_and_plots_replace_only_what_is_between_the_marks(tmp_path):
    page = tmp_path / "cliffs.md"
    kept = {"machine": {}, "date": "today", "cases": {"kernel": case_to_json(CASE)}}
    page.write_text("before\n<!-- made by benchmarks/cliffs.py -->\nold\n<!-- end -->\nafter\n")
    write_docs(kept, {"kernel": CASE}, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert (
        "| kernel | **2.50** | 32 × 32 KiB → 16 × 32 KiB | 2.50 | 16 × 32 KiB | 1.25 | 16 × 32 KiB | **missed** |"
        in text
    )
    once = {name: (tmp_path / "cliffs" / f"{name}.svg").read_text() for name in ("time", "porting", "range")}
    assert all(drawing.startswith("<svg") and drawing.endswith("</svg>\n") for drawing in once.values())
    write_docs(kept, {"kernel": CASE}, tmp_path)
    assert page.read_text() == text
