"""How long a call takes is found on clocks of our own, where it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.autotune.measure.measures import Effort
from vkernels.autotune.measure.timing import Rounds, Sample, TimedCall, Timer

EFFORT = Effort(seconds=1.0, width=0.02, least=6, most=500, sample_seconds=1e-3, tries=3)


class Simulated:
    """A clock on which each call takes the time that it returns, as it takes its turn. `disturb`: seconds that others
    take in the way of a sample, 0 for none."""

    def __init__(self, disturb: Callable[[int], float] = lambda sample: 0.0, alone: bool = True):
        self.time, self.samples, self.disturb, self.alone = 0.0, 0, disturb, alone
        self.turns: list[list[TimedCall]] = []

    def now(self) -> float:
        return self.time

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        self.turns.append(list(calls))
        own = sum(float(str(call())) for call in calls)
        others = self.disturb(self.samples)
        self.samples += 1
        self.time += own + others
        return Sample(own + others, others > 0, own if self.alone else None)


def noisy(seconds: float, seed: int = 0, spread: float = 0.05) -> TimedCall:
    random = np.random.default_rng(seed)
    return lambda: seconds * (1 + spread * random.random())


def test_a_steady_call_is_sampled_little_and_known_well():
    found = Timer(Simulated(), EFFORT).time([lambda: 0.003])
    assert found.seconds == pytest.approx(0.003)
    assert found.repeats == EFFORT.least
    assert not found.loaded
    assert found.disturbed == 0


def test_a_noisy_call_is_sampled_until_its_interval_is_narrow():
    found = Timer(Simulated(), EFFORT).time([noisy(0.003, spread=0.2)])
    assert found.repeats > 3 * EFFORT.least
    assert found.high - found.low <= 0.02 * found.seconds
    assert found.low <= 0.003 * 1.1 <= found.high


def test_a_short_call_is_timed_many_at_once_and_told_by_the_call():
    clock = Simulated()
    found = Timer(clock, EFFORT).time([lambda: 1e-6])
    assert found.seconds == pytest.approx(1e-6)
    assert len(clock.turns[-1]) == pytest.approx(1000, abs=2)


def test_the_budget_ends_what_does_not_get_narrow():
    clock = Simulated()
    found = Timer(clock, EFFORT).time([noisy(0.02, spread=30.0)])
    assert clock.time < 3 * EFFORT.seconds + 0.02 * 31 * 8
    assert found.high > 1.02 * found.low


def test_a_hopeless_call_is_not_sampled_further():
    found = Timer(Simulated(), EFFORT).time([noisy(0.03, spread=1.0)], best=0.01)
    assert found.repeats <= EFFORT.least
    assert Timer(Simulated(), EFFORT).time([noisy(0.015, spread=0.2)], best=0.0145).repeats > EFFORT.least
    assert Timer(Simulated(), EFFORT).time([lambda: 0.5], best=0.01).repeats == 1


def test_copies_take_turns_and_changed_tensors_are_restored_before_each_sample():
    clock, restored = Simulated(), []
    calls = [lambda: 0.0004, lambda: 0.0004, lambda: 0.0004]
    Timer(clock, EFFORT).time(calls, restore=lambda: restored.append(clock.samples))
    taken = [calls.index(call) for turn in clock.turns[3:] for call in turn]
    assert taken == [number % 3 for number in range(len(taken))]
    assert restored[1:] == list(range(3, clock.samples))


def test_samples_that_others_disturbed_do_not_count():
    found = Timer(Simulated(lambda n: 0.004 * (n % 3 == 0)), EFFORT).time([lambda: 0.003])
    assert found.seconds == pytest.approx(0.003)
    assert found.disturbed == pytest.approx(1 / 3, abs=0.1)
    assert found.high < 0.0031
    assert not found.loaded


@pytest.mark.parametrize("alone", [True, False])
def test_where_every_sample_is_disturbed_it_is_said_and_the_interval_holds_what_was_seen(alone: bool):
    random = np.random.default_rng(1)
    clock = Simulated(lambda n: 0.001 + 0.004 * random.random(), alone)
    found = Timer(clock, EFFORT).time([noisy(0.003)])
    assert found.loaded
    assert found.disturbed == 1
    assert found.low <= found.seconds <= found.high
    if alone:  # the thread's own time is known
        assert 0.003 <= found.seconds <= 0.00316
    else:
        assert found.high > 0.006


def test_a_timing_under_load_is_tried_again_and_the_quietest_counts():
    shares = iter([0.8, 0.6, 0.9])
    clock = Simulated(lambda n: 0.002 * (n % 2), alone=False)
    timer = Timer(clock, replace(EFFORT, width=0.0), lambda: lambda: next(shares))
    found = timer.time([noisy(0.003)])
    assert next(shares, None) is None
    assert found.loaded


def test_load_that_ends_costs_one_more_try():
    shares = iter([0.8, 0.0])
    found = Timer(Simulated(), replace(EFFORT, width=0.0), lambda: lambda: next(shares)).time([noisy(0.003)])
    assert next(shares, None) is None
    assert not found.loaded


def test_a_narrow_interval_of_undisturbed_samples_stands_though_others_use_the_cores():
    shares = iter([0.8])
    found = Timer(Simulated(), EFFORT, lambda: lambda: next(shares)).time([lambda: 0.003])
    assert found.loaded
    assert found.repeats == EFFORT.least


def test_rivals_of_a_duel_take_turns_and_drift_changes_for_all():
    """The machine gets slower all the time: one after the other, the better would lose."""
    clock = Simulated()

    def drifting(seconds: float) -> TimedCall:
        return lambda: seconds * (1 + 2 * clock.time)

    noop: TimedCall = lambda: None  # noqa: E731
    worse, better = drifting(0.0031), drifting(0.003)
    effort = replace(EFFORT, width=0.0, seconds=0.5)
    first, second = Timer(clock, effort).paired_comparison([[worse], [better]], [noop, noop])
    assert first.repeats == second.repeats
    assert second.seconds < first.seconds
    firsts = [clock.turns[n][0] for n in range(5, len(clock.turns) - 4, 4)]
    assert firsts.count(worse) == pytest.approx(firsts.count(better), abs=1)


@pytest.mark.parametrize("copies", [2, 3, 4, 5, 8, 16])
def test_rivals_come_to_all_copies_and_never_to_one_that_another_just_had(copies: int):
    """Else whoever comes second finds in the caches what the first one read, or has better places in memory."""
    used: list[tuple[str, int]] = []

    def rival(name: str) -> list[TimedCall]:
        def call(copy: int) -> TimedCall:
            def taken() -> float:
                used.append((name, copy))
                return 0.003

            return taken

        return [call(copy) for copy in range(copies)]

    effort = replace(EFFORT, width=-1.0, most=40)
    Timer(Simulated(), effort).paired_comparison([rival("a"), rival("b")], [lambda: None] * 2)
    timed = used[-2 * 2 * 40 :]
    assert all(copy != before for (_, before), (_, copy) in zip(timed[::2], timed[1::2], strict=True))
    assert all(copy != before for (_, before), (_, copy) in pairwise(timed[1::2])) or copies == 2
    for name in ("a", "b"):
        assert {copy for who, copy in timed[1::2] if who == name} == set(range(copies))


def test_a_glance_is_short_and_begins_with_what_was_to_be_restored():
    clock, restored = Simulated(lambda sample: 0.002 * (sample % 2)), []
    found = Timer(clock, EFFORT).probe([lambda: 0.003], lambda: restored.append(clock.samples))
    assert found == pytest.approx(0.003)  # others' time is not its own
    assert clock.time < 0.2 * EFFORT.seconds
    assert restored == [0]
    long = Simulated()
    assert Timer(long, EFFORT).probe([lambda: 0.5], lambda: None) == 0.5
    assert long.samples == 4
    short = Simulated()
    assert Timer(short, EFFORT).probe([lambda: 1e-6], lambda: None) == pytest.approx(1e-6)
    assert short.samples <= 101


def test_a_duel_of_one_is_a_timing():
    (found,) = Timer(Simulated(), EFFORT).paired_comparison([[lambda: 0.01]], [lambda: None])
    assert found.seconds == pytest.approx(0.01)
    assert found.repeats == EFFORT.least


def test_a_passing_disturbance_makes_nobody_hopeless():
    """Six times as long while others are there, as was seen: on the second try they are gone."""
    shares, slow = iter([0.8, 0.0]), [6.0]
    clock = Simulated()

    def others():
        def watch() -> float:
            slow[0] = 1.0
            return next(shares)

        return watch

    found = Timer(clock, EFFORT, others).time([lambda: 0.003 * slow[0]], best=0.003)
    assert found.seconds == pytest.approx(0.003)
    assert not found.loaded


def test_who_is_hopeless_twice_under_load_is_not_tried_a_third_time():
    shares = iter([0.8, 0.7])
    found = Timer(Simulated(), EFFORT, lambda: lambda: next(shares)).time([lambda: 0.03], best=0.003)
    assert next(shares, None) is None
    assert found.seconds == pytest.approx(0.03)


def test_who_is_surely_behind_the_best_is_not_sampled_until_it_is_known_well():
    """A tenth slower by all samples; who may be as fast is sampled on, and so is who was only disturbed."""
    behind = Timer(Simulated(), EFFORT).time([noisy(0.012, spread=0.2)], best=0.01)
    assert behind.repeats == EFFORT.least
    assert behind.low > EFFORT.behind * 0.01
    assert Timer(Simulated(), EFFORT).time([noisy(0.0105, spread=0.2)], best=0.01).repeats > EFFORT.least
    disturbed = Simulated(lambda n: 0.005, alone=False)
    assert Timer(disturbed, EFFORT).time([noisy(0.01, spread=0.2)], best=0.01).repeats > EFFORT.least


def test_who_is_surely_behind_under_load_is_not_tried_again():
    shares = iter([0.8])
    found = Timer(Simulated(), EFFORT, lambda: lambda: next(shares)).time([noisy(0.012, spread=0.2)], best=0.01)
    assert found.loaded
    assert found.seconds > 0.012


@given(st.integers(0, 1000), st.floats(0.9, 1.1))
def test_rounds_that_others_slow_do_not_change_who_wins_a_duel(seed: int, ratio: float):
    """Whole rounds are up to five times as long; rivals differ by what they differ by."""
    random = np.random.default_rng(seed)
    rounds = Rounds(2)
    for _ in range(40):
        slow = 1 + 4 * random.random()
        rounds.add([Sample(0.003 * slow), Sample(2 * 0.003 * ratio * slow)], [1, 2])
    first, second = rounds.measured(6, 0.0, 0.1)
    assert second.seconds / first.seconds == pytest.approx(ratio)
    assert first.high / first.low == pytest.approx(1)
    assert 0.002 < first.seconds < 0.017


def test_with_warm_arguments_each_rival_uses_the_rounds_copy_twice_and_all_copies_have_their_turns():
    clock, used = Simulated(), list[tuple[str, int]]()

    def call(rival: str, copy: int) -> TimedCall:
        def run() -> float:
            used.append((rival, copy))
            return 0.002

        return run

    rivals = [[call(name, copy) for copy in range(3)] for name in "ab"]
    Timer(clock, replace(EFFORT, sample_seconds=1e-3)).paired_comparison(rivals, [lambda: None] * 2, warm=True)
    rounds = [used[at : at + 4] for at in range(len(used) % 4, len(used), 4)]
    rounds = [each for each in rounds if len({copy for _, copy in each}) == 1]
    assert len(rounds) >= EFFORT.least
    assert {copy for each in rounds for _, copy in each} == {0, 1, 2}
    for each in rounds:
        assert [name for name, _ in each] in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
