"""Candidates and outcomes survive JSON; what is none is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import vkernels as vk
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement
from vkernels.autotune.measure.measures import (
    candidate_from_json,
    candidate_to_json,
    outcome_from_json,
    outcome_to_json,
)
from vkernels.ir.plan import Home, Plan

PLAN = Plan(tiles={"i": 4}, homes={"e": Home.SHARED}, launches=("a",), warps=2)


def test_what_is_written_is_read():
    candidate = Candidate(PLAN, {"block": 32, "how": "fast", "scale": 0.5, "on": True, "none": None})
    assert candidate_from_json(json.loads(json.dumps(candidate_to_json(candidate)))) == candidate
    for outcome in (Measurement(2.0, 1.0, 3.0, 7, 0.25, True), Failed(FailureReason.CRASH, "why")):
        assert outcome_from_json(json.loads(json.dumps(outcome_to_json(outcome)))) == outcome


def test_candidates_with_equal_constants_of_other_types_are_others():
    keys = {Candidate(PLAN, {"a": value}).key for value in (1, True, 1.0, "1", None)}
    assert len(keys) == 5
    assert Candidate(PLAN, {"a": 1, "b": 2}).key == Candidate(replace(PLAN), {"b": 2, "a": 1}).key


@pytest.mark.parametrize(
    "data", [None, [], {}, {"plan": {}, "more": 1}, {"plan": 3}, {"plan": {}, "constants": {"a": [1]}}]
)
def test_what_is_no_candidate_is_refused(data: object):
    with pytest.raises(vk.FileError, match="candidate"):
        candidate_from_json(data)


GOOD = outcome_to_json(Measurement(2.0, 1.0, 3.0, 7))


@pytest.mark.parametrize(
    "data",
    [
        None, {}, {"reason": "bad luck", "text": ""}, {"reason": "crash"}, {**GOOD, "seconds": 0.5},
        {**GOOD, "seconds": float("nan")}, {**GOOD, "high": float("inf")}, {**GOOD, "low": -1.0},
        {**GOOD, "seconds": "soon"},
    ],
)  # fmt: skip
def test_what_is_no_outcome_is_refused(data: object):
    with pytest.raises(vk.FileError, match="outcome"):
        outcome_from_json(data)
