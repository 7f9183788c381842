"""What is measured, and what came of it; as JSON too."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from vkernels.ir.errors import FileError
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen, plan_from_json, plan_to_json
from vkernels.runtime.dispatch_keys import constant_key

Constant = bool | int | float | str | None


class FailureReason(StrEnum):
    """Why a candidate has no time."""

    DOES_NOT_FIT = "does-not-fit"
    COMPILE_ERROR = "compile-error"
    TIME_OUT = "time-out"
    CRASH = "crash"
    WRONG_ANSWER = "wrong-answer"
    REFUSED = "refused"
    """The kernel cannot have this plan, or nothing could be measured at all."""


@dataclass(frozen=True)
class Candidate:
    """A plan to be measured. `constants`: of the kernel's constants those that are tuned with it."""

    plan: Plan
    constants: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """The same for the same candidate. Constants count with their types: 1, 1.0 and True make different code."""
        constants = sorted(self.constants.items())
        return frozen(self.plan), tuple((name, constant_key(value)) for name, value in constants)


@dataclass(frozen=True)
class Measurement:
    """Seconds a call: their median, and the ends of an interval that holds the true median in 95 of 100 cases.

    `repeats`: of samples. `disturbed`: the part of the samples that others on these cores got in the way of; they count
    for the interval alone, unless there were hardly others. `loaded`: even so there was other load, so that the
    interval is wider, and the times may all be too long.
    """

    seconds: float
    low: float
    high: float
    repeats: int
    disturbed: float = 0.0
    loaded: bool = False


@dataclass(frozen=True)
class Failed:
    """Why there is no time, and a few lines about it."""

    reason: FailureReason
    text: str


Outcome = Measurement | Failed


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """As what JSON can hold."""
    return {"plan": plan_to_json(candidate.plan), "constants": dict(candidate.constants)}


def candidate_from_json(data: object) -> Candidate:
    """The candidate that `candidate_to_json` took apart. Raises `FileError` for anything else."""
    if not isinstance(data, dict) or data.keys() - {"plan", "constants"} or "plan" not in data:
        raise FileError("a candidate: expected an object of `plan` and `constants`")
    constants = data.get("constants", {})
    if not isinstance(constants, dict) or not all(_is_constant(value) for value in constants.values()):
        raise FileError("a candidate: constants: expected numbers, texts, true, false or null by name")
    return Candidate(plan_from_json(data["plan"], "a candidate's plan"), constants)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """As what JSON can hold."""
    return asdict(outcome)


def outcome_from_json(data: object) -> Outcome:
    """The outcome that `outcome_to_json` took apart. Raises `FileError` for anything else, and for odd numbers."""
    try:
        if isinstance(data, dict) and data.keys() == Failed.__dataclass_fields__.keys():
            return Failed(FailureReason(data["reason"]), str(data["text"]))
        if isinstance(data, dict) and data.keys() == Measurement.__dataclass_fields__.keys():
            seconds, low, high, disturbed = (float(data[name]) for name in ("seconds", "low", "high", "disturbed"))
            if 0 < low <= seconds <= high and isfinite(high) and 0 <= disturbed <= 1:
                return Measurement(seconds, low, high, int(data["repeats"]), disturbed, data["loaded"] is True)
    except (TypeError, ValueError) as error:
        raise FileError(f"an outcome: {error}") from error
    raise FileError("an outcome: expected the fields of a measurement or of a failure, with times above 0")


def _is_constant(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
