"""Plans tuned for some slices, run on each: which one serves all, which slices deserve their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, prod
from typing import Any

from .measure import Candidate, Failed, Measurement, Outcome
from .measure.outcomes import candidate_to_json, outcome_to_json

WORTHWHILE = 0.03
"""Part of the time that a plan of its own must win for a slice to deserve it."""
MODELLED = "modelled"


@dataclass(frozen=True)
class Row:
    """A plan, and the slices that it was tuned for; none of one that nobody tuned, which is the `default` of `of`."""

    candidate: Candidate
    tuned_for: tuple[str, ...]
    default_of: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What to call it in a table."""
        return ", ".join(self.tuned_for) or f"default of {', '.join(self.default_of)}"


@dataclass(frozen=True)
class Crossed:
    """What each plan takes on each slice. `outcomes`: by row, then by slice. `origins`: of each slice's times,
    `measured` in turns, or `modelled`."""

    slices: tuple[str, ...]
    rows: tuple[Row, ...]
    outcomes: tuple[tuple[Outcome, ...], ...]
    origins: tuple[str, ...]

    def seconds(self, row: int, slice: int) -> float:
        """Infinite where the plan has no time."""
        outcome = self.outcomes[row][slice]
        return outcome.seconds if isinstance(outcome, Measurement) else inf

    def best_on(self, slice: int) -> int | None:
        """The row of the least time; None where no plan has one."""
        row = min(range(len(self.rows)), key=lambda row: self.seconds(row, slice), default=None)
        return None if row is None or self.seconds(row, slice) == inf else row

    def part_of_best(self, row: int, slice: int) -> float:
        """The least time on a slice over this plan's: 1 is the best, 0 does not run there."""
        best = self.best_on(slice)
        return 0.0 if best is None else self.seconds(best, slice) / self.seconds(row, slice)

    def serving(self, slices: Sequence[int] | None = None) -> int | None:
        """The one plan that serves all these slices best: whose worst part of the best is the highest, and of equals
        the one with the highest mean. None where none runs on all."""
        among = range(len(self.slices)) if slices is None else slices

        def worth(row: int) -> tuple[float, float]:
            parts = [self.part_of_best(row, slice) for slice in among]
            worst = min(parts, default=0.0)
            mean = prod(parts) ** (1 / len(parts)) if parts else 0.0
            return round(worst, 3), mean

        row = max(range(len(self.rows)), key=worth, default=None)
        return None if row is None or worth(row)[0] <= 0 else row

    def deserving(self, worthwhile: float = WORTHWHILE) -> tuple[str, ...]:
        """The slices on which their own best plan is faster than the one that serves all, by more than this part and
        than the intervals leave open."""
        serving = self.serving()
        return tuple(
            name for slice, name in enumerate(self.slices) if serving is None or self._wins(slice, serving, worthwhile)
        )

    def off_diagonal(self) -> float:
        """How much is lost, in the geometric mean, by running plans that were tuned for other slices: the part of the
        time that they take too long. Plans that do not run are left out."""
        losses = [
            -log(self.part_of_best(row, slice))
            for row, each in enumerate(self.rows)
            for slice, name in enumerate(self.slices)
            if each.tuned_for and name not in each.tuned_for and self.seconds(row, slice) < inf
        ]
        return 1 - 2.718281828459045 ** (-sum(losses) / len(losses)) if losses else 0.0

    def table(self) -> list[list[str]]:
        """Rows to print: "tuned for ↓ run on →", parts of the best, and why where there is none."""
        head = [f"{name} ({origin})" if origin == MODELLED else name
                for name, origin in zip(self.slices, self.origins, strict=True)]  # fmt: skip
        rows = [["tuned for ↓ run on →", *head]]
        for number, row in enumerate(self.rows):
            rows.append([row.label, *(self._cell(number, slice) for slice in range(len(self.slices)))])
        return rows

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold."""
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

    def _cell(self, row: int, slice: int) -> str:
        outcome = self.outcomes[row][slice]
        if isinstance(outcome, Failed):
            return str(outcome.reason)
        return f"{self.part_of_best(row, slice):.2f}"
