"""What tuning found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vkernels.inspect.task import Task
from vkernels.ir.plan_json import plan_to_json

from .measure import Candidate, Constant, Failed, Measurement
from .plan_space import PlanCounts
from .space import Point, Value

MEASURED, MODELLED = "measured", "modelled"
"""Where a result's times come from."""


@dataclass(frozen=True)
class Success:
    """A plan and its time; `trial`: which one it was, from 0; those known before tuning began have negative numbers."""

    candidate: Candidate
    point: Point
    measured: Measurement
    trial: int = 0

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
    """A choice in which the best plan differs from the default one. `factor`: how many times as long the best plan
    takes with the default's choice in place of its own; None where that could not be told."""

    name: str
    default: Value
    best: Value
    factor: float | None = None


@dataclass(frozen=True)
class TuningResult:
    """`best`: what to run; `default`: what runs without tuning, None where it has no time. Both were timed in turns
    where `final`. `device_wide`: what is best on the whole device, timed beside them, where that is known and another.

    `successes`, `failures`: in the order in which they were tried. `counts`: plans before and after pruning. `origin`:
    `measured` or `modelled`. `stopped`: by what: `evaluations`, `seconds`, `patience`, `space`, `interrupted`.
    `moved`: which choices made the difference, most first. `seconds`: that tuning took.
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

    @property
    def gain(self) -> float | None:
        """How many times faster the best plan is than the default one."""
        if self.best is None or self.default is None:
            return None
        return self.default.seconds / self.best.seconds

    @property
    def reasons(self) -> dict[str, int]:
        """How many failed for which reason, most first."""
        return dict(Counter(str(failure.failed.reason) for failure in self.failures).most_common())

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold: docs/json.md has the fields."""
        return {
            "task": self.task.to_json(),
            "slice": self.slice,
            "origin": self.origin,
            "best": _success(self.best),
            "default": _success(self.default),
            "device_wide": _success(self.device_wide),
            "gain": self.gain,
            "final": self.final,
            "moved": [asdict(moved) for moved in self.moved],
            "tried": len(self.successes) + len(self.failures),
            "successes": [_success(each) for each in self.successes],
            "failures": [
                {**_candidate(each.candidate), "reason": str(each.failed.reason), "text": each.failed.text,
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
    return {**_candidate(success.candidate), **asdict(success.measured), "trial": success.trial}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    constants: Mapping[str, Constant] = candidate.constants
    return {"plan": plan_to_json(candidate.plan), "constants": dict(constants)}
