"""Tuning, with a bench whose times are known."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk
from vkernels.autotune import rerank, time_budget
from vkernels.autotune import tune as tuning
from vkernels.autotune.database import Database
from vkernels.autotune.drive import Stop
from vkernels.autotune.history import History
from vkernels.autotune.limits import slice_limits, slice_target
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement, Outcome
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.result import TuningResult
from vkernels.autotune.searches import SEARCHES
from vkernels.autotune.tune import Progress, tune
from vkernels.ir.limits import Limits
from vkernels.library.tasks import library_tasks

from .fake_bench import FakeBench, Times

LIMITS = Limits(registers=16, register_bytes=32, shared=1 << 20, multiprocessors=1, cache=32 << 20)
(TASK,) = library_tasks(["softmax_rows"])
SLICE = "cpu:cores=1"


SIXTY = Stop(evaluations=60)


@cache
def one_space() -> PlanSpace:
    return read(TASK, LIMITS)


@pytest.fixture(scope="module")
def space() -> PlanSpace:
    return one_space()


def landscape(space: PlanSpace, seed: int) -> Times:
    """Random seconds that each choice has a part in, with failures among them."""
    random = np.random.default_rng(seed)
    values = dict(zip(space.space.names, space.space.values, strict=True))
    parts = {name: random.uniform(0.5, 2.0, len(some)) for name, some in values.items()}
    broken = {point for point in space.space.listed if random.random() < 0.1} - {space.default}

    def times(candidate: Candidate) -> float | FailureReason:
        point = space.point(candidate.plan, candidate.constants or None)
        assert point is not None
        if point in broken:
            return FailureReason.COMPILE_ERROR
        named = space.space.named(point)
        return 1e-3 * float(np.prod([parts[name][values[name].index(named[name])] for name in values]))

    return times


def tuned(bench: FakeBench, stop: Stop = SIXTY, **more) -> TuningResult:
    return tune(TASK, SLICE, stop, bench=bench, space=one_space(), **more)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("search", SEARCHES)
def test_the_best_is_never_slower_than_the_default_and_is_what_was_found(space: PlanSpace, search: str, seed: int):
    times = landscape(space, seed)
    bench = FakeBench(times)
    result = tuned(bench, Stop(evaluations=40), search=search, seed=seed)
    default = times(Candidate(space.plan(space.default)))
    assert result.default.seconds == default
    least = min(found for each in bench.measured if isinstance(found := times(each), float))
    assert result.best.seconds == pytest.approx(least if least < 0.99 * default else default, rel=1e-12)
    assert result.gain >= 1
    assert times(result.best.candidate) == pytest.approx(result.best.seconds, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_single_measurements_does_not_decide(space: PlanSpace, seed: int):
    times = landscape(space, seed)
    result = tuned(FakeBench(times, noise=0.2), seed=seed)
    assert result.best.seconds == pytest.approx(times(result.best.candidate), rel=1e-12)
    assert times(result.best.candidate) <= times(Candidate(space.plan(space.default)))


@dataclass
class Preparing(FakeBench):
    """A bench that prepares three at once, and finds every seventh plan wrong then."""

    at_once = 3
    prepared: list[Sequence[Candidate]] = field(default_factory=list)

    def prepare(self, candidates: Sequence[Candidate], timeout: float = 60.0) -> list[Failed | None]:
        self.prepared.append(candidates)
        return [Failed(FailureReason.CRASH, "it fell over") if self.is_odd(each) else None for each in candidates]

    @staticmethod
    def is_odd(candidate: Candidate) -> bool:
        return len(repr(candidate)) % 7 == 0


def test_what_is_found_wrong_when_it_is_prepared_is_a_failure_and_never_measured(space: PlanSpace):
    bench = Preparing(landscape(space, 1))
    result = tuned(bench, Stop(evaluations=40))
    crashed = [each.candidate for each in result.failures if each.failed.reason == FailureReason.CRASH]
    assert crashed
    assert all(map(Preparing.is_odd, crashed))
    assert not set(map(key, crashed)) & set(map(key, bench.measured))
    assert all(len(some) <= 3 for some in bench.prepared)
    assert {key(each) for some in bench.prepared for each in some} <= {*map(key, bench.measured), *map(key, crashed)}


def key(candidate: Candidate) -> Hashable:
    return candidate.key


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

    def measure(self, candidate: Candidate, timeout: float = 60.0) -> Outcome:
        found = super().measure(candidate, timeout)
        return replace(found, seconds=found.seconds * max(self.factors)) if isinstance(found, Measurement) else found

    def paired_comparison(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        number = len(self.comparisons)
        factor, unlike = self.factors[number % len(self.factors)], self.unlike[number % len(self.unlike)]
        found = super().paired_comparison(candidates)
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

    def paired_comparison(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        found = super().paired_comparison(candidates)
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


def test_the_same_seed_tries_the_same(space: PlanSpace):
    one, same, other = (FakeBench(landscape(space, 1)) for _ in range(3))
    results = [tuned(one, seed=3), tuned(same, seed=3)]
    tuned(other, seed=4)
    assert one.measured == same.measured
    assert other.measured != one.measured
    assert results[0].best == results[1].best


def test_failures_are_told_with_their_reasons(space: PlanSpace):
    result = tuned(FakeBench(landscape(space, 2)))
    assert set(result.reasons) == {"compile-error"}
    assert len(result.failures) == result.reasons["compile-error"] > 0
    assert len(result.successes) + len(result.failures) >= 60


def test_a_default_that_fails_is_no_hindrance(space: PlanSpace):
    default = space.plan(space.default)
    result = tuned(FakeBench(lambda candidate: FailureReason.TIME_OUT if candidate.plan == default else 1.0))
    assert result.default is None
    assert result.gain is None
    assert result.best is not None


def test_where_all_fail_there_is_no_best():
    result = tuned(FakeBench(lambda candidate: FailureReason.CRASH), Stop(evaluations=10))
    assert result.best is None
    assert result.reasons == {"crash": 10}


def test_an_interrupt_keeps_what_was_found(space: PlanSpace):
    times = landscape(space, 3)
    result = tuned(FakeBench(times, interrupted=12))
    assert result.stopped == "interrupted"
    assert len(result.successes) + len(result.failures) == 12
    assert not result.final
    assert result.best.seconds == min(each.seconds for each in result.successes)
    assert tuned(FakeBench(times, interrupted=0)).best is None


def test_what_moved_the_best_is_measured_by_undoing_each_choice(space: PlanSpace):
    names = space.space.names
    values = dict(zip(names, space.space.values, strict=True))

    def times(candidate: Candidate) -> float:
        named = space.space.named(space.point(candidate.plan))
        slow = 2.0 if named["streams"] == space.space.named(space.default)["streams"] else 1.0
        return slow * (1.5 if named["chunk j"] == space.space.named(space.default)["chunk j"] else 1.0)

    assert len(values["streams"]) == 2
    result = tuned(FakeBench(times), Stop(evaluations=150))
    assert result.gain == 3
    factors = {moved.name: moved.factor for moved in result.moved}
    assert factors["streams"] == 2
    assert factors["chunk j"] in (1.5, None)  # other chunks may not fit with all else as it is
    assert [moved.factor or 0 for moved in result.moved] == sorted((m.factor or 0 for m in result.moved), reverse=True)


def test_progress_tells_the_best_so_far(space: PlanSpace):
    told: list[Progress] = []
    tuned(FakeBench(landscape(space, 4)), on_progress=told.append)
    assert told[0].stage == "reading"
    assert {each.stage for each in told} >= {"reading", "searching", "finalists"}
    bests = [each.best for each in told if each.best is not None]
    assert bests == sorted(bests, reverse=True)
    assert all(each.left == space.sizes.after - each.tried for each in told[1:])


def test_seconds_end_the_search():
    result = tuned(FakeBench(lambda candidate: 1.0), Stop(seconds=0.0))
    assert result.stopped == "seconds"


def test_a_search_that_there_is_not_is_refused():
    with pytest.raises(vk.OptionError, match="did you mean forest"):
        tuned(FakeBench(lambda candidate: 1.0), search="forrest")


def test_results_are_json(space: PlanSpace):
    result = tuned(FakeBench(landscape(space, 5)))
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["best"]["seconds"] == result.best.seconds
    assert data["counts"]["after"] == space.sizes.after
    assert data["tried"] == len(data["successes"]) + len(data["failures"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time: each look at it takes a little, each measurement a second."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr(tuning, "monotonic", monotonic)
    monkeypatch.setattr(time_budget, "monotonic", monotonic)
    return now


@dataclass
class Slow(FakeBench):
    """A bench whose measurements take a second each."""

    clock: list[float] = field(default_factory=list)

    def measure(self, candidate: Candidate, timeout: float = 60.0) -> Outcome:
        self.clock[0] += 1
        return super().measure(candidate, timeout)


def test_seconds_that_the_end_does_not_need_are_searched_with(clock: list[float]):
    told: list[Progress] = []
    result = tuned(Slow(lambda candidate: 1.0, clock=clock), Stop(seconds=100.0), on_progress=told.append)
    last = max(each.seconds for each in told if each.stage == "searching")
    assert result.stopped == "seconds"
    assert 95 < last < 100  # of which 15 were kept at first, and duels take no time here
    assert result.seconds < 102  # the last measurement is not broken off


@pytest.mark.parametrize(("left", "comparisons"), [(True, rerank.ROUNDS), (False, 1)])
def test_where_all_is_tried_the_time_that_is_left_goes_to_the_finals(left: bool, comparisons: int, clock: list[float]):
    (task,) = library_tasks(["find_largest_of_bags" if left else "softmax_rows"])

    class Fighting(Slow):
        def paired_comparison(self, candidates: Sequence[Candidate]) -> list[Outcome]:
            self.clock[0] += 8
            return super().paired_comparison(candidates)

    space = read(task, slice_limits(SLICE))
    default = space.plan(space.default)
    bench = Fighting(lambda each: 1.0 if each.plan == default else 0.9, clock=clock)
    result = tune(task, SLICE, Stop(seconds=1000.0 if left else 30.0), bench=bench, space=space)
    assert (result.stopped == "space") is left
    assert len(bench.comparisons) == comparisons


def test_who_is_found_when_finals_are_over_fights_too(space: PlanSpace, clock: list[float]):
    default = space.plan(space.default)
    late = Slow(lambda each: 1.0 if each.plan == default else 2.0 - 1e-3 * len(late.measured), clock=clock)
    late.times = lambda each, slow=late.times: 0.5 if late.measured.index(each) >= 95 else slow(each)
    result = tuned(late, Stop(seconds=100.0))
    assert late.measured.index(result.best.candidate) >= 95
    assert result.best.candidate in late.comparisons[-1]
    assert result.best.candidate not in late.comparisons[0]


@dataclass
class Movable(Slow):
    """A bench that counts how often it is moved; the fastest elsewhere is another one than where it began."""

    moved: int = 0

    def renew_inputs(self) -> None:
        self.moved += 1

    def _outcome(self, candidate: Candidate, factor: float) -> Outcome:
        found = super()._outcome(candidate, factor)
        lucky = isinstance(found, Measurement) and found.seconds == 0.7 and not self.moved
        return replace(found, seconds=0.5, low=0.5, high=0.5) if lucky else found


def test_finalists_are_timed_in_several_places_where_there_is_time(space: PlanSpace, clock: list[float]):
    lucky, best = [point for point in space.seeds if point != space.default][:2]
    pairs = [(space.plan(lucky), 0.7), (space.plan(best), 0.6)]
    times = lambda each: next((s for plan, s in pairs if plan == each.plan), 1.0)  # noqa: E731
    bench = Movable(times, clock=clock)
    assert tuned(bench, Stop(seconds=100.0)).best.candidate.plan == pairs[1][0]
    assert bench.moved == 3
    hurried = Movable(times, clock=clock)
    tuned(hurried, Stop(evaluations=60))
    assert not hurried.moved


def test_a_choice_that_was_undone_is_known_to_the_search(space: PlanSpace, clock: list[float]):
    bench = Slow(landscape(space, 1), clock=clock)
    tuned(bench, Stop(seconds=100.0))
    points = [space.point(each.plan) for each in bench.measured]
    assert len(points) == len(set(points))


# With a database


def test_what_a_run_settled_on_with_luck_gives_way_when_it_is_timed_again(space: PlanSpace, tmp_path: Path):
    other = next(point for point in space.space.listed if point != space.default)
    lucky = Candidate(space.plan(other))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        history = History(database, TASK, space.limits, slice_target(SLICE), SLICE)
        history.add(lucky, Measurement(1e-4, 1e-4, 1e-4, 9), 0, final=True)
        times = lambda each: 2.0 if each.plan == lucky.plan else 1.0  # noqa: E731
        result = tuned(FakeBench(times), Stop(evaluations=5), database=database)
        assert result.best == result.default
        best = database.best(next(iter(database.entries())).key)
    assert best is not None
    assert best.plan == result.best.candidate.plan


def test_what_was_tried_is_not_tried_again_and_the_search_goes_on_where_it_was(space: PlanSpace, tmp_path: Path):
    times = landscape(space, 6)
    whole = FakeBench(times)
    tuned(whole, Stop(evaluations=40))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        first, second = FakeBench(times, interrupted=25), FakeBench(times)
        tuned(first, Stop(evaluations=40), database=database)
        assert len(database.entries()) == 25
        result = tuned(second, Stop(evaluations=40), database=database)
    assert first.measured + second.measured == whole.measured
    assert len(result.successes) + len(result.failures) == len(whole.measured)


def test_the_final_entry_is_the_best_of_its_key(space: PlanSpace, tmp_path: Path):
    with Database.open(str(tmp_path / "tuning.db")) as database:
        result = tuned(FakeBench(landscape(space, 7)), database=database)
        (final,) = [entry for entry in database.entries() if entry.final]
        assert final.plan == result.best.candidate.plan
        assert final.seconds == result.best.seconds
        assert database.best(final.key) == final
        failures = [entry for entry in database.entries() if entry.failure]
        assert len(failures) == len(result.failures)


def test_the_best_of_other_limits_are_seeds(space: PlanSpace, tmp_path: Path):
    other = replace(LIMITS, shared=LIMITS.shared // 2)
    times = landscape(space, 8)
    with Database.open(str(tmp_path / "tuning.db")) as database:
        found = tune(
            TASK, SLICE, Stop(evaluations=80), bench=FakeBench(times), space=read(TASK, other), database=database
        )
        bench = FakeBench(times)
        tuned(bench, Stop(evaluations=3), database=database)
    assert bench.measured[1].plan == found.best.candidate.plan


def test_what_is_best_on_the_whole_device_is_timed_beside_the_finalists(space: PlanSpace, tmp_path: Path):
    if slice_limits("cpu") == slice_limits(SLICE):
        pytest.skip("this machine has one core")
    times = landscape(space, 9)
    able = [point for point in space.space.listed if isinstance(times(Candidate(space.plan(point))), float)]
    last = space.plan(able[-1])
    whole, own = (FakeBench(lambda c, best=best: 1e-9 if c.plan == best else times(c)) for best in (last, None))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        wide = replace(space, limits=slice_limits("cpu"), seeds=(space.default, able[-1]))
        on_all = tune(TASK, "cpu", Stop(evaluations=3), bench=whole, space=wide, database=database)
        result = tuned(own, Stop(evaluations=3), database=database)
    assert on_all.best.candidate.plan == last
    assert on_all.device_wide is None
    assert result.device_wide.candidate.plan == last
    assert result.device_wide.seconds == times(Candidate(last))
