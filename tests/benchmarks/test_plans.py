"""Random plans of benchmarks/plans.py are different plans, as many as were asked for."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import plans

from vkernels.runtime.dispatch import limits


def test_random_plans_differ():
    subject = plans.Subject("rows", "softmax_rows", {"M": 64, "N": 64})
    arguments = plans.arguments_of(subject, np.random.default_rng(0))
    found = plans.random_plans(plans.space_of(subject, arguments, limits()), 5, random.Random(0))
    assert len(found) == 5
    assert all(plan not in found[:number] for number, plan in enumerate(found))
