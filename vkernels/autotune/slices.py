"""Tunes a task for several slices of a device at once, and runs what was found on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.budget import within
from vkernels.ir.errors import Error, OptionError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.judge_plan import why_refused
from vkernels.ir.planning.space import read_space
from vkernels.ir.system_resources import ThreadPool

from .arguments import built
from .benches import DEFAULT_OPTIONS, Benches, Counted, MakeBench
from .cross_slice_transfer import CrossSliceResult, with_the_fastest
from .crossed import MODELLED, Crossed, Row
from .drive import Stop
from .history import History
from .limits import slice_limits, slice_target
from .measure import Bench, BenchOptions, Candidate, Failed, FailureReason, Measurement, Outcome
from .measure.cpu_affinity import is_here
from .plan_space import MAX_POINTS, PlanSpace, read
from .rerank import rerank
from .result import MEASURED, TuningResult
from .tune import tune

if TYPE_CHECKING:
    from .database.database import Database

MINUTE = Stop(seconds=60.0)
Tune = Callable[..., TuningResult]
"""What tunes one slice: `tune`, or what stands for it."""


@dataclass(frozen=True)
class SlicesResult:
    """`results`: of each slice that is here. `crossed`: every slice's best plan and default on every slice. `counted`:
    how much slices had in common; `seconds`: of wall time; `spent`: of all workers, by what they spent them on."""

    task: Task
    results: Mapping[str, TuningResult]
    crossed: Crossed
    counted: Counted
    seconds: float
    spent: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold."""
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
    """Tune a task for each slice, all at once, and time in turns on each what was found for any: the fastest there is
    that slice's best.

    Slices of this machine's CPU are measured, on cores of their own as far as there are any, and what was measured on
    some cores serves all slices of as many. Slices of devices that are not here come from the table: their best plan is
    the model's, and so are their times, labelled `modelled`. `stop`: of each slice; `make`: makes benches; `more`: what
    `tune` takes beside. An interrupt ends all searches; what was found is returned.

    Raises `OptionError` for slices that there are not or that stand twice, and what is wrong with the task.
    """
    if not slices or len(set(slices)) != len(slices):
        raise OptionError(f"slices: expected different ones, got {', '.join(slices) or 'none'}")
    began = monotonic()
    limits = {name: slice_limits(name) for name in slices}
    here = [name for name in slices if is_here(name)]
    with Benches(task, here, options, make) as benches:
        spaces = read_meanwhile(benches, limits)
        results = at_once(
            benches, lambda name: tune(task, name, stop, bench=benches.on(name), space=spaces[name], **more)
        )
        rows = _rows(results, {name: spaces[name] for name in slices if name not in here})
        measured = {name: _measured_on(benches, name, rows, limits[name]) for name in here}
        spent = benches.spent
        counted = benches.counted
    taken = with_the_fastest(results, rows, measured, spaces)
    _remember(more.get("database"), task, limits, taken, measured)
    columns = measured | {name: _modelled_on(spaces[name], rows) for name in slices if name not in here}
    shown = [number for number, row in enumerate(taken.rows) if row.tuned_for or row.default_of]
    outcomes = tuple(tuple(columns[name][number] for name in slices) for number in shown)
    origins = tuple(MEASURED if name in here else MODELLED for name in slices)
    crossed = Crossed(tuple(slices), tuple(taken.rows[number] for number in shown), outcomes, origins)
    return SlicesResult(task, taken.results, crossed, counted, monotonic() - began, spent)


def read_meanwhile(
    benches: Benches, limits: Mapping[str, Limits], most: int = MAX_POINTS
) -> dict[str, PlanSpace]:  # fmt: skip
    """The space of each slice, of so many plans at most, read while the workers start, which takes as long."""
    with ThreadPool(1) as pool:
        starting = pool.submit(benches.start)
        spaces: dict[str, PlanSpace] = {}
        for name, each in limits.items():
            with benches.reading():
                spaces[name] = read(benches.task, each, most)
        starting.result()
    return spaces


def at_once(benches: Benches, work: Callable[[str], TuningResult]) -> dict[str, TuningResult]:
    """Each slice's work in a thread of its own; an interrupt is passed on to all. Raises what the first that failed
    raised."""
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
    """Best plans and defaults of all slices, each once."""
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


def _measured_on(benches: Benches, name: str, rows: Sequence[Row], limits: Limits) -> list[Outcome]:
    """All plans that fit a slice, timed in turns on it while nobody else measures."""
    bench = benches.on(name)
    outcomes: list[Outcome | None] = [
        None if name in (*row.tuned_for, *row.default_of) else _refused(bench.task, row.candidate, limits)
        for row in rows
    ]
    fitting = [number for number, outcome in enumerate(outcomes) if outcome is None]
    if fitting and not benches.interrupted:
        mine = [number for number in fitting if name in rows[number].tuned_for]
        candidates, fights = [rows[number].candidate for number in fitting], count()

        def paired_comparison(rivals: Sequence[int]) -> Sequence[Outcome]:
            if next(fights) % 2:
                bench.renew_inputs()
            return bench.paired_comparison([candidates[each] for each in rivals], alone=True)

        base = fitting.index(mine[0]) if mine else 0
        found = rerank(paired_comparison, len(candidates), base, lambda fought, more: not benches.interrupted)
        for number, outcome in zip(fitting, found, strict=True):
            outcomes[number] = outcome
    return [outcome or Failed(FailureReason.REFUSED, "it was not measured") for outcome in outcomes]


def _remember(
    database: Database | None, task: Task, limits: Mapping[str, Limits], taken: CrossSliceResult,
    columns: Mapping[str, Sequence[Outcome]],
) -> None:  # fmt: skip
    """Have the database know what plans tuned for other slices take on each, and which of them is taken there."""
    for name, outcomes in columns.items():
        history = History(database, task, limits[name], slice_target(name), name)
        settled = taken.settled.get(name, ())
        for number, (row, outcome) in enumerate(zip(taken.rows, outcomes, strict=True)):
            final = row.candidate in settled
            if isinstance(outcome, Measurement) and (final or name not in row.tuned_for):
                history.add(row.candidate, outcome, number, final=final, default=name in row.default_of)


def _refused(task: Task, candidate: Candidate, limits: Limits) -> Failed | None:
    """Why a plan is none for a slice, as it would be none from a database; None where it is one, or nobody can tell."""
    asked = Task(task.kernel, task.shape, task.dtypes, {**task.constants, **candidate.constants})
    kernel = kernel_of(asked)
    try:
        space = read_space(built(asked), task.shape, within(limits, kernel.budget), None, strides_of(asked), kernel.pin)
    except Error:
        return None
    problem = why_refused(space, candidate.plan)
    return None if problem is None else Failed(FailureReason.DOES_NOT_FIT, problem)


def _modelled_on(space: PlanSpace, rows: Sequence[Row]) -> list[Outcome]:
    """What the model says of plans on a slice that is not here; those that are none of its plans do not fit."""
    outcomes: list[Outcome] = []
    for row in rows:
        point = space.point(row.candidate.plan, row.candidate.constants)
        if point is None:
            outcomes.append(Failed(FailureReason.DOES_NOT_FIT, "it is none of the plans that fit there"))
        else:
            seconds = space.seconds(point)
            outcomes.append(Measurement(seconds, seconds, seconds, 0))
    return outcomes
