"""Which one plan serves all slices, and which slices deserve their own."""

from __future__ import annotations

import json
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement
from vkernels.autotune.result import Crossed, Row
from vkernels.ir.plan import Plan

NOT_FITTING = Failed(FailureReason.DOES_NOT_FIT, "needs more")


def crossed(*times: list[float | None], width: float = 0.01, tuned: bool = True) -> Crossed:
    """A row of seconds by slice for each plan, None where it does not fit; plan n is tuned for slice n."""
    count = len(times[0])
    rows = tuple(
        Row(Candidate(Plan(tiles={"i": number + 1})), (f"s{number}",) if tuned and number < count else (), ("s0",))
        for number in range(len(times))
    )
    outcomes = tuple(
        tuple(NOT_FITTING if t is None else Measurement(t, t * (1 - width), t * (1 + width), 9) for t in row)
        for row in times
    )
    return Crossed(tuple(f"s{n}" for n in range(count)), rows, outcomes, ("measured",) * count)


def test_the_plan_that_is_nowhere_bad_serves_all_though_it_is_nowhere_best():
    found = crossed([1.0, 4.0], [4.0, 1.0], [1.1, 1.1])
    assert found.serving() == 2
    assert found.deserving(0.05) == ("s0", "s1")
    assert found.deserving(0.2) == ()


def test_of_plans_that_are_equally_bad_somewhere_the_better_one_elsewhere_serves_all():
    assert crossed([1.0, 2.0, 3.0], [2.0, 2.0, 1.0], [2.0, 1.0, 1.0]).serving() == 2


def test_a_plan_that_does_not_run_somewhere_does_not_serve_all():
    found = crossed([1.0, None], [3.0, 2.0])
    assert found.serving() == 1
    assert found.deserving() == ("s0",)
    assert found.seconds(0, 1) == inf
    assert found.table()[1][2] == "does-not-fit"


def test_where_no_plan_runs_everywhere_each_slice_deserves_its_own():
    found = crossed([1.0, None], [None, 2.0])
    assert found.serving() is None
    assert found.deserving() == ("s0", "s1")


def test_what_the_intervals_leave_open_is_no_reason_for_a_plan_of_its_own():
    assert crossed([1.0, 1.1], [1.1, 1.0], width=0.01).deserving() != ()
    assert crossed([1.0, 1.1], [1.1, 1.0], width=0.2).deserving() == ()


def test_the_table_tells_parts_of_the_best_and_what_is_modelled():
    found = crossed([1.0, 4.0], [2.0, 1.0])
    modelled = Crossed(found.slices, found.rows, found.outcomes, ("measured", "modelled"))
    assert modelled.table() == [
        ["tuned for ↓ run on →", "s0", "s1 (modelled)"],
        ["s0", "1.00", "0.25"],
        ["s1", "0.50", "1.00"],
    ]


seconds = st.one_of(st.none(), st.floats(1e-6, 1e3))


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(seconds, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_the_serving_plan_has_the_best_worst_part_and_all_is_json(times: list[list[float | None]]):
    found = crossed(*times)
    parts = [[found.part_of_best(row, s) for s in range(len(times[0]))] for row in range(len(times))]
    assert all(0 <= part <= 1 for row in parts for part in row)
    serving = found.serving()
    worst = max(min(row) for row in parts)
    if serving is None:
        assert worst < 0.001
    else:
        assert min(parts[serving]) >= worst - 0.001
    for number, name in enumerate(found.slices):
        if name in found.deserving() and serving is not None:
            best = found.best_on(number)
            assert best is not None
            assert found.seconds(best, number) < found.seconds(serving, number)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["serving"] == serving
