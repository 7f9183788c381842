"""Finalists are judged in several settings: a plan that loses in one does not win, whatever it gains in the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from vkernels.autotune.database import Database
from vkernels.autotune.drive import Stop
from vkernels.autotune.history import History
from vkernels.autotune.measure import BySetting, Candidate, Failed, FailureReason, Measurement, Setting
from vkernels.autotune.plan_space import PlanSpace
from vkernels.autotune.rerank import MAX_ROUNDS, combined, is_surely_faster
from vkernels.autotune.settings import CACHES, PROGRAM, Judged, judge, judging_of
from vkernels.autotune.slice_names import slice_limits, slice_target
from vkernels.ir.errors import OptionError

from .fake_bench import FakeBench
from .tuned_softmax import SLICE, TASK, tuned

FINALS = CACHES[PROGRAM].finals
COLD, WARM, CHAIN = FINALS


def judged_by(seconds: Sequence[Sequence[float]], noise: float = 0.0, seed: int = 0, **more) -> list[Judged]:
    """Candidates with these seconds in each setting; the first is the base."""
    random = np.random.default_rng(seed)

    def compare(rivals: Sequence[int]) -> list[BySetting]:
        found: list[BySetting] = []
        for number in rivals:
            times = np.array(seconds[number]) * random.uniform(1 - noise, 1 + noise, len(FINALS))
            found.append({s: Measurement(t, 0.999 * t, 1.001 * t, 9) for s, t in zip(FINALS, times, strict=True)})
        return found

    return judge(FINALS, compare, len(seconds), 0, lambda compared, more: True, **more)


def test_a_plan_that_loses_in_one_setting_is_never_the_best_whatever_it_gains_elsewhere(space: PlanSpace):
    """Stores past the caches: the search finds them the fastest, and who reads the results waits for them."""
    default = space.plan(space.default)
    fast = lambda each: 1.0 if each.plan == default else 0.5  # noqa: E731
    slow = lambda each: 1.0 if each.plan == default else 1.2  # noqa: E731
    for setting in FINALS:
        result = tuned(FakeBench(fast, settings={setting: slow}), Stop(evaluations=20), caches=PROGRAM)
        assert result.best == result.default
        assert result.caches == PROGRAM
    result = tuned(FakeBench(fast), Stop(evaluations=20), caches=PROGRAM)
    assert result.gains == pytest.approx(dict.fromkeys(FINALS, 2.0))
    assert result.gain == pytest.approx(2.0)


def test_of_plans_that_lose_nowhere_the_one_of_the_best_mean_wins(space: PlanSpace):
    default, even, careless = (space.plan(point) for point in [space.default, *space.seeds[1:3]])
    assert len({repr(default), repr(even), repr(careless)}) == 3

    def in_general(candidate: Candidate) -> float:
        return {repr(even): 0.8, repr(careless): 0.4}.get(repr(candidate.plan), 1.0)

    def when_read(candidate: Candidate) -> float:
        return {repr(even): 0.9, repr(careless): 1.1}.get(repr(candidate.plan), 1.0)

    bench = FakeBench(in_general, settings={CHAIN: when_read})
    result = tuned(bench, Stop(evaluations=500), search="exhaustive", caches=PROGRAM)
    assert result.best.candidate.plan == even
    assert result.gains == pytest.approx({COLD: 1 / 0.8, WARM: 1 / 0.8, CHAIN: 1 / 0.9})
    assert result.gain == pytest.approx((0.8 * 0.8 * 0.9) ** (-1 / 3))


def test_a_time_over_all_settings_is_on_the_scale_of_the_search():
    base, other = judged_by([[1.0, 0.5, 2.0], [0.5, 0.5, 1.0]], usual=7.0)
    assert base.outcome.seconds == pytest.approx(7.0)
    assert other.outcome.seconds == pytest.approx(7.0 * 0.25 ** (1 / 3))
    assert other.times[CHAIN].seconds == pytest.approx(1.0)


def test_what_loses_in_a_setting_ranks_behind_the_base_in_a_database():
    base, other = judged_by([[1.0, 1.0, 1.0], [0.5, 0.5, 1.2]])
    assert other.loses_in == (CHAIN,)
    assert other.outcome.high > base.outcome.high
    assert not is_surely_faster(other.outcome, base.outcome)
    assert not base.loses_in


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_loss_and_a_loss_beyond_the_noise_is_one(seed: int):
    base, equal, worse = judged_by([[1.0, 1.0, 1.0], [0.8, 1.0, 1.0], [0.8, 1.0, 1.06]], 0.01, seed)
    assert not equal.loses_in
    assert CHAIN in worse.loses_in
    assert is_surely_faster(equal.outcome, base.outcome)


def test_who_loses_for_sure_does_not_fight_on():
    fought: list[list[int]] = []

    def compare(rivals: Sequence[int]) -> list[BySetting]:
        fought.append(list(rivals))
        seconds = [{COLD: t, WARM: t, CHAIN: 1.5 if t < 0.5 else t} for t in (1.0, 0.4, 0.9)]
        return [{s: Measurement(t, t, t, 9) for s, t in seconds[number].items()} for number in rivals]

    judge(FINALS, compare, 3, 0, lambda compared, more: True)
    assert fought[0] == [0, 1, 2]
    assert all(rivals == [0, 2] for rivals in fought[1:])
    assert 1 < len(fought) < MAX_ROUNDS


@pytest.mark.parametrize("seed", range(10))
def test_a_machine_that_slows_down_after_all_are_beaten_makes_no_winner_of_a_loser(seed: int):
    random = np.random.default_rng(seed)
    slowdown, compared = 1.0, []

    def compare(rivals: Sequence[int]) -> list[BySetting]:
        nonlocal slowdown
        compared.append(list(rivals))
        seconds = [{COLD: 1.0, WARM: 1.0, CHAIN: 1.0}, {COLD: 0.7, WARM: 0.9, CHAIN: 1.3}]
        found = [{s: Measurement(t * slowdown, t * slowdown, t * slowdown, 9) for s, t in seconds[number].items()}
                 for number in rivals]  # fmt: skip
        slowdown *= random.uniform(1.2, 2.0)
        return found

    base, other = judge(FINALS, compare, 2, 0, lambda compared, more: True)
    assert compared == [[0, 1]], "the base is not timed alone"
    assert other.loses_in == (CHAIN,)
    assert not is_surely_faster(other.outcome, base.outcome)


def test_ratios_stay_where_the_base_alone_stayed():
    exact = [Measurement(t, t, t, 9) for t in (1.0, 1.3, 2.0)]
    rounds = [{0: exact[0], 1: exact[1]}, {0: exact[2]}]
    base, other = combined(rounds, 0)
    assert other.seconds / base.seconds == pytest.approx(1.3)


def test_who_fails_in_one_setting_has_failed():
    failed = Failed(FailureReason.CRASH, "now and then")
    time = Measurement(1.0, 1.0, 1.0, 9)
    some: list[BySetting] = [dict.fromkeys(FINALS, time), {COLD: time, WARM: failed, CHAIN: time}]
    base, other = judge(FINALS, lambda rivals: [some[n] for n in rivals], 2, 0, lambda compared, more: False)
    assert base.outcome.seconds == time.seconds
    assert other.outcome == failed


def test_the_search_measures_in_one_setting_and_the_finals_in_all(space: PlanSpace):
    asked: list[Setting] = []

    class Watched(FakeBench):
        def measure(self, candidate, timeout=60.0, *, setting=COLD):
            asked.append(setting)
            return super().measure(candidate, timeout, setting=setting)

    bench = Watched(lambda candidate: 1.0)
    tuned(bench, Stop(evaluations=8), caches=PROGRAM)
    assert set(asked) == {Setting.READ}
    assert len(bench.comparisons) % len(FINALS) == 0
    for caches in ("cold", "warm"):
        asked.clear()
        tuned(bench, Stop(evaluations=8), caches=caches)
        assert set(asked) == {Setting(caches)} == set(judging_of(caches).finals)


def test_unknown_caches_are_refused(space: PlanSpace):
    with pytest.raises(OptionError, match="did you mean warm"):
        tuned(FakeBench(lambda candidate: 1.0), caches="warmer")


def test_a_plan_chosen_with_cold_arguments_gives_way_where_it_loses_in_a_program(space: PlanSpace, tmp_path: Path):
    """The entry of an earlier version, or of `--caches cold`, is judged again, and calls take it no more."""
    default, other = space.plan(space.default), space.plan(space.seeds[1])
    fast = lambda each: 0.5 if each.plan == other else 1.0  # noqa: E731
    slow = lambda each: 1.3 if each.plan == other else 1.0  # noqa: E731
    bench = FakeBench(fast, settings={CHAIN: slow})
    with Database.open(str(tmp_path / "tuning.db")) as database:
        first = tuned(bench, Stop(evaluations=5), database=database, search="exhaustive")
        assert first.best.candidate.plan == other
        key = next(entry for entry in database.entries() if entry.final).key
        assert database.best(key).shown == other
        assert database.best(key).caches == "cold"
        second = tuned(bench, Stop(evaluations=5), database=database, caches=PROGRAM)
        assert other in [each.candidate.plan for each in second.successes]
        assert second.best.candidate.plan == default
        best = database.best(key, TASK.shape)
        assert best.shown == default
        assert best.caches == PROGRAM
        third = tuned(bench, Stop(evaluations=5), database=database, search="exhaustive")
        assert third.best.candidate.plan == database.best(key, TASK.shape).shown == other  # as was asked for last


def test_times_of_another_setting_are_measured_again_and_failures_are_not(space: PlanSpace, tmp_path: Path):
    points = space.seeds[1:3]
    timed, failed = (Candidate(space.plan(point)) for point in points)
    with Database.open(str(tmp_path / "tuning.db")) as database:
        cold, program = (
            History(database, TASK, slice_limits(SLICE), slice_target(SLICE), SLICE, caches)
            for caches in ("cold", PROGRAM)
        )
        cold.add(timed, Measurement(1.0, 1.0, 1.0, 9), 0, final=True)
        cold.add(failed, Failed(FailureReason.WRONG_ANSWER, "7 of 9"), 1)
        assert [each.candidate for each in cold.before(space)] == [timed, failed]
        assert [each.candidate for each in program.before(space)] == [failed]
        assert program.chosen_elsewhere(space) == [points[0]]
        assert cold.chosen_elsewhere(space) == []
