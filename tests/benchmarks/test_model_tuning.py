"""The gain of tuning a model at once is told for the same tasks, and splits into factors that make it."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from model_tuning import Duel, Way, split


def _way(name: str, tasks: tuple[int, ...], seconds: float, told: int, **more) -> Way:
    return Way(name, tasks, seconds, told, told, {"timing": seconds / 2, "waiting": 9.0}, **more)


FIRST = _way("one by one", (0, 1, 2), 60.0, 60, of_task=(10.0, 40.0, 10.0), told_of_task=(20, 20, 20))


def test_a_way_that_had_some_tasks_is_compared_with_what_the_first_took_for_these():
    assert FIRST.times(FIRST) == pytest.approx(1)
    assert _way("b", (0, 2), 10.0, 40).times(FIRST) == pytest.approx(2)  # 4 a second, not 2
    assert _way("b", (1,), 10.0, 20).times(FIRST) == pytest.approx(4)
    assert FIRST.at_work == pytest.approx(0.5)


def test_factors_together_are_the_gain():
    ways = [FIRST, _way("b", (0,), 5.0, 20), _way("c", (0,), 4.0, 20), _way("d", (1,), 10.0, 20),
            _way("e", (0, 1, 2), 12.0, 66)]  # fmt: skip
    factors = split(ways)
    assert len(factors) == 4
    assert prod(factors.values()) == pytest.approx(ways[-1].times(FIRST))


@pytest.mark.parametrize(
    ("duel", "word"),
    [
        (Duel("k", "cpu", True), "same"),
        (Duel("k", "cpu", False, 1.01, 0.99, 1.03), "within noise"),
        (Duel("k", "cpu", False, 1.2, 1.1, 1.3), "faster"),
        (Duel("k", "cpu", False, 0.9, 0.88, 0.92), "slower"),
    ],
)
def test_winners_are_compared_by_their_intervals(duel: Duel, word: str):
    assert duel.word == word
