"""Run a tuned model and the untuned one in turns, and take back the plans of tasks that do not pay there.

A task is tuned by itself. In the model its kernel has neighbours, which share caches, memory and cores with it: only
the whole model's time says what a plan is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from .database.entry import PROGRAM
from .history import History
from .measure.timing import interval
from .model_tuning import EndToEnd, ModelResult
from .result import TuningResult
from .slice_names import slice_limits, slice_target

if TYPE_CHECKING:
    from .database.database import Database

ROUNDS, MAX_ROUNDS = 6, 12
"""Pairs of runs, of which six agree by chance one time in 32; and the most, while it is unsure which one is faster."""
LOOKS = 2
"""A task must seem not to pay in so many looks: of many tasks one does by chance."""

Run = Callable[[frozenset[int]], float]
"""Seconds of a run of the model in which these parts have their tuned plans, and all others their default ones."""


def in_turns(parts: Sequence[int], run: Run, may: Callable[[int], bool] = lambda runs: True) -> EndToEnd | None:
    """Compare the model with and without the tuned plans of these parts, and decide which of them to take back.

    First each part is left out in turn: its plan is taken back if the model is surely faster without it. Then the model
    with the plans that are left is compared with the untuned one; if it is not faster, all are taken back. `may`:
    whether there is time for so many more runs. None if there is nothing to compare, or no time.
    """
    every = frozenset(parts)
    if not every or not may(2 * ROUNDS):
        return None
    lost = _not_paying(every, run, lambda runs: may(runs + 2 * ROUNDS)) if len(every) > 1 else frozenset()
    kept = every - lost
    untuned: list[float] = []
    tuned: list[float] = []
    while len(tuned) < MAX_ROUNDS and (len(tuned) < ROUNDS or (_is_unsure(untuned, tuned) and may(2))):
        without, with_plans = _pair(run, frozenset(), kept, len(tuned))
        untuned.append(without)
        tuned.append(with_plans)
    ratios = [one / other for one, other in zip(untuned, tuned, strict=True)]
    gain, (low, high) = median(ratios), interval(ratios)
    taken_back = lost if gain >= 1 else every
    return EndToEnd(median(untuned), median(tuned), gain, low, high, len(ratios), tuple(sorted(taken_back)))


def _not_paying(every: frozenset[int], run: Run, may: Callable[[int], bool]) -> frozenset[int]:
    suspects = sorted(every)
    for _ in range(LOOKS):
        if not suspects or not may(2 * ROUNDS * len(suspects)):
            return frozenset()
        ratios: dict[int, list[float]] = {part: [] for part in suspects}
        for number in range(ROUNDS):
            for part in suspects:
                without, with_all = _pair(run, every - {part}, every, number)
                ratios[part].append(without / with_all)
        suspects = [part for part, each in ratios.items() if interval(each)[1] < 1]
    return frozenset(suspects)


def _pair(run: Run, one: frozenset[int], other: frozenset[int], number: int) -> tuple[float, float]:
    """Seconds of both, one after the other; every other pair begins with the other."""
    if number % 2:
        second = run(other)
        return run(one), second
    first = run(one)
    return first, run(other)


def _is_unsure(untuned: Sequence[float], tuned: Sequence[float]) -> bool:
    low, high = interval([one / other for one, other in zip(untuned, tuned, strict=True)])
    return low <= 1 <= high


def tuned_parts(found: ModelResult, slice: str) -> list[int]:
    """Parts whose best plan on a slice is not the default one."""
    return [number for number, results in found.results.items() if _changed(results.get(slice))]


def _changed(result: TuningResult | None) -> bool:
    if result is None or result.best is None or result.default is None:
        return False
    return result.best.candidate.key != result.default.candidate.key


@dataclass
class PlanDatabases:
    """Databases in a folder that hold the tuned plans of some parts of a model, for one slice."""

    folder: Path
    found: ModelResult
    slice: str
    _made: dict[frozenset[int], str] = field(default_factory=dict)

    def of(self, parts: frozenset[int]) -> str | None:
        """The path of a database with the best plans of these parts; None without any."""
        if not parts:
            return None
        if parts not in self._made:
            from .database.database import Database

            path = str(self.folder / f"{self.slice.replace(':', '-')}-{len(self._made)}.sqlite")
            with Database.open(path, temporary=True) as database:
                for part in parts:
                    best = self.found.results[part][self.slice].best
                    assert best is not None, "it is one of `tuned_parts`"
                    _history(database, self.found, part, self.slice).add(
                        best.candidate, best.measured, best.trial, final=True
                    )
            self._made[parts] = path
        return self._made[parts]


def with_end_to_end(
    found: ModelResult, ends: Mapping[str, EndToEnd], database: Database | None, caches: str = PROGRAM
) -> ModelResult:
    """The result without the plans that were taken back, in a database as well: calls use the default plans again."""
    results = {number: dict(each) for number, each in found.results.items()}
    for slice, end in ends.items():
        for part in end.taken_back:
            result = results[part][slice]
            if result.best is None or result.default is None:
                continue
            history = _history(database, found, part, slice, caches)
            history.withdraw(result.best.candidate)
            default = result.default
            history.add(default.candidate, default.measured, default.trial, final=True, default=True)
            results[part][slice] = replace(result, best=default, moved=())
    return replace(found, results=results, end_to_end=dict(ends))


def _history(
    database: Database | None, found: ModelResult, part: int, slice: str, caches: str = PROGRAM
) -> History:  # fmt: skip
    task = found.model.parts[part].task
    return History(database, task, slice_limits(slice), slice_target(slice), slice, caches)
