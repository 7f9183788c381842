"""A budget covers all that a user waits for; by a clock that only the bench moves on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from vkernels.autotune.database import Database
from vkernels.autotune.drive import Stop, TimeBudget
from vkernels.autotune.history import History
from vkernels.autotune.measure import (
    Bench,
    BenchOptions,
    BySetting,
    Candidate,
    Failed,
    FailureReason,
    Measurement,
    Outcome,
    OutOfTimeError,
    Setting,
)
from vkernels.autotune.plan_space import MIN_POINTS, PlanSpace, read
from vkernels.autotune.progress import Progress
from vkernels.autotune.result import TuningResult
from vkernels.autotune.slice_names import slice_limits, slice_target
from vkernels.autotune.tune import tune
from vkernels.library.tasks import library_tasks

from .fake_bench import FakeBench, by_model

(TASK,) = library_tasks(["softmax_rows"])
SPACE = read(TASK, slice_limits("cpu"), MIN_POINTS)


@dataclass
class Clock:
    """Seconds that only `pass_` moves on."""

    now: float = 0.0
    until: float = float("inf")

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        """Raises `OutOfTimeError` when the time is over, as a bench whose worker is ended then."""
        if self.now + seconds >= self.until:
            self.now = max(self.now, self.until)
            raise OutOfTimeError(TASK, "while something was done")
        self.now += seconds


@dataclass
class SlowBench(FakeBench):
    """A bench that takes time. `costs`: seconds of measurements, in turn; `starting`: of the first one, besides."""

    clock: Clock = field(default_factory=Clock)
    costs: Sequence[float] = (0.1,)
    starting: float = 0.0

    def measure(self, candidate: Candidate, timeout: float = 60.0, *, setting: Setting = Setting.COLD) -> Outcome:
        cost = self.costs[len(self.measured) % len(self.costs)] + (0.0 if self.measured else self.starting)
        self.clock.spend(min(cost, timeout))
        outcome = super().measure(candidate, timeout, setting=setting)
        return outcome if cost <= timeout else Failed(FailureReason.TIME_OUT, "it took too long")

    def compare_in(self, settings: Sequence[Setting], candidates: Sequence[Candidate]) -> list[BySetting]:
        for _ in settings:
            self.clock.spend(sum(self.costs) / len(self.costs) * len(candidates))
        return super().compare_in(settings, candidates)


def reading(clock: Clock, seconds: float):
    """What takes time while a space is read."""

    def on_progress(progress: Progress) -> None:
        if progress.stage == "reading":
            clock.now += seconds

    return on_progress


SECONDS = st.floats(0.01, 5.0)


@pytest.mark.slow
@hypothesis_settings(max_examples=10)
@given(
    budget=st.floats(0.5, 60.0), costs=st.lists(SECONDS, min_size=1, max_size=7), starting=SECONDS, space=SECONDS,
    caches=st.sampled_from(["cold", "program"]),
)  # fmt: skip
def test_no_run_takes_longer_than_its_budget(budget, costs, starting, space, caches):
    clock = Clock(until=budget)
    bench = SlowBench(by_model(SPACE), clock=clock, costs=costs, starting=starting)
    result = tune(TASK, "cpu", Stop(seconds=budget), bench=bench, space=SPACE, caches=caches, clock=clock,
                  on_progress=reading(clock, min(space, budget)))  # fmt: skip
    assert clock.now <= budget
    assert result.stopped in ("seconds", "space")
    assert (result.best is not None) is bool(bench.measured), "what was measured is returned"


@pytest.mark.slow
@hypothesis_settings(max_examples=10)
@given(cost=st.floats(0.01, 0.5), settings=st.sampled_from(["cold", "program"]))
def test_finalists_are_compared_where_there_is_time_for_a_few_measurements(cost, settings):
    budget = 60.5 * cost  # not a whole number: roundings would decide whether the last one fits
    clock = Clock(until=budget)
    result = tune(TASK, "cpu", Stop(seconds=budget), bench=SlowBench(by_model(SPACE), clock=clock, costs=[cost]),
                  space=SPACE, caches=settings, clock=clock)  # fmt: skip
    assert result.final
    assert clock.now > 0.5 * budget


def test_a_plan_that_the_end_cut_off_is_no_failure(tmp_path: Path):
    clock = Clock(until=10.0)
    bench = SlowBench(by_model(SPACE), clock=clock, costs=[0.5, 1.0, 1.5])
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        tune(TASK, "cpu", Stop(seconds=10.0), bench=bench, database=database, space=SPACE, clock=clock)
        assert [entry.failure for entry in database.entries() if entry.failure] == []


def test_without_time_to_compare_the_default_plan_stays_for_calls_as_well(tmp_path: Path):
    class Comparing(SlowBench):
        def compare_in(self, settings: Sequence[Setting], candidates: Sequence[Candidate]) -> list[BySetting]:
            self.clock.spend(1e9)
            return []

    def run(database: Database) -> TuningResult:
        clock = Clock(until=10.0)
        bench = Comparing(lambda each: 1.0 if each.plan == default else 0.5, clock=clock, costs=[0.2])
        return tune(TASK, "cpu", Stop(seconds=10.0), bench=bench, database=database, space=SPACE, clock=clock)

    default = SPACE.plan(SPACE.default)
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        result = run(database)
        assert result.best == result.default is not None
        assert not result.final
        assert any(each.seconds < result.default.seconds for each in result.successes)
        (final,) = [entry for entry in database.entries() if entry.final]
        assert final.default
        assert database.candidates(final.key, TASK.shape)[0] == final
        chosen = next(each for each in result.successes if each.point != SPACE.default)
        history_of(database, SPACE).add(chosen.candidate, replace(chosen.measured, high=chosen.seconds), 0, final=True)
        run(database)
        assert len([entry for entry in database.entries() if entry.final]) == 2


def test_the_default_plan_has_all_the_time_and_others_a_part():
    budget = TimeBudget(Stop(seconds=4.0), 0.0, lambda: 0.0)
    assert budget.timeout < 2.0
    clock = Clock(until=4.0)
    result = tune(TASK, "cpu", Stop(seconds=4.0), bench=SlowBench(by_model(SPACE), clock=clock, costs=[3.0]),
                  space=SPACE, clock=clock)  # fmt: skip
    assert result.best == result.default is not None


def history_of(database: Database, space: PlanSpace) -> History:
    return History(database, TASK, space.limits, slice_target("cpu"), "cpu")


def test_a_short_run_knows_the_best_plans_of_long_ones(tmp_path: Path):
    few, limits = 100, slice_limits("cpu")
    every, short = read(TASK, limits), read(TASK, limits, few)
    outside = [point for point in every.space.listed if short.point(every.plan(point)) is None]
    assert outside, "the short run's space is smaller"
    slow, chosen = every.plan(outside[0]), every.plan(outside[-1])
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        history = history_of(database, short)
        history.add(Candidate(slow, {}), Measurement(2.0, 2.0, 2.0, 9), 0)
        history.add(Candidate(chosen, {}), Measurement(1.0, 1.0, 1.0, 9), 1, final=True)
        assert history.best_plans({}) == [chosen, slow]
        space = read(TASK, limits, few, history.best_plans)
        points = [space.point(plan) for plan in (chosen, slow)]
        assert all(point in space.space for point in points)
        assert [space.plan(point) for point in points] == [chosen, slow]
        assert [each.final for each in history.before(space)] == [False, True]
    assert space.default == short.default or space.plan(space.default) == short.plan(short.default)


def test_plans_that_do_not_fit_stay_out_of_a_space(tmp_path: Path):
    plan = SPACE.plan(SPACE.default)
    absurd = type(plan)(tiles={"i": 1 << 40}, chunks={"j": 1 << 40}, lanes="j", order=("i",))
    space = read(TASK, slice_limits("cpu"), MIN_POINTS, lambda constants: [absurd])
    assert space.point(absurd) is None
    assert space.sizes == SPACE.sizes


def test_a_time_out_of_a_hurried_run_counts_for_hurried_runs_only(tmp_path: Path):
    late = Candidate(SPACE.plan(SPACE.space.listed[-1]), {})
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        history = history_of(database, SPACE)
        history.add(late, Failed(FailureReason.TIME_OUT, "it took too long"), 0, seconds=1.4)
        assert [each.candidate for each in history.before(SPACE, 1.4)] == [late]
        assert history.before(SPACE, 20.0) == []
        history.add(late, Failed(FailureReason.CRASH, "it fell"), 0, seconds=0.1)
        assert len(history.before(SPACE, 20.0)) == 1


def test_a_bench_whose_time_is_over_starts_nothing():
    with Bench(TASK, "cpu:cores=1", BenchOptions(until=time.monotonic())) as bench:
        for use in (bench.start, lambda: bench.measure(Candidate(SPACE.plan(SPACE.default)))):
            with pytest.raises(OutOfTimeError, match=r"softmax_rows.* budget ended .*give more time"):
                use()
        assert bench.restarts == 0


@pytest.mark.slow
def test_what_a_bench_does_at_the_end_is_cut_off_and_blamed_on_nobody():
    candidate = Candidate(SPACE.plan(SPACE.default))
    with Bench(TASK, "cpu:cores=1") as bench:
        assert isinstance(bench.measure(candidate), Measurement)
        bench.options = BenchOptions(until=time.monotonic() + 1e-2)
        with pytest.raises(OutOfTimeError):
            bench.paired_comparison([candidate] * 500)
        bench.options = BenchOptions()
        assert isinstance(bench.measure(candidate), Measurement)
