"""Results of tuning: of a task on one slice, and of plans of several slices on each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf, prod
from typing import Any

from vkernels.inspect.task import Task

from .measure import Candidate, Failed, Measurement, Outcome, Setting
from .measure.measures import candidate_to_json, outcome_to_json
from .plan_space import PlanCounts, PlanSpace
from .rerank import is_surely_faster
from .space import Point, Value

MEASURED, MODELLED = "measured", "modelled"
STATIC_BOUND = "static bound"


@dataclass(frozen=True)
class Success:
    """A plan and its time; `trial`: its number, from 0; negative for earlier runs.

    `times`: of a finalist that was judged in several settings, in each of them; `measured` then follows from the mean
    of its ratios to the default.
    `loses_in`: settings in which it is slower than the default by more than the noise.
    """

    candidate: Candidate
    point: Point
    measured: Measurement
    trial: int = 0
    times: Mapping[Setting, Measurement] = field(default_factory=dict)
    loses_in: tuple[Setting, ...] = ()

    @property
    def seconds(self) -> float:
        return self.measured.seconds


@dataclass(frozen=True)
class FailedPlan:
    """A plan and why it has no time."""

    candidate: Candidate
    point: Point
    failed: Failed
    trial: int = 0


@dataclass(frozen=True)
class Moved:
    """A choice in which the best plan differs from the default.

    `factor`: slowdown of the best plan with the default's choice; None if unknown.
    """

    name: str
    default: Value
    best: Value
    factor: float | None = None


@dataclass(frozen=True)
class TuningResult:
    """The result for one task on one slice.

    `best`: the plan to run; `default`: the plan that runs without tuning, None if it has no time. If `final`, both were
    timed in turns. `device_wide`: the best plan of the whole device, timed together with them, if it is known and
    different. `successes`, `failures`: in the order of the trials. `counts`: plans before and after pruning. `origin`:
    `measured` or `modelled`. `stopped`: the limit that ended the search: `evaluations`, `seconds`, `patience`, `space`
    or `interrupted`. `moved`: the decisive choices, most important first. `seconds`: duration of tuning. `parameters`:
    number of values by parameter. `ranked_by`: `measured`, `modelled`, or `static bound`: what its seconds are.
    `caches`: `program`, `cold` or `warm`: the settings in which plans were judged.
    """

    task: Task
    slice: str
    best: Success | None
    default: Success | None
    successes: tuple[Success, ...]
    failures: tuple[FailedPlan, ...]
    counts: PlanCounts
    origin: str
    stopped: str
    search: str
    seed: int
    seconds: float
    final: bool = False
    device_wide: Success | None = None
    moved: tuple[Moved, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=dict)
    ranked_by: str = MEASURED
    caches: str = "cold"

    @property
    def gains(self) -> dict[Setting, float]:
        """Speed-up in each setting of the final comparison."""
        if self.best is None or self.default is None:
            return {}
        own, usual = self.best.times, self.default.times
        return {setting: usual[setting].seconds / each.seconds for setting, each in own.items() if setting in usual}

    @property
    def gain(self) -> float | None:
        """Speed-up of the best plan over the default one."""
        if self.best is None or self.default is None:
            return None
        return self.default.seconds / self.best.seconds

    @property
    def reasons(self) -> dict[str, int]:
        """Number of failures by reason, most frequent first."""
        return dict(Counter(str(failure.failed.reason) for failure in self.failures).most_common())

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object; docs/json.md documents the fields."""
        return {
            "task": self.task.to_json(),
            "slice": self.slice,
            "origin": self.origin,
            "ranked_by": self.ranked_by,
            "best": _success(self.best),
            "default": _success(self.default),
            "device_wide": _success(self.device_wide),
            "gain": self.gain,
            "caches": self.caches,
            "gains": {str(setting): gain for setting, gain in self.gains.items()},
            "final": self.final,
            "moved": [asdict(moved) for moved in self.moved],
            "tried": len(self.successes) + len(self.failures),
            "successes": [_success(each) for each in self.successes],
            "failures": [
                {**candidate_to_json(each.candidate), "reason": str(each.failed.reason), "text": each.failed.text,
                 "trial": each.trial}
                for each in self.failures
            ],
            "counts": asdict(self.counts),
            "parameters": dict(self.parameters),
            "stopped": self.stopped,
            "search": self.search,
            "seed": self.seed,
            "seconds": self.seconds,
        }  # fmt: skip


def _success(success: Success | None) -> dict[str, Any] | None:
    if success is None:
        return None
    return {**candidate_to_json(success.candidate), **asdict(success.measured), "trial": success.trial}


WORTHWHILE = 0.03
"""A slice deserves its own plan if that saves this fraction of the time."""


@dataclass(frozen=True)
class Row:
    """A plan, the slices that it was tuned for, and those that it is the default of."""

    candidate: Candidate
    tuned_for: tuple[str, ...]
    default_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in tables."""
        return ", ".join(self.tuned_for) or f"default of {', '.join(self.default_of)}"


@dataclass(frozen=True)
class Crossed:
    """The time of each plan on each slice. `outcomes`: by row, then by slice. `origins`: `measured` or `modelled`."""

    slices: tuple[str, ...]
    rows: tuple[Row, ...]
    outcomes: tuple[tuple[Outcome, ...], ...]
    origins: tuple[str, ...]

    def seconds(self, row: int, slice: int) -> float:
        """Seconds of a plan on a slice; infinite if it failed."""
        outcome = self.outcomes[row][slice]
        return outcome.seconds if isinstance(outcome, Measurement) else inf

    def best_on(self, slice: int) -> int | None:
        """The row of the least time; None if all failed."""
        row = min(range(len(self.rows)), key=lambda row: self.seconds(row, slice), default=None)
        return None if row is None or self.seconds(row, slice) == inf else row

    def part_of_best(self, row: int, slice: int) -> float:
        """The least time on a slice divided by this plan's: 1 is the best, 0 does not run there."""
        best = self.best_on(slice)
        return 0.0 if best is None else self.seconds(best, slice) / self.seconds(row, slice)

    def serving(self, slices: Sequence[int] | None = None) -> int | None:
        """The best common plan of these slices: the one with the highest worst `part_of_best`, then the highest mean.

        None if no plan runs on all.
        """
        among = range(len(self.slices)) if slices is None else slices

        def worth(row: int) -> tuple[float, float]:
            parts = [self.part_of_best(row, slice) for slice in among]
            worst = min(parts, default=0.0)
            mean = prod(parts) ** (1 / len(parts)) if parts else 0.0
            return round(worst, 3), mean

        row = max(range(len(self.rows)), key=worth, default=None)
        return None if row is None or worth(row)[0] <= 0 else row

    def deserving(self, worthwhile: float = WORTHWHILE) -> tuple[str, ...]:
        """The slices on which the best plan is surely faster than the common one, by more than this fraction."""
        serving = self.serving()
        return tuple(
            name for slice, name in enumerate(self.slices) if serving is None or self._wins(slice, serving, worthwhile)
        )

    def table(self) -> list[list[str]]:
        """Rows to print: "tuned for ↓ run on →", with fractions of the best, or reasons of failures."""
        head = [f"{name} ({origin})" if origin == MODELLED else name
                for name, origin in zip(self.slices, self.origins, strict=True)]  # fmt: skip
        rows = [["tuned for ↓ run on →", *head]]
        for number, (row, outcomes) in enumerate(zip(self.rows, self.outcomes, strict=True)):
            cells = [
                str(outcome.reason) if isinstance(outcome, Failed) else f"{self.part_of_best(number, slice):.2f}"
                for slice, outcome in enumerate(outcomes)
            ]
            rows.append([row.label, *cells])
        return rows

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        serving = self.serving()
        return {
            "slices": [{"slice": n, "origin": o} for n, o in zip(self.slices, self.origins, strict=True)],
            "rows": [
                {**candidate_to_json(row.candidate), "tuned_for": list(row.tuned_for),
                 "default_of": list(row.default_of), "outcomes": [outcome_to_json(each) for each in outcomes]}
                for row, outcomes in zip(self.rows, self.outcomes, strict=True)
            ],
            "serving": serving,
            "deserving": list(self.deserving()),
        }  # fmt: skip

    def _wins(self, slice: int, serving: int, worthwhile: float) -> bool:
        best = self.best_on(slice)
        if best is None or best == serving:
            return False
        own, other = self.outcomes[best][slice], self.outcomes[serving][slice]
        if not isinstance(own, Measurement) or not isinstance(other, Measurement):
            return isinstance(own, Measurement)
        apart = other.low > own.high or self.origins[slice] == MODELLED
        return apart and own.seconds < (1 - worthwhile) * other.seconds


Columns = Mapping[str, Sequence[Outcome]]
"""By slice, the outcome of each row's plan, all timed in turns."""


@dataclass(frozen=True)
class CrossSliceResult:
    """`results` and `rows`, after each slice got the fastest plan. `settled`: by slice, a new best plan and the old."""

    results: dict[str, TuningResult]
    rows: list[Row]
    settled: dict[str, tuple[Candidate, ...]]


def with_the_fastest(
    results: Mapping[str, TuningResult], rows: Sequence[Row], columns: Columns, spaces: Mapping[str, PlanSpace]
) -> CrossSliceResult:
    """Give each slice the fastest plan timed on it, if that is surely faster than its own."""
    found: dict[str, TuningResult] = dict(results)
    settled: dict[str, tuple[Candidate, ...]] = {}
    owner = {name: number for number, row in enumerate(rows) for name in row.tuned_for}
    for name, result in results.items():
        own, best = owner.get(name), _fastest(columns[name], owner.get(name))
        if best is None or best == own:
            continue
        was = () if own is None else (rows[own].candidate,)
        found[name] = _with(result, rows, columns[name], best, spaces[name])
        settled[name] = (rows[best].candidate, *was)
        owner[name] = best
    moved = [
        replace(row, tuned_for=tuple(name for name, number in owner.items() if number == at))
        for at, row in enumerate(rows)
    ]
    return CrossSliceResult(found, moved, settled)


def _fastest(column: Sequence[Outcome], own: int | None) -> int | None:
    timed = {number: outcome.seconds for number, outcome in enumerate(column) if isinstance(outcome, Measurement)}
    best = min(timed, key=lambda number: timed[number], default=None)
    found = None if best is None else column[best]
    if best is None or not isinstance(found, Measurement):
        return own
    mine = None if own is None else column[own]
    return best if not isinstance(mine, Measurement) or is_surely_faster(found, mine) else own


def _with(
    result: TuningResult, rows: Sequence[Row], column: Sequence[Outcome], best: int, space: PlanSpace
) -> TuningResult:
    candidate, measured = rows[best].candidate, column[best]
    assert isinstance(measured, Measurement), "it is the fastest"
    point = space.point(candidate.plan, candidate.constants)
    trial = len(result.successes) + len(result.failures)
    success = Success(candidate, () if point is None else point, measured, trial)
    default = result.default
    for row, outcome in zip(rows, column, strict=True):
        if default is not None and row.candidate == default.candidate and isinstance(outcome, Measurement):
            default = replace(default, measured=outcome)
    if default is not None and default.candidate == candidate:
        success = default
    return replace(result, best=success, default=default, moved=(), final=True)
