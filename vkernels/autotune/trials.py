"""Trials of tuning as users see them, what is minimised, and a bench that tells of each trial."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from threading import Lock
from typing import Any

from vkernels.compiler.protocols import Constant
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json

from .measure import BySetting, Candidate, Effort, Failed, Measurement, Measures, Outcome, Setting
from .measure.measures import CANDIDATE_SECONDS
from .plan_space import PlanSpace
from .result import FailedPlan, Success, TuningResult
from .space import Value

REPEATS = 3
"""How often a user's objective is asked for a finalist: its spread is not known otherwise."""
TAIL_CALLS = 100
"""Calls that are timed one by one, at least, for their 99th percentile."""


@dataclass(frozen=True)
class Trial:
    """One plan that was tried.

    `number`: from 0, in the order of the trials. `choices`: the plan by the tuner's decisions. `seconds`: of a call,
    the median, with an interval from `low` to `high`; `p99`: the 99th percentile; None after a failure. `memory`: bytes
    that a call needs, its tensors included; None if unknown. `value`: what is minimised. `failure`: why there is no
    time, with details in `text`; empty otherwise. `earlier`: it is of an earlier run. `run`: for objectives: calls the
    kernel with this plan, in this process; None for a kernel that a function calls.
    """

    number: int
    plan: Plan
    constants: Mapping[str, Constant]
    choices: Mapping[str, Value]
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    p99: float | None = None
    memory: int | None = None
    value: float | None = None
    failure: str = ""
    text: str = ""
    earlier: bool = False
    run: Callable[[], object] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The trial as numbers and texts: a column for each decision."""
        names = ("number", "seconds", "low", "high", "p99", "memory", "value", "failure", "earlier")
        return {**{name: getattr(self, name) for name in names}, **self.choices, "plan": plan_to_json(self.plan),
                **{f"constant {name}": value for name, value in self.constants.items()}}  # fmt: skip


def trial_of(
    number: int, candidate: Candidate, outcome: Outcome, space: PlanSpace, value: float | None = None, **more: Any
) -> Trial:
    """The trial of a candidate. `value`: None for the seconds."""
    point = space.point(candidate.plan, candidate.constants or None)
    choices = {} if point is None else space.space.named(point)
    made = Trial(number, candidate.plan, dict(candidate.constants), choices, **more)
    if isinstance(outcome, Failed):
        return replace(made, failure=str(outcome.reason), text=outcome.text)
    return replace(
        made, seconds=outcome.seconds, low=outcome.low, high=outcome.high, p99=outcome.p99, memory=outcome.memory,
        value=outcome.seconds if value is None else value,
    )  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """What tuning minimises. `of`: a positive number for a trial with a time."""

    name: str
    of: Callable[[Trial], float | None]

    @property
    def is_time(self) -> bool:
        return self.name == TIME

    def value(self, trial: Trial) -> float:
        """The value of a trial. Raises `OptionError` if it is no positive number, or a user's function fails."""
        try:
            found = self.of(trial)
            value = float("nan") if found is None else float(found)
        except Exception as error:
            raise OptionError(f"objective {self.name}: {type(error).__name__}: {error}") from error
        if not isfinite(value) or value <= 0:
            raise OptionError(f"objective {self.name}: expected a positive number, got {found!r}")
        return value

    def interval(self, trial: Trial, repeats: int) -> tuple[float, float, float]:
        """The least, the median and the greatest value. A percentile is as uncertain as the median, at least; a user's
        function is called `repeats` times."""
        if self.name == P99 and trial.seconds and trial.low and trial.high:
            value = self.value(trial)
            return value * trial.low / trial.seconds, value, value * trial.high / trial.seconds
        values = sorted(self.value(trial) for _ in range(1 if self.name in OBJECTIVES else repeats))
        return values[0], values[len(values) // 2], values[-1]

    def effort(self, usual: Effort) -> Effort:
        """How candidates are timed: other values than the median time do not follow from a few samples."""
        if self.is_time:
            return usual
        careful = replace(usual, hopeless=float("inf"), behind=float("inf"))
        return replace(careful, sample_seconds=0.0, least=TAIL_CALLS) if self.name == P99 else careful


TIME, P99, MEMORY = "time", "p99", "memory"
OBJECTIVES: Mapping[str, Callable[[Trial], float | None]] = {
    TIME: lambda trial: trial.seconds, P99: lambda trial: trial.p99, MEMORY: lambda trial: trial.memory,
}  # fmt: skip


def objective_from(given: object) -> Objective:
    """An objective by name, or a function of a trial. Raises `OptionError` for anything else."""
    if callable(given):
        return Objective(str(getattr(given, "__name__", "objective")), given)
    if not isinstance(given, str) or given not in OBJECTIVES:
        hint = did_you_mean(given, list(OBJECTIVES)) if isinstance(given, str) else "expected a name or a function"
        raise OptionError(f"objective: there is no {given!r}; {hint}")
    return Objective(given, OBJECTIVES[given])


@dataclass
class ObservedBench(Measures):
    """A bench whose outcomes are an objective's values in place of seconds, and which tells of each trial.

    `tell`: gets each trial. `measured`: by candidate, what was measured. `run_of`: how to call the kernel with a
    candidate, for objectives.
    """

    inner: Measures
    space: PlanSpace
    objective: Objective
    tell: Callable[[Trial], object]
    run_of: Callable[[Candidate], Callable[[], object] | None]
    measured: dict[Hashable, Outcome] = field(default_factory=dict)
    count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def measure(
        self, candidate: Candidate, timeout: float = CANDIDATE_SECONDS, *, setting: Setting = Setting.COLD
    ) -> Outcome:  # fmt: skip
        outcome = self._judged(candidate, self.inner.measure(candidate, timeout, setting=setting))
        self._note(candidate, outcome)
        return outcome

    def paired_comparison(
        self, candidates: Sequence[Candidate], *, setting: Setting = Setting.COLD
    ) -> list[Outcome]:  # fmt: skip
        found = self.inner.paired_comparison(candidates, setting=setting)
        return [self._judged(*each, keep=False) for each in zip(candidates, found, strict=True)]

    def compare_in(self, settings: Sequence[Setting], candidates: Sequence[Candidate]) -> list[BySetting]:
        found = self.inner.compare_in(settings, candidates)
        return [
            {setting: self._judged(candidate, outcome, keep=False) for setting, outcome in each.items()}
            for candidate, each in zip(candidates, found, strict=True)
        ]

    @property
    def at_once(self) -> int:
        return self.inner.at_once

    def prepare(self, candidates: Sequence[Candidate], timeout: float = CANDIDATE_SECONDS) -> list[Failed | None]:
        found = self.inner.prepare(candidates, timeout)
        for candidate, failed in zip(candidates, found, strict=True):
            if failed is not None:
                self._note(candidate, self._judged(candidate, failed))
        return found

    def shared_outcomes(self) -> list[tuple[Candidate, Outcome]]:
        shared = self.inner.shared_outcomes()
        new = [(candidate, outcome) for candidate, outcome in shared if candidate.key not in self.measured]
        found = [(candidate, self._judged(candidate, outcome)) for candidate, outcome in new]
        for candidate, outcome in found:
            self._note(candidate, outcome)
        return found

    def renew_inputs(self) -> None:
        self.inner.renew_inputs()

    def _judged(self, candidate: Candidate, outcome: Outcome, keep: bool = True) -> Outcome:
        if keep:
            self.measured[candidate.key] = outcome
        if isinstance(outcome, Failed) or self.objective.is_time:
            return outcome
        trial = trial_of(self.count, candidate, outcome, self.space, run=self.run_of(candidate))
        low, value, high = self.objective.interval(trial, 1 if keep else REPEATS)
        return Measurement(value, low, high, outcome.repeats, outcome.disturbed, outcome.loaded)

    def _note(self, candidate: Candidate, judged: Outcome) -> None:
        with self._lock:
            number, self.count = self.count, self.count + 1
        value = judged.seconds if isinstance(judged, Measurement) else None
        self.tell(trial_of(number, candidate, self.measured[candidate.key], self.space, value))


def trials_of(
    found: TuningResult, space: PlanSpace, measured: Mapping[Any, Any]
) -> tuple[tuple[Trial, ...], dict[Any, Trial]]:  # fmt: skip
    """All trials of a result in their order, and by candidate. `measured`: what was measured, if it was no time."""
    known: list[Success | FailedPlan] = sorted([*found.successes, *found.failures], key=lambda each: each.trial)
    by_key: dict[Any, Trial] = {}
    for number, each in enumerate(known):
        judged = each.measured if isinstance(each, Success) else each.failed
        value = each.measured.seconds if isinstance(each, Success) else None
        outcome = measured.get(each.candidate.key, judged)
        by_key[each.candidate.key] = trial_of(
            number, each.candidate, outcome, space, value, earlier=each.trial < 0
        )  # fmt: skip
    return tuple(by_key.values()), by_key


def interval_of(found: TuningResult) -> tuple[float, float] | None:
    """The 95 % confidence interval of the gain."""
    best, default = found.best, found.default
    if best is None or default is None:
        return None
    if best.candidate == default.candidate:
        return 1.0, 1.0
    return default.seconds / best.measured.high, default.seconds / best.measured.low
