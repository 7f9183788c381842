"""Find the best plan of a task on a slice by measuring; the result is never slower than without tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from vkernels.inspect.task import Task, kernel_of
from vkernels.ir.budget import within
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.limits import Limits
from vkernels.ir.system_resources import ThreadPool

from .database.entry import PROGRAM
from .drive import (
    FINALIST_COST,
    FRESH_INPUTS_SECONDS,
    MAX_ABLATIONS,
    MAX_TIMEOUT,
    RERANK_PART,
    Stop,
    TimeBudget,
    drive,
    effort_of,
    end_of,
)
from .history import NEIGHBOUR_SEEDS, History, best_of_neighbours
from .measure import Bench, BenchOptions, BySetting, Candidate, Failed, Measurement, Measures, Outcome, OutOfTimeError
from .plan_space import PlanSpace, enough_points, read
from .progress import Listener, Progress
from .rerank import is_surely_faster
from .result import MEASURED, FailedPlan, Moved, Success, TuningResult
from .searches import DEFAULT_SEARCH, SEARCHES, FailedPoint, Search
from .settings import judge, judging_of
from .slice_names import slice_limits, slice_target, whole_device
from .space import Point

if TYPE_CHECKING:
    from .database.database import Database

FEWEST_FINALISTS, MIN_FINALISTS, MAX_FINALISTS, SUCCESSES_PER_FINALIST = 3, 6, 20, 6
"""Finalists are the default plan, the best plan of an earlier run, and the fastest others.

Their number grows with the number of timed plans, because more of these then seem as fast as the fastest. There are
half as many at most if each is timed in several settings, and `FEWEST_FINALISTS` if there is no time for more.
"""
AGAIN = 3.0
"""The search continues after the final comparison if this multiple of its duration is left; another one follows."""
MINUTE = Stop(seconds=60.0)


def tune(
    task: Task,
    slice: str = "cpu",
    stop: Stop = MINUTE,
    search: str = DEFAULT_SEARCH,
    seed: int = 0,
    bench: Measures | None = None,
    database: Database | None = None,
    on_progress: Listener = lambda progress: None,
    space: PlanSpace | None = None,
    caches: str = PROGRAM,
    history: History | None = None,
    clock: Callable[[], float] | None = None,
) -> TuningResult:
    """Tune a task on a slice of a present device.

    `stop.seconds` limits the whole run, from reading the space to the final comparison; the other limits apply to the
    search. `bench`: by default a new one for the task and slice, which ends with the run. `database`: plans tried
    before are not tried again, and each new trial is stored at once. `space`: of the task on the slice, if it is known
    already. `caches`: the settings in which plans are judged, one of `CACHES`; with `program` the best plan is slower
    than the default in none. `history`: keeps the trials; by default they are kept in the database. An interrupt
    (`KeyboardInterrupt`) ends the search, and the results so far are returned.
    `clock`: the monotonic one by default, in seconds.

    Raises what is wrong with the task, `OptionError` for an unknown slice, search or `caches`, and `SetupError` if the
    device is absent. If the time ends before a plan was timed, the result has no best plan.
    """
    judging_of(caches)
    if search not in SEARCHES:
        raise OptionError(f"there is no search {search!r}; {did_you_mean(search, list(SEARCHES))}")
    clock = clock or monotonic
    began = clock()
    on_progress(Progress(task, slice, "reading", seconds_left=stop.seconds))
    with _bench(bench, task, slice, stop) as measuring:
        if history is None:
            history = history_of(task, slice, database, caches, None if space is None else space.limits)
        space = read_space(task, slice, measuring, enough_points(stop), history) if space is None else space
        run = TuningRun(space, history, measuring, slice, stop, search, seed, on_progress, began, caches=caches,
                        clock=clock)  # fmt: skip
        return run.result(*run.tuned())


def history_of(
    task: Task, slice: str, database: Database | None, caches: str, limits: Limits | None = None
) -> History:  # fmt: skip
    """The history of a task on a slice; `limits`: the slice's within the kernel's budget, by default. Raises as
    `slice_limits` does."""
    limits = limits or within(slice_limits(slice), kernel_of(task).budget)
    return History(database, task, limits, slice_target(slice), slice, caches)


def _bench(bench: Measures | None, task: Task, slice: str, stop: Stop) -> AbstractContextManager[Measures]:
    options = BenchOptions(effort=effort_of(stop), until=end_of(stop))
    return Bench(task, slice, options) if bench is None else nullcontext(bench)


def read_space(task: Task, slice: str, bench: Measures, most: int, history: History) -> PlanSpace:
    """The space of a task on a slice, read while the bench starts: at most so many plans, and the best of the history.

    Raises as `plan_space.read` and starting do, but for the end of the time, which the first measurement meets.
    """
    if not isinstance(bench, Bench):
        return read(task, slice_limits(slice), most, history.best_plans)
    with ThreadPool(1) as pool:
        with suppress(SetupError):  # which starting then reports
            bench.begin_preparing()
        starting = pool.submit(bench.start)
        space = read(task, slice_limits(slice), most, history.best_plans)
        with suppress(OutOfTimeError):
            starting.result()
    return space


@dataclass
class TuningRun:
    """One run of tuning. `known`: outcomes by point, earlier ones first. `origin`: of the times. `caches`: see
    `tune`."""

    space: PlanSpace
    history: History
    bench: Measures
    slice: str
    stop: Stop
    search: str
    seed: int
    tell: Listener
    began: float
    origin: str = MEASURED
    caches: str = "cold"
    clock: Callable[[], float] = monotonic
    known: dict[Point, Success | FailedPlan] = field(default_factory=dict)
    trials: int = 0
    _final_before: set[Point] = field(default_factory=set)
    _was_cut_off: bool = False
    _prepared: dict[Point, tuple[Failed | None, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.judging = judging_of(self.caches)
        self.time = TimeBudget(self.stop, self.began, self.clock)

    def tuned(self) -> tuple[str, list[Success], tuple[Moved, ...]]:
        """Search; return the limit that stopped it, the finalists with their last times, and the decisive choices."""
        stopped = ""
        moved: tuple[Moved, ...] = ()
        finalists: list[Success] = []
        try:
            search = self._started()
            stopped = self._drive(search, self.time.reserved)
            moved = self._ablate(search, self.time.reserved / 2)
            if stopped == "seconds":
                best = self._best
                loaded = [each.measured.loaded for each in self._successes]
                stopped = self._drive(search, self.time.rerank(self._finalist_count, loaded, len(self.judging.finals)))
                moved = moved if self._best is best else self._ablate(search, self.time.reserved / 2)
            began = self.clock()
            finalists = self._compared(is_last=stopped == "space")
            took = self.clock() - began
            if stopped == "seconds" and self.time.left(AGAIN * took) > 0:
                chosen = self._finalists()
                stopped = self._drive(search, FINALIST_COST * took)
                moved = self._ablate(search, float("inf"))
                finalists = finalists if self._finalists() == chosen else self._compared(is_last=False)
        except OutOfTimeError:
            stopped, self._was_cut_off = "seconds", True
        except KeyboardInterrupt:
            stopped = stopped or "interrupted"
        return stopped, finalists, moved

    def result(self, stopped: str, finalists: list[Success], moved: tuple[Moved, ...]) -> TuningResult:
        """Select the best plan, store it, and return the result."""
        successes = tuple(self._successes)
        among = finalists or successes
        default = next((each for each in among if each.point == self.space.default), None)
        best = self._winner(among, default)
        if self._was_cut_off and not finalists and default is not None and self.space.default_may_win:
            # No plan is proved to be faster in all settings: calls use the default one, or an earlier run's choice.
            best, proved = default, [] if self._final_before else [default]
        else:
            proved = finalists
        if proved and best is not None and self.origin == MEASURED:
            for each in proved:
                final = each is best or each.point in self._final_before
                if final or each is default:
                    self.history.add(each.candidate, each.measured, each.trial, final=final, default=each is default)
        moved = moved if best is not None and best.point != self.space.default else ()
        failures = [each for each in self.known.values() if isinstance(each, FailedPlan)]
        wide = next((each for each in finalists if each.candidate == self.device_wide), None)
        return TuningResult(
            self.space.task, self.slice, best, default, successes, tuple(failures), self.space.sizes, self.origin,
            stopped, self.search, self.seed, self.clock() - self.began, bool(finalists), wide,
            tuple(sorted(moved, key=lambda each: -(each.factor or 0.0))),
            {name: len(values) for name, values in zip(self.space.space.names, self.space.space.values, strict=True)},
            caches=self.caches,
        )  # fmt: skip

    def _winner(self, among: Sequence[Success], default: Success | None) -> Success | None:
        """The best plan: the default unless another one is surely faster, if constraints allow the default."""
        allowed = among
        if not self.space.default_may_win:
            allowed = [each for each in among if each.point != self.space.default]
        may_win = [each for each in allowed if not each.loses_in] or allowed
        best = min(may_win, key=lambda each: each.seconds, default=None)
        if not self.space.default_may_win or best is None or default is None:
            return best
        return best if is_surely_faster(best.measured, default.measured) else default

    # The search

    def _started(self) -> Search:
        before, chosen = self.history.before(self.space, self.time.timeout), self.history.chosen_elsewhere(self.space)
        elsewhere = self.history.elsewhere(self.space)
        fast = best_of_neighbours(self.space.space, elsewhere, NEIGHBOUR_SEEDS)
        seeds = dict.fromkeys([self.space.default, *chosen, *fast, *self.space.seeds])
        search = SEARCHES[self.search](self.space.space, seed=self.seed, seeds=seeds, elsewhere=elsewhere)
        for number, each in enumerate(before):
            self._note(each.point, each.candidate, each.outcome, number - len(before))
            search.tell(each.point, _point_outcome(each.outcome))
        self._final_before = {each.point for each in before if each.final} | {*chosen}
        return search

    def _drive(self, search: Search, reserved: float) -> str:
        """Search until a limit is reached or only `reserved` seconds are left; return the limit."""
        stop = replace(self.stop, seconds=self.time.left(reserved) if self.stop.seconds is not None else None)

        def measure(point: Point) -> float | FailedPoint:
            outcome = _point_outcome(self._measure(point, "searching"))
            for candidate, found in self.bench.shared_outcomes():
                shared = self.space.point(candidate.plan, candidate.constants)
                if shared is not None and shared in self.space.space and search.is_new(shared):
                    self._record(shared, candidate, found, 0.0)
                    search.tell(shared, _point_outcome(found))
            return outcome

        return drive(search, measure, stop, self.clock, lambda: self.bench.at_once, self._prepare)

    def _prepare(self, points: Sequence[Point]) -> None:
        self._show("searching")
        began = self.clock()
        found = self.bench.prepare([self._candidate(point) for point in points], timeout=self.time.timeout)
        took = (self.clock() - began) / len(points)
        self._prepared = {point: (failed, took) for point, failed in zip(points, found, strict=True)}

    def _measure(self, point: Point, stage: str) -> Outcome:
        self._show(stage)
        candidate = self._candidate(point)
        failed, preparing = self._prepared.pop(point, (None, 0.0))
        began = self.clock()
        timeout = self.time.timeout if self._successes else MAX_TIMEOUT  # at first, any time is better than none
        outcome = failed or self.bench.measure(candidate, timeout=timeout, setting=self.judging.search)
        took = preparing + self.clock() - began
        if not isinstance(outcome, Failed):
            self.time.took.append(took)
        self._record(point, candidate, outcome, took)
        return outcome

    def _candidate(self, point: Point) -> Candidate:
        return Candidate(self.space.plan(point), self.space.constants(point))

    def _record(self, point: Point, candidate: Candidate, outcome: Outcome, seconds: float) -> None:
        self._note(point, candidate, outcome, self.trials)
        is_default = point == self.space.default
        self.history.add(candidate, outcome, self.trials, seconds, self.origin, default=is_default)
        self.trials += 1

    def _note(self, point: Point, candidate: Candidate, outcome: Outcome, trial: int) -> None:
        if isinstance(outcome, Failed):
            self.known[point] = FailedPlan(candidate, point, outcome, trial)
        else:
            self.known[point] = Success(candidate, point, outcome, trial)

    def _ablate(self, search: Search, reserved: float) -> tuple[Moved, ...]:
        """The choices in which the best plan differs from the default, and its time with each of them undone.

        Measures these plans while more than `reserved` seconds are left.
        """
        best, space = self._best, self.space.space
        if best is None or best.point == self.space.default:
            return ()
        own, usual = space.named(best.point), space.named(self.space.default)
        moved: list[Moved] = []
        for name in [name for name in space.names if own[name] != usual[name]]:
            point = space.point({**own, name: usual[name]})
            may_try = self.stop.evaluations is None or self.trials < 2 * self.stop.evaluations
            may_try = may_try and len(moved) < MAX_ABLATIONS and self.time.left(reserved) > 0
            if point in space and point not in self.known and may_try:
                search.tell(point, _point_outcome(self._measure(point, "undoing")))
            found = self.known.get(point)
            factor = found.seconds / best.seconds if isinstance(found, Success) else None
            moved.append(Moved(name, usual[name], own[name], factor))
        return tuple(moved)

    # The finalists

    @property
    def _finalist_count(self) -> int:
        most = MAX_FINALISTS if len(self.judging.finals) == 1 else MAX_FINALISTS // 2
        return min(most, max(MIN_FINALISTS, len(self._successes) // SUCCESSES_PER_FINALIST))

    def _finalists(self) -> list[Success]:
        fastest = sorted(self._successes, key=lambda each: each.measured.high)
        default = self.known.get(self.space.default)
        others = [each for each in fastest if each.point != self.space.default]
        rest = sorted(others, key=lambda each: each.point not in self._final_before)[:1] + others
        rest = list({each.point: each for each in rest}.values())[: self._finalist_count - 1]
        chosen = [*([default] if isinstance(default, Success) else []), *rest]
        wide = self.device_wide
        if wide is not None and wide not in [each.candidate for each in chosen]:
            chosen.append(Success(wide, (), Measurement(1.0, 1.0, 1.0, 0), self.trials))
        return chosen

    def _compared(self, is_last: bool) -> list[Success]:
        """The finalists, timed in turns if there are several. `is_last`: no search follows that needs the time."""
        chosen = self._finalists()
        chosen = chosen[: max(FEWEST_FINALISTS, self.time.affordable(len(self.judging.finals)))]
        if len(chosen) < 2:
            return chosen
        self._show("finalists")
        began, comparisons = self.clock(), count()

        def may(compared: int, more: int) -> bool:
            return self.time.left((self.clock() - began) / compared * more) > 0

        def spare() -> bool:
            return is_last or self.clock() - began < RERANK_PART * (began - self.began)

        def compare(rivals: Sequence[int]) -> Sequence[BySetting]:
            has_time = self.stop.seconds is not None and self.time.left(FRESH_INPUTS_SECONDS) > 0
            if next(comparisons) % 2 and spare() and has_time:
                self.bench.renew_inputs()
            return self.bench.compare_in(self.judging.finals, [chosen[each].candidate for each in rivals])

        favourite = next((number for number, each in enumerate(chosen) if each.point != self.space.default), None)
        several = len(self.judging.finals) > 1
        found = judge(self.judging.finals, compare, len(chosen), 0, may, spare, favourite, chosen[0].seconds)
        return [
            replace(each, measured=judged.outcome, times=judged.times if several else {}, loses_in=judged.loses_in)
            for each, judged in zip(chosen, found, strict=True)
            if isinstance(judged.outcome, Measurement)
        ]

    @cached_property
    def device_wide(self) -> Candidate | None:
        """The best known plan of the whole device, if the slice is a part of it."""
        whole = whole_device(self.slice)
        if whole == self.slice or self.origin != MEASURED:
            return None
        return self.history.device_wide(self.space, slice_limits(whole))

    # Progress

    @property
    def _successes(self) -> list[Success]:
        return [each for each in self.known.values() if isinstance(each, Success)]

    @property
    def _best(self) -> Success | None:
        return min(self._successes, key=lambda each: each.seconds, default=None)

    def _show(self, stage: str) -> None:
        default, best = self.known.get(self.space.default), self._best
        failed = sum(isinstance(each, FailedPlan) for each in self.known.values())
        self.tell(
            Progress(
                self.space.task, self.slice, stage, len(self.known), failed, self.space.sizes.after - len(self.known),
                None if best is None else best.seconds, default.seconds if isinstance(default, Success) else None,
                self.clock() - self.began, None if self.stop.seconds is None else self.time.left(),
            )
        )  # fmt: skip


def _point_outcome(outcome: Outcome) -> float | FailedPoint:
    return FailedPoint(str(outcome.reason)) if isinstance(outcome, Failed) else outcome.seconds
