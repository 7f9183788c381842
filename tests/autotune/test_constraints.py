"""Constraints on plans: which texts are read, what they mean, and what is left of a space."""

from __future__ import annotations

import pytest

import vkernels as vk
from vkernels.autotune.constraints import constrained, constraints_from
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate

from .fake_bench import FakeBench
from .tuned_softmax import SLICE, TASK, one_space, tune

KNOWN = {"warps": 4, "stages": 2, "tiles": {"i": 8, "j": 1}, "order": ("i", "j"), "lanes": None, "block": 32, "M": 100,
         "plan": vk.Plan(warps=4)}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("warps <= 4 and tiles['i'] * stages <= 16", True),
        ("tiles['i'] * stages < 16", False),
        ("block % 32 == 0 and M // block >= 3", True),
        ("'i' in order and lanes is None", True),
        ("not (warps == 4 or block == 64)", False),
        ("1 < stages <= 2 < warps", True),
        ("1 < stages < 2 < warps", False),
        ("max(tiles['i'], tiles['j']) == 8 and len(order) == 2", True),
        ("plan.warps in (1, 2, 4)", True),
        ("-warps + 2 < -1", True),
        ("warps != 4 or block / 0 > 1", None),
    ],
)
def test_texts_mean_what_python_means(text, holds):
    (constraint,) = constraints_from(text)
    if holds is None:
        with pytest.raises(vk.OptionError, match="ZeroDivisionError"):
            constraint.check(KNOWN)
    else:
        assert constraint.check(KNOWN) is holds is bool(eval(text, {}, KNOWN))


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "plan.__class__", "tiles.__class__", "(lambda: 1)()", "[x for x in order]", "f'{warps}'",
     "warps ** 99", "open('x')", "max(1, key=2)", "warps := 3", "warps <", "", "1" * 2000, "(" * 900,
     "warps if 1 else 2",
     "plan.warpz", "1j"],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(vk.OptionError, match="constraint"):
        constraints_from(text)


def test_texts_do_not_multiply_texts():
    (constraint,) = constraints_from("'a' * 1000000000 == order")
    with pytest.raises(vk.OptionError, match="arithmetic is for numbers"):
        constraint.check(KNOWN)


def test_functions_get_what_they_name():
    one, other = constraints_from([lambda block, M: block < M, "warps < 2"])
    assert one.check(KNOWN)
    assert not other.check(KNOWN)
    (odd,) = constraints_from(lambda blocks: True)
    with pytest.raises(vk.OptionError, match="'blocks' is nothing that a plan has; did you mean block"):
        odd.check(KNOWN)
    (axis,) = constraints_from("tiles['k'] > 1")
    with pytest.raises(vk.OptionError, match="the kernel has no 'k'"):
        axis.check(KNOWN)


def test_only_plans_that_satisfy_all_are_left_and_the_default_is_a_reference():
    whole = one_space()
    default = whole.plan(whole.default)
    space = constrained(whole, constraints_from([lambda plan: plan != default, "chunks['j'] <= 16 or N < 16"]))
    assert 1 < len(list(space.space)) < len(list(whole.space))
    assert not space.default_may_win
    times = {}
    bench = FakeBench(lambda candidate: times.setdefault(candidate.key, 1.0 if candidate.plan == default else 2.0))
    result = tune(TASK, SLICE, Stop(evaluations=20), bench=bench, space=space, caches="cold")
    assert result.default.candidate == Candidate(default)
    assert result.best.candidate.plan != default
    assert result.gain == 0.5
    assert all(each.candidate.plan.chunks["j"] <= 16 for each in result.successes[1:])


def test_constraints_that_leave_nothing_are_refused():
    with pytest.raises(vk.OptionError, match=r"no plan of .* satisfies M < 1"):
        constrained(one_space(), constraints_from("M < 1"))
