"""Comparisons of the finalists, with a bench whose times are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from vkernels.autotune import rerank
from vkernels.autotune import tune as tuning
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement, Outcome
from vkernels.autotune.plan_space import PlanSpace

from .fake_bench import FakeBench
from .tuned_softmax import landscape, tuned


def test_the_more_have_a_time_the_more_come_into_the_final(space: PlanSpace):
    few, many = FakeBench(landscape(space, 1)), FakeBench(landscape(space, 1))
    tuned(few, Stop(evaluations=20))
    tuned(many, Stop(evaluations=200))
    assert len(few.comparisons[0]) == tuning.MIN_FINALISTS
    assert len(many.comparisons[0]) == tuning.MAX_FINALISTS
    assert len({each.key for each in many.comparisons[0]}) == len(many.comparisons[0])


def test_where_nothing_is_better_the_default_is_the_best(space: PlanSpace):
    default = space.plan(space.default)
    result = tuned(FakeBench(lambda candidate: 1.0 if candidate.plan == default else 0.995))
    assert result.best == result.default
    assert result.gain == 1
    assert not result.moved


class Loaded(FakeBench):
    """A bench whose intervals are wide, and whose duels give times of which all are `factors` times as long, in turn;
    those of the default plan `unlike` times that. Alone all take as long as ever."""

    factors = (1.0, 3.0, 1.7, 2.9, 1.2, 5.0)
    unlike: tuple[float, ...] = (1.0,)

    def measure(self, candidate: Candidate, timeout: float = 60.0, **more) -> Outcome:
        found = super().measure(candidate, timeout, **more)
        return replace(found, seconds=found.seconds * max(self.factors)) if isinstance(found, Measurement) else found

    def paired_comparison(self, candidates: Sequence[Candidate], **more) -> list[Outcome]:
        number = len(self.comparisons)
        factor, unlike = self.factors[number % len(self.factors)], self.unlike[number % len(self.unlike)]
        found = super().paired_comparison(candidates, **more)
        times = [each.seconds * factor * (unlike if at == 0 else 1) for at, each in enumerate(found)]
        return [Measurement(each, 0.4 * each, 2.5 * each, 9, 1.0, True) for each in times]


def test_under_load_the_finalists_fight_until_all_fights_agree(space: PlanSpace):
    default = space.plan(space.default)
    bench = Loaded(lambda candidate: 1.0 if candidate.plan == default else 0.9)
    result = tuned(bench)
    assert result.best.candidate.plan != default
    assert result.gain == pytest.approx(1 / 0.9)
    assert len(bench.comparisons) == rerank.ROUNDS


def test_fights_that_disagree_leave_the_default(space: PlanSpace):
    default = space.plan(space.default)
    bench = Loaded(lambda candidate: 1.0 if candidate.plan == default else 0.9)
    bench.unlike = (1.0, 1.0, 0.8)
    assert tuned(bench).best.candidate.plan == default
    assert len(bench.comparisons) == rerank.MAX_ROUNDS


@dataclass
class SlowMoment(FakeBench):
    """A bench on which the first duel falls into a moment in which memory decides: all take long, and as long."""

    def paired_comparison(self, candidates: Sequence[Candidate], **more) -> list[Outcome]:
        found = super().paired_comparison(candidates, **more)
        first = len(self.comparisons) == 1
        return [replace(each, seconds=3.0 - number * 1e-3) if first else each for number, each in enumerate(found)]


def test_one_duel_in_a_slow_moment_decides_nothing(space: PlanSpace):
    default = space.plan(space.default)
    bench = SlowMoment(lambda candidate: 1.0 if candidate.plan == default else 0.9)
    assert tuned(bench).gain == pytest.approx(1 / 0.9)


def test_the_search_has_a_favourite_that_fights_on():
    seconds = [1.0, 0.95, 0.9, 0.8, 0.7, 0.6]
    fought: list[list[int]] = []

    def paired_comparison(rivals: Sequence[int]) -> list[Outcome]:
        fought.append(list(rivals))
        return [Measurement(seconds[each], 0.9 * seconds[each], 1.1 * seconds[each], 9) for each in rivals]

    rerank.rerank(paired_comparison, len(seconds), 0, lambda fought, more: True, favourite=1)
    assert fought[:3] == [[0, 1, 2, 3, 4, 5]] * 3
    assert fought[3:] == [[0, 1, 4, 5]] * (rerank.ROUNDS - 3)


def test_one_fight_that_seems_sure_is_not_believed_where_there_is_time():
    """Some plans suffer more from what others do to memory, for as long as that lasts."""
    exact = lambda seconds: Measurement(seconds, seconds, seconds, 9)  # noqa: E731
    rival = iter([0.8, *[1.01] * rerank.MAX_ROUNDS])
    base, other = rerank.rerank(lambda rivals: [exact(1.0), exact(next(rival))], 2, 0, lambda fought, more: True)
    assert not rerank.is_surely_faster(other, base)
    hurried = [exact(1.0), exact(0.8)]
    found = rerank.rerank(lambda rivals: hurried, 2, 0, lambda fought, more: True, lambda: False)
    assert found == hurried


@pytest.mark.parametrize("seed", range(20))
def test_who_was_left_out_does_not_win_by_the_luck_of_one_fight(seed: int):
    random, times = np.random.default_rng(seed), np.linspace(0.8, 1.1, 12)

    def paired_comparison(rivals: Sequence[int]) -> list[Outcome]:
        found = times[list(rivals)] * random.normal(1, 0.1, len(rivals)) * random.uniform(1, 2)
        return [Measurement(each, 0.99 * each, 1.01 * each, 9) for each in found]

    found = rerank.rerank(paired_comparison, len(times), 11, lambda fought, more: True)
    seconds = [each.seconds for each in found if isinstance(each, Measurement)]
    assert np.argmin(seconds) in {number for number in range(12) if found[number].repeats > 9 or number == 11}


def in_so_many(seconds: Sequence[float], fights: int) -> bool:
    """Whether a rival that takes so long in each duel is surely faster than a base that always takes a second."""
    times = iter(seconds)

    def paired_comparison(rivals: Sequence[int]) -> list[Outcome]:
        return [Measurement(each, 0.1 * each, 9 * each, 5, 0.9, True) for each in (1.0, next(times))]

    base, rival = rerank.rerank(paired_comparison, 2, 0, lambda fought, more: fought < 2 * fights)
    return rerank.is_surely_faster(rival, base)


def test_a_few_fights_are_enough_where_they_agree_and_more_where_they_hardly_do():
    """Though each by itself tells nothing."""
    alike, unlike = [0.7, 0.71, 0.69] * 4, [0.7, 0.98, 0.85] * 4
    assert [in_so_many(alike, fights) for fights in (1, 2, 3, 5)] == [False, False, True, True]
    assert [in_so_many(unlike, fights) for fights in (1, 2, 3, 6)] == [False, False, False, True]
    assert not in_so_many([0.7, 1.02, 0.85] * 4, 6)


def test_only_those_that_seem_fastest_fight_again():
    seconds = [1.0, 3.0, 0.8, 0.9, 0.7, 2.0]
    fought: list[list[int]] = []

    def paired_comparison(rivals: Sequence[int]) -> list[Outcome]:
        fought.append(list(rivals))
        slow = len(fought)  # other load
        return [Measurement(slow * seconds[each], 0.1, 90.0, 5, 0.9, True) for each in rivals]

    found = rerank.rerank(paired_comparison, len(seconds), 0, lambda fought, more: True)
    assert fought == [*[[0, 1, 2, 3, 4, 5]] * 3, *[[0, 2, 3, 4]] * (rerank.ROUNDS - 3)]
    usual = found[0].seconds
    np.testing.assert_allclose([each.seconds for each in found], usual * np.array(seconds))
    assert rerank.is_surely_faster(found[4], found[0])


def test_who_is_surely_faster_ranks_before_in_a_database():
    odd = Measurement(0.5, 0.1, 3.0, 5)
    assert not rerank.is_surely_faster(odd, Measurement(1.0, 0.9, 1.1, 5))
    assert rerank.is_surely_faster(odd, Measurement(1.0, 0.9, 4.0, 5))


def test_who_fails_in_a_fight_has_failed():
    failed = Failed(FailureReason.WRONG_ANSWER, "now and then")
    once = [Measurement(1.0, 0.5, 2.0, 9), Measurement(0.9, 0.5, 2.0, 9)]
    rounds = [once, once, [Measurement(1.0, 0.5, 2.0, 9), failed]]
    found = rerank.rerank(lambda rivals: rounds.pop(0), 2, 0, lambda fought, more: True)
    assert found[1] == failed
    assert not rounds
