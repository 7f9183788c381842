"""One measurement that is remembered: of which plan, under which limits, where it was made, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json

from .key import Key

Constant = bool | int | float | str | None

MEASURED, MODELLED = "measured", "modelled"
WRONG = "wrong-answer"
FAILURES = ("does-not-fit", "compile-error", "time-out", "crash", WRONG, "refused")
"""Why a plan gave no time."""


@dataclass(frozen=True)
class Provenance:
    """Where, when and by what something was measured.

    `device`: its name, as the system says; `slice`: as launches tell theirs (`cpu:cores=2`). `driver`: its version;
    empty of a CPU. `clocks`: MHz, by what. `versions`: of software, by name. `by`: the command or program. `run`: names
    one tuning run; `trial`: counts within it from 0. `seconds`: that the trial took in all. `when`: seconds since 1970.
    """

    device: str
    slice: str = ""
    architecture: str = ""
    driver: str = ""
    clocks: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    run: str = ""
    trial: int = 0
    seconds: float = 0.0
    when: float = 0.0

    @property
    def environment(self) -> tuple[str, str, str]:
        """What entries must have in common for one to replace another."""
        return self.device, self.architecture, self.driver


@dataclass(frozen=True)
class Entry:
    """A plan's time, or why it has none.

    `kernel`: its name, as tasks name it; `shape`: sizes exactly; `limits`: of the slice, all of them. `constants`:
    what its tunable constants were; `first_hash`: `kernel_hash` with the first value of each of them; empty, both, of a
    kernel without. `seconds`: of a call, with an interval from `low` to `high`; None where
    there is a `failure`, one of `FAILURES`, which `text` tells more of. `origin`: `measured` or `modelled`. `final`:
    the plan that a tuning run settled on, after the best were measured again side by side. `default`: the plan that
    runs where nothing was tuned.
    """

    key: Key
    kernel: str
    shape: Mapping[str, int]
    limits: Limits
    plan: Plan
    provenance: Provenance
    constants: Mapping[str, Constant] = field(default_factory=dict)
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 0
    origin: str = MEASURED
    failure: str | None = None
    text: str = ""
    final: bool = False
    default: bool = False
    first_hash: str = ""

    @property
    def asked(self) -> Key:
        """What calls ask that leave the tunable constants open: the key of the kernel with their first values."""
        return replace(self.key, kernel_hash=self.first_hash) if self.first_hash else self.key

    @cached_property
    def identity(self) -> str:
        """SHA-256 of what was measured and in which environment: a later entry of the same identity replaces it."""
        what = [
            self.key.digest, dict(sorted(self.shape.items())), plan_to_json(self.plan), dict(self.constants),
            list(self.provenance.environment),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def short(self) -> str:
        """The identity as people are shown it."""
        return self.identity[:12]

    @property
    def standing(self) -> int:
        """Which entry of one identity stays where there are two: the one that stands higher, or else the later."""
        if self.failure is not None:
            return 4 if self.failure == WRONG else 0
        return 1 if self.origin == MODELLED else 3 if self.final else 2

    @property
    def rank(self) -> float:
        """What the best has least of: seconds, at the upper end of their interval."""
        return float(self.high or self.seconds or 0.0)
