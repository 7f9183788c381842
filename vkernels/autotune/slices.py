"""Tune a task for several slices of a device at once, and run the plans of each on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from vkernels.compiler.tuned_plans import PlanQuery, why_unfit
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.budget import within
from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits
from vkernels.ir.system_resources import ThreadPool

from .arguments import built
from .benches import DEFAULT_OPTIONS, Benches, Counted, MakeBench
from .database.entry import PROGRAM
from .drive import Stop, TimeBudget, end_of
from .history import History
from .measure import (
    Bench,
    BenchOptions,
    BySetting,
    Candidate,
    Failed,
    FailureReason,
    Measurement,
    Outcome,
    OutOfTimeError,
)
from .plan_space import PlanSpace, enough_points, read
from .result import MEASURED, MODELLED, Crossed, CrossSliceResult, Row, TuningResult, with_the_fastest
from .settings import judge, judging_of
from .slice_names import is_here, slice_limits, slice_target
from .tune import MINUTE, history_of, tune

if TYPE_CHECKING:
    from .database.database import Database

Tune = Callable[..., TuningResult]
CROSS_PART = 0.2
"""Share of the seconds for running each slice's best plan on the others."""


@dataclass(frozen=True)
class SlicesResult:
    """Results of several slices.

    `results`: of each present slice. `crossed`: every slice's best plan and default on every slice. `counted`: numbers
    of proposed and measured candidates. `seconds`: wall time; `spent`: seconds of all workers, by activity.
    """

    task: Task
    results: Mapping[str, TuningResult]
    crossed: Crossed
    counted: Counted
    seconds: float
    spent: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "task": self.task.to_json(),
            "results": {name: result.to_json() for name, result in self.results.items()},
            "crossed": self.crossed.to_json(),
            "asked": self.counted.asked,
            "measured": self.counted.measured,
            "seconds": self.seconds,
            "spent": dict(self.spent),
        }


def tune_slices(
    task: Task,
    slices: Sequence[str],
    stop: Stop = MINUTE,
    options: BenchOptions = DEFAULT_OPTIONS,
    tune: Tune = tune,
    make: MakeBench = Bench,
    **more: Any,
) -> SlicesResult:
    """Tune a task for several slices at once; then time the plans of all on each slice, which gets the fastest.

    Slices of this machine's CPU are measured, on separate cores as far as possible; slices with equally many cores
    share measurements. Plans and times of absent devices are modelled, and labelled so. `stop.seconds`: for everything,
    as all slices are tuned at once; its other limits are for each slice. `make`: makes benches; `more`: further
    arguments of `tune`. An interrupt ends all searches, and the results so far are returned.

    Raises `OptionError` for unknown or duplicate slices, and what is wrong with the task.
    """
    if not slices or len(set(slices)) != len(slices):
        raise OptionError(f"slices: expected different ones, got {', '.join(slices) or 'none'}")
    began = monotonic()
    limits = {name: slice_limits(name) for name in slices}
    here = [name for name in slices if is_here(name)]
    with Benches(task, here, replace(options, until=end_of(stop)), make) as benches:
        histories = {name: history_of(task, name, more.get("database"), more.get("caches", PROGRAM)) for name in slices}
        spaces = read_meanwhile(benches, limits, enough_points(stop), histories)
        budget = TimeBudget(stop, began, monotonic)
        crossing = CROSS_PART * stop.seconds if stop.seconds is not None and len(here) > 1 else 0.0
        each = stop.after(monotonic() - began + crossing)
        results = at_once(
            benches, lambda name: tune(task, name, each, bench=benches.on(name), space=spaces[name], **more)
        )
        rows = _rows(results, {name: spaces[name] for name in slices if name not in here})
        caches = more.get("caches", PROGRAM)
        measured = {
            name: _measured_on(benches, name, rows, limits[name], caches, results[name], budget.share(len(here) - at))
            for at, name in enumerate(here)
        }
        spent = benches.spent
        counted = benches.counted
    taken = with_the_fastest(results, rows, measured, spaces)
    _remember(more.get("database"), task, limits, taken, measured, caches)
    columns = measured | {name: _modelled_on(spaces[name], rows) for name in slices if name not in here}
    shown = [number for number, row in enumerate(taken.rows) if row.tuned_for or row.default_of]
    outcomes = tuple(tuple(columns[name][number] for name in slices) for number in shown)
    origins = tuple(MEASURED if name in here else MODELLED for name in slices)
    crossed = Crossed(tuple(slices), tuple(taken.rows[number] for number in shown), outcomes, origins)
    return SlicesResult(task, taken.results, crossed, counted, monotonic() - began, spent)


def read_meanwhile(
    benches: Benches, limits: Mapping[str, Limits], most: int, histories: Mapping[str, History]
) -> dict[str, PlanSpace]:  # fmt: skip
    """Read the space of each slice while the workers start, which takes as long: at most so many plans, and the best of
    its history."""
    with ThreadPool(1) as pool:
        starting = pool.submit(benches.start)
        spaces: dict[str, PlanSpace] = {}
        for name, each in limits.items():
            with benches.reading():
                spaces[name] = read(benches.task, each, most, histories[name].best_plans)
        starting.result()
    return spaces


def at_once(benches: Benches, work: Callable[[str], TuningResult]) -> dict[str, TuningResult]:
    """Run `work` for each slice in its own thread. An interrupt is passed on to all. Raises the first error."""
    if not benches.slices:
        return {}
    with ThreadPool(len(benches.slices)) as pool, benches.at_work() as has_ended:

        def one(name: str) -> TuningResult:
            try:
                return work(name)
            finally:
                has_ended(name)

        futures = {name: pool.submit(one, name) for name in benches.slices}
        try:
            wait(futures.values(), return_when="FIRST_EXCEPTION")
        except KeyboardInterrupt:
            benches.interrupt()
        if any(future.done() and future.exception() is not None for future in futures.values()):
            benches.interrupt()
        wait(futures.values())
    return {name: future.result() for name, future in futures.items()}


def _rows(results: Mapping[str, TuningResult], spaces: Mapping[str, PlanSpace]) -> list[Row]:
    found: list[tuple[Candidate, str, bool]] = []
    for name, result in results.items():
        found += [(each.candidate, name, tuned)
                  for each, tuned in ((result.best, True), (result.default, False)) if each is not None]  # fmt: skip
    for name, space in spaces.items():
        best = min(space.space, key=space.seconds)
        found += [(Candidate(space.plan(point), space.constants(point)), name, tuned)
                  for point, tuned in ((best, True), (space.default, False))]  # fmt: skip
    rows: list[Row] = []
    for candidate, _, _ in sorted(found, key=lambda each: not each[2]):
        if all(row.candidate != candidate for row in rows):
            mine = [(name, tuned) for other, name, tuned in found if other == candidate]
            rows.append(Row(candidate, tuple(n for n, tuned in mine if tuned), tuple(n for n, t in mine if not t)))
    return rows


def _measured_on(
    benches: Benches, name: str, rows: Sequence[Row], limits: Limits, caches: str, result: TuningResult,
    has_time: Callable[[float], bool],
) -> list[Outcome]:  # fmt: skip
    """Outcomes of all rows on a slice. `has_time`: whether there are so many seconds for further comparisons."""
    bench = benches.on(name)
    outcomes: list[Outcome | None] = [
        None if name in (*row.tuned_for, *row.default_of) else _refused(bench.task, row.candidate, limits)
        for row in rows
    ]
    fitting = [number for number, outcome in enumerate(outcomes) if outcome is None]
    if len(fitting) == 1 and name in rows[fitting[0]].tuned_for and result.best is not None:
        outcomes[fitting[0]] = result.best.measured  # there is nothing to compare it with
    elif fitting and not benches.interrupted:
        mine = [number for number in fitting if name in rows[number].tuned_for]
        candidates, comparisons = [rows[number].candidate for number in fitting], count()
        began = monotonic()
        settings = judging_of(caches).finals

        def compare(rivals: Sequence[int]) -> Sequence[BySetting]:
            if next(comparisons) % 2:
                bench.renew_inputs()
            return bench.compare_in(settings, [candidates[each] for each in rivals], alone=True)

        base = fitting.index(mine[0]) if mine else 0
        usual = result.best.seconds if mine and result.best is not None else 0.0

        def may(compared: int, more: int) -> bool:
            return not benches.interrupted and has_time((monotonic() - began) / compared * more)

        with suppress(OutOfTimeError):
            found = judge(settings, compare, len(candidates), base, may, usual=usual)
            for number, judged in zip(fitting, found, strict=True):
                outcomes[number] = judged.outcome
    return [outcome or Failed(FailureReason.REFUSED, "it was not measured") for outcome in outcomes]


def _remember(
    database: Database | None, task: Task, limits: Mapping[str, Limits], taken: CrossSliceResult,
    columns: Mapping[str, Sequence[Outcome]], caches: str,
) -> None:  # fmt: skip
    for name, outcomes in columns.items():
        history = History(database, task, limits[name], slice_target(name), name, caches)
        settled = taken.settled.get(name, ())
        for number, (row, outcome) in enumerate(zip(taken.rows, outcomes, strict=True)):
            final = row.candidate in settled
            if isinstance(outcome, Measurement) and (final or name not in row.tuned_for):
                history.add(row.candidate, outcome, number, final=final, default=name in row.default_of)


def _refused(task: Task, candidate: Candidate, limits: Limits) -> Failed | None:
    """Why calls on a slice would refuse a plan from a database; None if they would take it."""
    asked = Task(task.kernel, task.shape, task.dtypes, {**task.constants, **candidate.constants})
    kernel = kernel_of(asked)
    query = PlanQuery(built(asked), task.shape, task.dtypes, within(limits, kernel.budget), strides_of(asked))
    problem = why_unfit(kernel, query, candidate.plan)
    return None if problem is None else Failed(FailureReason.DOES_NOT_FIT, problem)


def _modelled_on(space: PlanSpace, rows: Sequence[Row]) -> list[Outcome]:
    points = [space.point(row.candidate.plan, row.candidate.constants) for row in rows]
    return [
        Failed(FailureReason.DOES_NOT_FIT, "it is none of the plans that fit there")
        if point is None
        else Measurement(space.seconds(point), space.seconds(point), space.seconds(point), 0)
        for point in points
    ]
