"""Scores of searches come with intervals over the repeats."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from search import MARKS, mean_with_interval, scores


@pytest.mark.parametrize("repeats", [5, 20])
def test_intervals_cover_the_true_mean_as_often_as_they_say(repeats: int):
    random, true, draws = np.random.default_rng(repeats), 0.95, 2000
    found = [mean_with_interval(random.normal(true, 0.02, (repeats, 1)))[0] for _ in range(draws)]
    covered = sum(low <= true <= high for _, low, high in found) / draws
    assert 0.93 < covered < 0.97
    assert all(low <= mean <= high for mean, low, high in found)


def test_one_repeat_has_no_interval():
    (mean, low, high), *_ = mean_with_interval([[0.5] * len(MARKS)])
    assert mean == 0.5
    assert np.isnan(low)
    assert np.isnan(high)


def test_a_score_is_that_of_the_best_so_far():
    assert scores([4.0, 2.0], 1.0) == [0.5] * len(MARKS)
