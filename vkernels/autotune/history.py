"""What a database remembers of a task on a slice, and how trials come into it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.limits import Limits

from .arguments import built
from .database.entry import MEASURED, MODELLED, Entry, Provenance
from .database.environment import provenance_of
from .database.key import Key, key_of
from .measure import Candidate, Failed, FailureReason, Measurement, Outcome
from .plan_space import PlanSpace
from .searches.search import FailedPoint as ToldFailure
from .searches.search import Outcome as Told
from .space import Point
from .warm_start import best_of_neighbours

if TYPE_CHECKING:
    from vkernels.targets import Target

    from .database.database import Database

BY = "vk tune"


@dataclass(frozen=True)
class TaskHistory:
    """What was measured before, of the same task on the same slice, in the order in which it was. `final`: that a run
    settled on it."""

    point: Point
    candidate: Candidate
    outcome: Outcome
    final: bool = False


@dataclass
class History:
    """The entries of one task on one slice. Without a database it remembers nothing.

    Values of tunable constants are part of the IR that an entry's key tells; entries say them too, for calls that leave
    them open.
    """

    database: Database | None
    task: Task
    limits: Limits
    target: Target
    slice: str
    run: str = field(default_factory=lambda: uuid4().hex)
    _keys: dict[tuple[tuple[str, object], ...], Key] = field(default_factory=dict)
    _first_hash: str | None = None

    def before(self, space: PlanSpace) -> list[TaskHistory]:
        """What was measured before of points of the space, by this device; failures too. Times that a model made, and
        plans that only seemed to take too long, are left to be measured."""
        if self.database is None:
            return []
        from .database.database import EntryFilter

        found: dict[Point, TaskHistory] = {}
        here = self._provenance().environment
        for version in space.versions:
            wanted = EntryFilter(kernel=self.task.name, key=self._key(version.constants), shape=self.task.shape)
            for entry in self.database.entries(wanted):
                outcome = _outcome(entry)
                if outcome is None or entry.provenance.environment != here:
                    continue
                point = space.point(entry.plan, version.constants)
                if point is not None:
                    found[point] = TaskHistory(
                        point, Candidate(entry.plan, dict(version.constants)), outcome, entry.final
                    )
        return list(found.values())

    def neighbours(self, space: PlanSpace) -> list[Point]:
        """Points that were fast within other limits, on other devices and for other shapes, best first."""
        if self.database is None:
            return []
        from .database.database import EntryFilter

        groups: dict[tuple[str, str], dict[Point, Told]] = {}
        for entry in self.database.entries(EntryFilter(kernel=self.task.name)):
            point = space.point(entry.plan, _open_ones(entry, space))
            own = entry.key == self._key(space.versions[0].constants)
            if point is None or (own and dict(entry.shape) == dict(self.task.shape)):
                continue
            told = groups.setdefault((entry.key.digest, repr(sorted(entry.shape.items()))), {})
            told[point] = ToldFailure(str(entry.failure)) if entry.seconds is None else float(entry.seconds)
        return best_of_neighbours(space.space, list(groups.values()), count=8)

    def device_wide(self, space: PlanSpace, whole: Limits) -> Candidate | None:
        """The best that is known for the whole device, where the slice is a part of it."""
        if self.database is None or whole == self.limits:
            return None
        first = space.versions[0].constants
        key = self._key(first, whole)
        best = self.database.versions(key, self.task.shape) if len(space.versions) > 1 else ()
        found = best[0] if best else self.database.best(key, self.task.shape)
        constants = None if found is None else _open_ones(found, space)
        if found is None or found.origin != MEASURED or dict(found.shape) != dict(self.task.shape):
            return None
        return Candidate(found.plan, dict(first) if constants is None else constants)

    def add(
        self, candidate: Candidate, outcome: Outcome, trial: int, seconds: float = 0.0, origin: str = MEASURED,
        final: bool = False, default: bool = False,
    ) -> None:  # fmt: skip
        """Remember what came of a trial, which took so many seconds. `default`: of the plan that runs untuned."""
        if self.database is None:
            return
        provenance = replace(self._provenance(), trial=max(0, trial), seconds=seconds, when=time.time())
        entry = Entry(
            self._key(candidate.constants), self.task.name, dict(self.task.shape), self.limits, candidate.plan,
            provenance, origin=origin, final=final, default=default, **self._version(candidate.constants),
        )  # fmt: skip
        if isinstance(outcome, Failed):
            entry = replace(entry, failure=str(outcome.reason), text=outcome.text[:2000])
        else:
            entry = replace(entry, seconds=outcome.seconds, low=outcome.low, high=outcome.high, repeats=outcome.repeats)
        self.database.keep(entry)

    def _provenance(self) -> Provenance:
        return provenance_of(self.target, self.slice, BY, self.run)

    def _version(self, constants: Mapping[str, object]) -> dict[str, Any]:
        """What all tunable constants of the kernel are, and which kernel it is with their first values."""
        tunable = {each.name: each.default for each in kernel_of(self.task).parameters if each.tunable is not None}
        if not tunable:
            return {}
        if self._first_hash is None:
            self._first_hash = self._key(tunable).kernel_hash
        every = {**tunable, **self.task.constants, **constants}
        return {"constants": {name: every[name] for name in tunable}, "first_hash": self._first_hash}

    def _key(self, constants: Mapping[str, object], limits: Limits | None = None) -> Key:
        kept = tuple(sorted(constants.items())) if limits is None else (("limits", limits),)
        if kept not in self._keys:
            task = replace(self.task, constants={**self.task.constants, **constants})  # type: ignore[dict-item]
            self._keys[kept] = key_of(
                built(task), task.shape, task.dtypes, self.limits if limits is None else limits, strides_of(task)
            )
        return self._keys[kept]


def _open_ones(entry: Entry, space: PlanSpace) -> dict[str, Any] | None:
    """The values that an entry has of the tunable constants that a task leaves open; None where it does not say."""
    names = space.versions[0].constants
    if not names or not names.keys() <= entry.constants.keys():
        return None
    return {name: entry.constants[name] for name in names}


def _outcome(entry: Entry) -> Outcome | None:
    """What was measured; None of what is to be measured all the same."""
    if entry.origin == MODELLED:
        return None
    if entry.failure is not None:
        try:
            return Failed(FailureReason(entry.failure), entry.text)
        except ValueError:
            return None
    if entry.seconds is None:
        return None
    low, high = entry.low or entry.seconds, entry.high or entry.seconds
    return Measurement(entry.seconds, low, high, entry.repeats)
