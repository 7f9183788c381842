"""Benches as tuning needs them: candidates, outcomes, and how much work a measurement is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from vkernels.compiler.protocols import Constant
from vkernels.ir.errors import FileError, OptionError
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen, plan_from_json, plan_to_json
from vkernels.runtime.dispatch_keys import constant_key


class FailureReason(StrEnum):
    """Why a candidate has no time. `REFUSED`: the kernel cannot have this plan, or nothing could be measured."""

    DOES_NOT_FIT = "does-not-fit"
    COMPILE_ERROR = "compile-error"
    TIME_OUT = "time-out"
    CRASH = "crash"
    WRONG_ANSWER = "wrong-answer"
    REFUSED = "refused"


@dataclass(frozen=True)
class Candidate:
    """A plan to measure. `constants`: values of the tunable constants."""

    plan: Plan
    constants: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """Equal for equal candidates. Types of constants count: 1, 1.0 and True make different code."""
        constants = sorted(self.constants.items())
        return frozen(self.plan), tuple((name, constant_key(value)) for name, value in constants)


@dataclass(frozen=True)
class Measurement:
    """The median of the seconds per call, and the ends of its 95 % confidence interval.

    `repeats`: number of samples. `disturbed`: share of the samples that other processes disturbed; if there are enough
    undisturbed ones, they widen only the interval. `loaded`: there was so much other load that the interval is wider
    and all times may be too long. `p99`: the 99th percentile of the samples; None where several measurements are
    combined. `memory`: bytes that a call needs, its tensors included; None if unknown.
    """

    seconds: float
    low: float
    high: float
    repeats: int
    disturbed: float = 0.0
    loaded: bool = False
    p99: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Failed:
    """Why there is no time, with details in a few lines."""

    reason: FailureReason
    text: str


Outcome = Measurement | Failed


class Setting(StrEnum):
    """What surrounds a timed call.

    `COLD`: no cache holds the arguments. `WARM`: the call before had the same arguments. `READ`: the arguments are
    cold, and a kernel reads the results at once; its time counts. `CHAIN`: so with warm arguments, as in the middle of
    a program.
    """

    COLD = "cold"
    WARM = "warm"
    READ = "read"
    CHAIN = "chain"

    @property
    def has_warm_arguments(self) -> bool:
        return self in (Setting.WARM, Setting.CHAIN)

    @property
    def has_reader(self) -> bool:
        return self in (Setting.READ, Setting.CHAIN)


BySetting = Mapping[Setting, Outcome]
"""The outcomes of one candidate."""


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """A candidate as a JSON object."""
    return {"plan": plan_to_json(candidate.plan), "constants": dict(candidate.constants)}


def candidate_from_json(data: object) -> Candidate:
    """Inverse of `candidate_to_json`. Raises `FileError` for anything else."""
    if not isinstance(data, dict) or data.keys() - {"plan", "constants"} or "plan" not in data:
        raise FileError("a candidate: expected an object of `plan` and `constants`")
    try:
        constants = msgspec.convert(data.get("constants", {}), dict[str, Constant])
    except msgspec.ValidationError as error:
        raise FileError(f"a candidate: constants: {error}") from None
    return Candidate(plan_from_json(data["plan"], "a candidate's plan"), constants)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a JSON object."""
    return asdict(outcome)


def outcome_from_json(data: object) -> Outcome:
    """Inverse of `outcome_to_json`. Raises `FileError` for anything else, and for impossible numbers."""
    is_failure = isinstance(data, dict) and "reason" in data
    kind: type[Outcome] = Failed if is_failure else Measurement
    try:
        outcome: Outcome = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise FileError(f"an outcome: {error}") from None
    if isinstance(outcome, Measurement):
        in_order = 0 < outcome.low <= outcome.seconds <= outcome.high < float("inf")
        if not in_order or not 0 <= outcome.disturbed <= 1:
            raise FileError("an outcome: expected 0 < low ≤ seconds ≤ high and 0 ≤ disturbed ≤ 1")
    return outcome


CANDIDATE_SECONDS = 60.0


@dataclass(frozen=True)
class Effort:
    """How carefully candidates are timed.

    `seconds`: timing of one candidate, at most, without compiling and checks. `width`: of the interval, relative to the
    median, that ends it sooner. `least`, `most`: number of samples. `sample_seconds`: calls are timed together until a
    sample takes this long, so that the overhead of the clock is small. `hopeless`: candidates slower than the best time
    by this factor are sampled no further; `behind`: the same for candidates that are surely slower, by the interval of
    their undisturbed samples. `sets`: maximal number of copies of all tensors, which calls use in turn, so that caches
    do not hold a call's inputs; `set_bytes`: maximal size of all copies. `quiet`: share of the cores' time that other
    processes may use without being noticed; `tries`: attempts at a timing that others disturb.
    """

    seconds: float = 0.25
    width: float = 0.02
    least: int = 6
    most: int = 1000
    sample_seconds: float = 2e-4
    hopeless: float = 2.0
    behind: float = 1.1
    sets: int = 16
    set_bytes: int = 256 << 20
    quiet: float = 0.1
    tries: int = 3


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of a worker process.

    `start_seconds`: to make arguments and a reference. `lock_seconds`: to wait for others that measure on the same
    cores. `memory_bytes`: resident, including its children, beyond the task's tensors. `comparison_seconds`: of a
    comparison, per candidate.
    """

    start_seconds: float = 120.0
    lock_seconds: float = 600.0
    memory_bytes: int = 4 << 30
    comparison_seconds: float = 10.0


class OutOfTimeError(OptionError):
    """The time for all measurements is over. What was measured until then is valid."""

    def __init__(self, task: object, doing: str):
        super().__init__(f"{task}: the budget ended {doing}; give more time")


class Measures(ABC):
    """Measures candidates of one task on one slice. Any method may raise `OutOfTimeError`."""

    @abstractmethod
    def measure(
        self, candidate: Candidate, timeout: float = CANDIDATE_SECONDS, *, setting: Setting = Setting.COLD
    ) -> Outcome:  # fmt: skip
        """Measure a candidate in a setting, within so many seconds."""

    @abstractmethod
    def paired_comparison(self, candidates: Sequence[Candidate], *, setting: Setting = Setting.COLD) -> list[Outcome]:
        """Time finalists in turns in a setting."""

    def compare_in(self, settings: Sequence[Setting], candidates: Sequence[Candidate]) -> list[BySetting]:
        """Time finalists in turns in each of several settings."""
        return by_setting(lambda setting: self.paired_comparison(candidates, setting=setting), settings)

    @property
    def at_once(self) -> int:
        """Number of candidates that `prepare` should get together; 1 if it saves no time."""
        return 1

    def prepare(self, candidates: Sequence[Candidate], timeout: float = CANDIDATE_SECONDS) -> list[Failed | None]:
        """Compile candidates in parallel before they are measured one after another; return their failures."""
        return [None] * len(candidates)

    def begin_preparing(self) -> None:  # noqa: B027 (optional)
        """Start what `prepare` needs, and do not wait for it."""

    def shared_outcomes(self) -> list[tuple[Candidate, Outcome]]:
        """Outcomes measured on equal slices since the last call."""
        return []

    def renew_inputs(self) -> None:  # noqa: B027 (optional)
        """Use other arguments, elsewhere in memory, from now on: times depend on where they are."""


def by_setting(compare: Callable[[Setting], Sequence[Outcome]], settings: Sequence[Setting]) -> list[BySetting]:
    """Compare the same candidates in each setting; return the outcomes of each candidate."""
    columns = {setting: compare(setting) for setting in settings}
    return [dict(zip(columns, outcomes, strict=True)) for outcomes in zip(*columns.values(), strict=True)]
