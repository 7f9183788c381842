"""Where the plan that was tuned for one slice turns out the fastest on another, it is taken there too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .crossed import Row
from .measure import Candidate, Measurement, Outcome
from .plan_space import PlanSpace
from .rerank import is_surely_faster
from .result import Success, TuningResult

Columns = Mapping[str, Sequence[Outcome]]
"""By slice, what the plan of each row took on it, all timed in turns."""


@dataclass(frozen=True)
class CrossSliceResult:
    """`results`: of each slice, its best plan the fastest of all rows, which say whose they are now. `settled`: by
    slice, what its best plan is and was, of the slices where that changed."""

    results: dict[str, TuningResult]
    rows: list[Row]
    settled: dict[str, tuple[Candidate, ...]]


def with_the_fastest(
    results: Mapping[str, TuningResult], rows: Sequence[Row], columns: Columns, spaces: Mapping[str, PlanSpace]
) -> CrossSliceResult:
    """Let each slice have the fastest of all plans that were timed on it, if that is surely faster than its own."""
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
    """The row of the least time; `own` unless that is surely slower. None where none has a time."""
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
    """A result with another best plan, and the default as it was timed beside that."""
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
