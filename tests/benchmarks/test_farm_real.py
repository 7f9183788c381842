"""The time until a job has nearly the best known speed counts all of its kernels, by their part of its time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from farm_real import FINAL, times_to_near


def run(*plans, tasks=(("a", "{}", 0.9), ("b", "{}", 0.1))):
    jobs = [{"number": 1, "user": "ann", "at": 2.0, "tasks": [list(task) for task in tasks]}]
    return {"plans": [list(plan) for plan in plans], "jobs": jobs, "seconds": 60.0}


def test_a_job_waits_for_the_kernels_that_matter():
    best = [("a1", "a", "{}", FINAL, 1.0, 30.0), ("b1", "b", "{}", FINAL, 1.0, 40.0)]
    slow = [("a0", "a", "{}", 2, 2.0, 5.0), ("b0", "b", "{}", 2, 1.2, 10.0)]
    assert times_to_near([run(*slow, *best)]) == [[28.0]]  # with b0 it is 1.02 times as slow as the best
    assert times_to_near([run(*slow), run(*best)]) == [[58.0], [38.0]]


def test_a_plan_takes_what_it_took_in_all_runs():
    lucky = run(("a1", "a", "{}", FINAL, 0.5, 10.0), tasks=[("a", "{}", 1.0)])
    other = run(("a1", "a", "{}", 2, 1.5, 10.0), ("a2", "a", "{}", FINAL, 0.8, 20.0), tasks=[("a", "{}", 1.0)])
    assert times_to_near([lucky, other]) == [[58.0], [18.0]]
