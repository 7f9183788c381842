"""Tuning, with a bench whose times are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import pytest

import vkernels as vk
from vkernels.autotune import drive, rerank
from vkernels.autotune import tune as tuning
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement, Outcome, Setting
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.progress import Progress
from vkernels.autotune.searches import SEARCHES
from vkernels.autotune.slice_names import slice_limits
from vkernels.autotune.tune import tune
from vkernels.library.tasks import library_tasks

from .fake_bench import FakeBench
from .tuned_softmax import SLICE, key, landscape, tuned


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
        return crc32(repr(candidate).encode()) % 7 == 0


def test_what_is_found_wrong_when_it_is_prepared_is_a_failure_and_never_measured(space: PlanSpace):
    bench = Preparing(landscape(space, 1))
    result = tuned(bench, Stop(evaluations=40))
    crashed = [each.candidate for each in result.failures if each.failed.reason == FailureReason.CRASH]
    assert crashed
    assert all(map(Preparing.is_odd, crashed))
    assert not set(map(key, crashed)) & set(map(key, bench.measured))
    assert all(len(some) <= 3 for some in bench.prepared)
    assert {key(each) for some in bench.prepared for each in some} <= {*map(key, bench.measured), *map(key, crashed)}


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
    monkeypatch.setattr(drive, "monotonic", monotonic)
    return now


@dataclass
class Slow(FakeBench):
    """A bench whose measurements take a second each."""

    clock: list[float] = field(default_factory=list)

    def measure(self, candidate: Candidate, timeout: float = 60.0, **more) -> Outcome:
        self.clock[0] += 1
        return super().measure(candidate, timeout, **more)


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
        def paired_comparison(self, candidates: Sequence[Candidate], **more) -> list[Outcome]:
            self.clock[0] += 8
            return super().paired_comparison(candidates, **more)

    space = read(task, slice_limits(SLICE))
    default = space.plan(space.default)
    bench = Fighting(lambda each: 1.0 if each.plan == default else 0.9, clock=clock)
    result = tune(task, SLICE, Stop(seconds=1000.0 if left else 30.0), bench=bench, space=space, caches="cold")
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

    def _outcome(self, candidate: Candidate, factor: float, setting: Setting) -> Outcome:
        found = super()._outcome(candidate, factor, setting)
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
