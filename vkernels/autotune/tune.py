"""Finds the best plan of a task on a slice, by measuring; never a slower one than calls have without tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from vkernels.inspect.task import Task
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.system_resources import ThreadPool

from .drive import Stop, drive
from .history import History
from .limits import slice_limits, slice_target, whole_device
from .measure import Bench, BenchOptions, Candidate, Failed, Measurement, Measures, Outcome
from .plan_space import MAX_POINTS, PlanSpace, enough_points, read
from .rerank import is_surely_faster, rerank
from .result import MEASURED, FailedPlan, Moved, Success, TuningResult
from .searches import DEFAULT_SEARCH, SEARCHES, Search
from .searches import FailedPoint as ToldFailure
from .space import Point
from .time_budget import FINALIST_COST, FRESH_INPUTS_SECONDS, MAX_ABLATIONS, RERANK_PART, TimeBudget, effort_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .database.database import Database

MIN_FINALISTS, MAX_FINALISTS, SUCCESSES_PER_FINALIST = 6, 20, 6
"""Plans that are measured again in turns: the default one, what an earlier run settled on, and the fastest others. One
of as many that have a time is, for the more there are, the more seem as fast as the fastest."""
AGAIN = 3.0
"""Of what finals took: with so much time left after them, it is searched on, and who is fast then fights too."""
MINUTE = Stop(seconds=60.0)


@dataclass(frozen=True)
class Progress:
    """Where tuning stands. `stage`: `reading`, `searching`, `undoing` or `finalists`. `tried` includes those that were
    known from before. `left`: points of the space that were not tried. `best`, `default`: seconds a call so far.
    `seconds_left`: None where no time was set."""

    task: Task
    slice: str
    stage: str
    tried: int = 0
    failed: int = 0
    left: int = 0
    best: float | None = None
    default: float | None = None
    seconds: float = 0.0
    seconds_left: float | None = None


Listener = Callable[[Progress], object]


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
) -> TuningResult:
    """Tune a task on a slice of a device that is here.

    `stop.seconds` are those of all of it; other limits of `stop` are the search's. `bench`: what measures, one made for
    the task and slice unless given. `database`: what was tried before is not tried again, what is tried is remembered
    at once. `space`: the task's on the slice, where it was read already. An interrupt (`KeyboardInterrupt`) ends the
    search, and what was found so far is returned.

    Raises what is wrong with the task, `OptionError` for a slice or search that there is not, and `SetupError` where
    the device is not here.
    """
    if search not in SEARCHES:
        raise OptionError(f"there is no search {search!r}; {did_you_mean(search, list(SEARCHES))}")
    began = monotonic()
    on_progress(Progress(task, slice, "reading", seconds_left=stop.seconds))
    with _bench(bench, task, slice, stop) as measuring:
        most = enough_points(stop) if database is None else MAX_POINTS  # what is known already may be any plan
        space = _read_meanwhile(task, slice, measuring, most) if space is None else space
        history = History(database, task, space.limits, slice_target(slice), slice)
        run = TuningRun(space, history, measuring, slice, stop, search, seed, on_progress, began)
        return run.result(*run.tuned())


def _bench(bench: Measures | None, task: Task, slice: str, stop: Stop) -> AbstractContextManager[Measures]:
    if bench is not None:
        return nullcontext(bench)
    return Bench(task, slice, BenchOptions(effort=effort_of(stop)))


def _read_meanwhile(task: Task, slice: str, bench: Measures, most: int) -> PlanSpace:
    """The space, read while the bench's worker starts, which takes as long."""
    if not isinstance(bench, Bench):
        return read(task, slice_limits(slice), most)
    with ThreadPool(1) as pool:
        starting = pool.submit(bench.start)
        space = read(task, slice_limits(slice), most)
        starting.result()
    return space


@dataclass
class TuningRun:
    """One run of tuning; `known`: outcomes by point, those of before included, in order. `origin`: of its times."""

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
    known: dict[Point, Success | FailedPlan] = field(default_factory=dict)
    trials: int = 0
    _settled_before: set[Point] = field(default_factory=set)
    _prepared: dict[Point, tuple[Failed | None, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.time = TimeBudget(self.stop, self.began)

    @property
    def _rerank_seconds(self) -> float:
        return self.time.rerank(self._places, [each.measured.loaded for each in self._successes])

    def tuned(self) -> tuple[str, list[Success], tuple[Moved, ...]]:
        """By what the search was stopped, the finalists with their last times, the default one's first if it has one,
        and what moved the best."""
        stopped = ""
        moved: tuple[Moved, ...] = ()
        finalists: list[Success] = []
        try:
            search = self._begun()
            stopped = self._driven(search, self.time.reserved)
            moved = self._undone(search, self.time.reserved / 2)
            if stopped == "seconds":
                best = self._best
                stopped = self._driven(search, self._rerank_seconds)
                moved = moved if self._best is best else self._undone(search, 0.0)
            began = monotonic()
            finalists = self._finalists(searching=stopped != "space")
            took = monotonic() - began
            if stopped == "seconds" and self.time.left(AGAIN * took) > 0:
                chosen = self._in_final()
                stopped = self._driven(search, FINALIST_COST * took)
                moved = self._undone(search, float("inf"))
                finalists = finalists if self._in_final() == chosen else self._finalists()
        except KeyboardInterrupt:
            stopped = stopped or "interrupted"
        return stopped, finalists, moved

    def result(self, stopped: str, finalists: list[Success], moved: tuple[Moved, ...]) -> TuningResult:
        """What was found."""
        successes = tuple(each for each in self.known.values() if isinstance(each, Success))
        final = bool(finalists)
        among = finalists or list(successes)
        default = next((each for each in among if each.point == self.space.default), None)
        best = self._chosen(default, among)
        if final and best is not None and self.origin == MEASURED:
            for each in finalists:
                settled = each is best or each.point in self._settled_before
                if settled or each is default:
                    self.history.add(each.candidate, each.measured, each.trial, final=settled, default=each is default)
        moved = moved if best is not None and best.point != self.space.default else ()
        wide = next((each for each in finalists if each.candidate == self.device_wide), None)
        return TuningResult(
            self.space.task, self.slice, best, default, successes,
            tuple(each for each in self.known.values() if isinstance(each, FailedPlan)), self.space.sizes, self.origin,
            stopped, self.search, self.seed, monotonic() - self.began, final, wide,
            tuple(sorted(moved, key=lambda each: -(each.factor or 0.0))),
            {name: len(values) for name, values in zip(self.space.space.names, self.space.space.values, strict=True)},
        )  # fmt: skip

    # The search

    def _begun(self) -> Search:
        """The search, told what was measured before."""
        before = self.history.before(self.space)
        seeds = dict.fromkeys([self.space.default, *self.history.neighbours(self.space), *self.space.seeds])
        search = SEARCHES[self.search](self.space.space, seed=self.seed, seeds=seeds)
        for number, each in enumerate(before):
            self._note(each.point, each.candidate, each.outcome, number - len(before))
            search.tell(each.point, _told(each.outcome))
        self._settled_before = {each.point for each in before if each.final}
        return search

    def _driven(self, search: Search, reserved: float) -> str:
        """Search on, but for the last seconds; by what it was stopped."""
        stop = replace(self.stop, seconds=self.time.left(reserved) if self.stop.seconds is not None else None)

        def measure(point: Point) -> float | ToldFailure:
            return self._told_of(search, point)

        return drive(search, measure, stop, monotonic, lambda: self.bench.at_once, self._prepare)

    def _prepare(self, points: Sequence[Point]) -> None:
        """Have several compiled at once, before they are measured one after another."""
        self._show("searching")
        began = monotonic()
        found = self.bench.prepare([self._candidate(point) for point in points], timeout=self.time.timeout)
        took = (monotonic() - began) / len(points)
        self._prepared = {point: (failed, took) for point, failed in zip(points, found, strict=True)}

    def _told_of(self, search: Search, point: Point) -> float | ToldFailure:
        """What comes of a point, after the search was told what others measured meanwhile, on cores like these."""
        outcome = _told(self._measured(point, "searching"))
        for candidate, found in self.bench.shared_outcomes():
            there = self.space.point(candidate.plan, candidate.constants)
            if there is not None and there in self.space.space and search.is_new(there):
                self._note(there, candidate, found, self.trials)
                self.history.add(candidate, found, self.trials, 0.0, self.origin, default=self._is_default(there))
                self.trials += 1
                search.tell(there, _told(found))
        return outcome

    def _measured(self, point: Point, stage: str) -> Outcome:
        """What comes of a point; it is remembered before anything else is done."""
        self._show(stage)
        candidate = self._candidate(point)
        failed, preparing = self._prepared.pop(point, (None, 0.0))
        began = monotonic()
        outcome = failed or self.bench.measure(candidate, timeout=self.time.timeout)
        took = preparing + monotonic() - began
        if not isinstance(outcome, Failed):
            self.time.took.append(took)
        self._note(point, candidate, outcome, self.trials)
        self.history.add(candidate, outcome, self.trials, took, self.origin, default=self._is_default(point))
        self.trials += 1
        return outcome

    def _is_default(self, point: Point) -> bool:
        return point == self.space.default

    def _candidate(self, point: Point) -> Candidate:
        return Candidate(self.space.plan(point), self.space.constants(point))

    def _note(self, point: Point, candidate: Candidate, outcome: Outcome, trial: int) -> None:
        if isinstance(outcome, Failed):
            self.known[point] = FailedPlan(candidate, point, outcome, trial)
        else:
            self.known[point] = Success(candidate, point, outcome, trial)

    # What each choice won

    def _undone(self, search: Search, reserved: float) -> tuple[Moved, ...]:
        """The choices in which the best plan differs from the default, and what it takes without each, measured as
        long as there is time, but for the last seconds."""
        best, space = self._best, self.space.space
        if best is None or best.point == self.space.default:
            return ()
        own, usual = space.named(best.point), space.named(self.space.default)
        moved: list[Moved] = []
        for name in [name for name in space.names if own[name] != usual[name]]:
            point = space.point({**own, name: usual[name]})
            may = len(moved) < MAX_ABLATIONS and self.time.left(reserved) > 0 and self._may_try
            if point in space and point not in self.known and may:
                outcome = self._measured(point, "undoing")
                search.tell(point, _told(outcome))
            found = self.known.get(point)
            factor = found.seconds / best.seconds if isinstance(found, Success) else None
            moved.append(Moved(name, usual[name], own[name], factor))
        return tuple(moved)

    @property
    def _may_try(self) -> bool:
        return self.stop.evaluations is None or self.trials < 2 * self.stop.evaluations

    # The finalists

    @property
    def _places(self) -> int:
        """How many come into the final."""
        return min(MAX_FINALISTS, max(MIN_FINALISTS, len(self._successes) // SUCCESSES_PER_FINALIST))

    def _in_final(self) -> list[Success]:
        """The default plan and the fastest others."""
        fastest = sorted(self._successes, key=lambda each: each.measured.high)
        default = self.known.get(self.space.default)
        others = [each for each in fastest if each.point != self.space.default]
        rest = sorted(others, key=lambda each: each.point not in self._settled_before)[:1] + others
        rest = list({each.point: each for each in rest}.values())[: self._places - 1]
        chosen = [*([default] if isinstance(default, Success) else []), *rest]
        wide = self.device_wide
        if wide is not None and wide not in [each.candidate for each in chosen]:
            chosen.append(Success(wide, (), Measurement(1.0, 1.0, 1.0, 0), self.trials))
        return chosen

    def _finalists(self, searching: bool = True) -> list[Success]:
        """The same, timed in turns; as they are where there is but one. `searching`: whether time that they leave is
        of other use."""
        chosen = self._in_final()
        if len(chosen) < 2:
            return chosen
        self._show("finalists")
        began = monotonic()

        def may(fought: int, more: int) -> bool:
            return self.time.left((monotonic() - began) / fought * more) > 0

        def spare() -> bool:
            return not searching or monotonic() - began < RERANK_PART * (began - self.began)

        fights = count()

        def paired_comparison(rivals: Sequence[int]) -> Sequence[Outcome]:
            if next(fights) % 2 and spare():
                self._move()
            return self.bench.paired_comparison([chosen[each].candidate for each in rivals])

        favourite = next((number for number, each in enumerate(chosen) if each.point != self.space.default), None)
        outcomes = rerank(paired_comparison, len(chosen), 0, may, spare, favourite)
        return [
            replace(each, measured=outcome)
            for each, outcome in zip(chosen, outcomes, strict=True)
            if isinstance(outcome, Measurement)
        ]

    def _move(self) -> None:
        """Have what follows measured elsewhere in memory, if there is time, and the bench can."""
        if self.stop.seconds is not None and self.time.left(FRESH_INPUTS_SECONDS) > 0:
            self.bench.renew_inputs()

    @cached_property
    def device_wide(self) -> Candidate | None:
        """What is known to be best on the device that the slice is part of."""
        whole = whole_device(self.slice)
        return (
            None
            if whole == self.slice or self.origin != MEASURED
            else self.history.device_wide(self.space, slice_limits(whole))
        )

    @staticmethod
    def _chosen(default: Success | None, among: Sequence[Success]) -> Success | None:
        """The fastest; the default one unless another is surely faster."""
        best = min(among, key=lambda each: each.seconds, default=None)
        if best is None or default is None or best is default:
            return best
        return best if is_surely_faster(best.measured, default.measured) else default

    # Time and progress

    @property
    def _successes(self) -> list[Success]:
        return [each for each in self.known.values() if isinstance(each, Success)]

    @property
    def _best(self) -> Success | None:
        return min(self._successes, key=lambda each: each.seconds, default=None)

    def _show(self, stage: str) -> None:
        default = self.known.get(self.space.default)
        failed = sum(isinstance(each, FailedPlan) for each in self.known.values())
        self.tell(
            Progress(
                self.space.task, self.slice, stage, len(self.known), failed, self.space.sizes.after - len(self.known),
                None if self._best is None else self._best.seconds,
                default.seconds if isinstance(default, Success) else None, monotonic() - self.began,
                None if self.stop.seconds is None else self.time.left(),
            )
        )  # fmt: skip


def _told(outcome: Outcome) -> float | ToldFailure:
    return ToldFailure(str(outcome.reason)) if isinstance(outcome, Failed) else outcome.seconds
