"""What the database knows of a task on a slice before tuning, and how trials get into it."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from vkernels.compiler.protocols import Constant
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.canonical_names import CanonicalNames, names_of
from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.targets import Target

from .arguments import built
from .database.entry import (
    COLD,
    HASHES,
    MEASURED,
    MODELLED,
    Entry,
    Hash,
    Key,
    Provenance,
    kernel_hash,
    key_of,
    provenance_of,
)
from .measure import Candidate, Failed, FailureReason, Measurement, Outcome
from .plan_space import PlanSpace
from .searches.search import FailedPoint
from .searches.search import Outcome as PointOutcome
from .space import Point, SearchSpace

if TYPE_CHECKING:
    from .database.database import Database

BY = "vk tune"
NEIGHBOUR_SEEDS, MAX_SEEDS = 8, 16
"""Seeds of a tuning run that come from the database, and the default of `best_of_neighbours`."""
MAX_EARLIER = 64
"""Plans of earlier runs that a space includes in any case."""
SOME_OF_IT = 0.9
"""A time-out counts for a run that would give a plan this share of its own timeout or less."""
WORTHWHILE = 1e-3
"""A seed must improve the mean score of the neighbours by this much."""


@dataclass(frozen=True)
class TaskHistory:
    """An earlier measurement of the same task on the same slice. `final`: an earlier run selected this plan."""

    point: Point
    candidate: Candidate
    outcome: Outcome
    final: bool = False


@dataclass
class History:
    """The entries of one task on one slice; empty without a database. `caches`: the settings of its measurements.
    `by`: the command that measures.

    An entry's key includes the values of tunable constants, which are part of the IR. Entries also list these values,
    for calls that leave the constants open.
    """

    database: Database | None
    task: Task
    limits: Limits
    target: Target
    slice: str
    caches: str = COLD
    run: str = field(default_factory=lambda: uuid4().hex)
    by: str = BY
    _keys: dict[tuple[tuple[str, object], ...], Key] = field(default_factory=dict)
    _kernels: dict[tuple[tuple[str, object], ...], KernelOp] = field(default_factory=dict)
    _earlier: dict[Hashable, Provenance] = field(default_factory=dict)

    def best_plans(self, constants: Mapping[str, Constant]) -> list[Plan]:
        """The plans that earlier runs on this device selected, and the fastest others, at most `MAX_EARLIER`.

        `constants`: the values of all tunable constants.
        """
        timed = [(entry, plan) for entry, plan in self._entries_of(constants) if entry.seconds is not None]
        timed.sort(key=lambda each: (-each[0].standing, each[0].rank))
        return [plan for _, plan in timed[:MAX_EARLIER]]

    def before(self, space: PlanSpace, timeout: float = 0.0) -> list[TaskHistory]:
        """Earlier measurements on this device of points of the space, failures included, in their order.

        Modelled times, and those of other settings, are left out, so that they get measured; and so are plans that had
        less time than the present `timeout` of one, in seconds.
        """
        found: dict[Point, TaskHistory] = {}
        for point, candidate, entry in self._entries_here(space):
            outcome = None if _had_less_time(entry, timeout) else _outcome(entry)
            self._earlier[candidate.key] = entry.provenance
            if outcome is not None and (isinstance(outcome, Failed) or entry.caches == self.caches):
                found[point] = TaskHistory(point, candidate, outcome, entry.final)
        return list(found.values())

    def chosen_elsewhere(self, space: PlanSpace) -> list[Point]:
        """Points that earlier runs on this device selected in other settings: they are judged in this one as well."""
        return [point for point, _, entry in self._entries_here(space) if entry.final and entry.caches != self.caches]

    def _entries_here(self, space: PlanSpace) -> Iterator[tuple[Point, Candidate, Entry]]:
        for version in space.versions:
            for entry, plan in self._entries_of(version.constants):
                point = space.point(plan, version.constants)
                if point is not None:
                    yield point, Candidate(plan, dict(version.constants)), entry

    def _entries_of(self, constants: Mapping[str, Constant]) -> Iterator[tuple[Entry, Plan]]:
        """Entries of this device, and their plans with the author's names of today; those of earlier versions first."""
        if self.database is None:
            return
        from .database.database import EntryFilter

        here = self._provenance().environment
        for hashed in reversed(HASHES):
            wanted = EntryFilter(key=self._key(constants, hashed=hashed), shape=self.task.shape)
            for entry in self.database.entries(wanted):
                plan = self._names(constants).to_author(entry.plan)
                if plan is not None and entry.provenance.environment == here:
                    yield entry, plan

    def elsewhere(self, space: PlanSpace) -> list[Mapping[Point, PointOutcome]]:
        """What points took within other limits, on other devices and for other shapes: of each by itself."""
        if self.database is None:
            return []
        from .database.database import EntryFilter

        groups: dict[tuple[str, str, str], dict[Point, PointOutcome]] = {}
        keys = [self._key(space.versions[0].constants, hashed=hashed) for hashed in HASHES]
        names = dict.fromkeys([self.task.stored_name, self.task.name])  # earlier versions stored the path as spelt
        for entry in [entry for name in names for entry in self.database.entries(EntryFilter(kernel=name))]:
            point = self._point(space, entry.plan, _open_constants(entry, space))
            own = entry.key in keys
            if point is None or (own and dict(entry.shape) == dict(self.task.shape)):
                continue
            group = groups.setdefault((entry.key.digest, repr(sorted(entry.shape.items())), entry.caches), {})
            group[point] = FailedPoint(str(entry.failure)) if entry.seconds is None else float(entry.seconds)
        return list(groups.values())

    def _point(self, space: PlanSpace, plan: Plan, constants: Mapping[str, Any] | None) -> Point | None:
        """The point of a canonical plan. `constants`: values of the tunable ones, which may be a stranger's."""
        variants = [variant.constants for variant in space.versions if variant.constants == constants]
        own = self._names((variants or [space.versions[0].constants])[0]).to_author(plan)
        return None if own is None else space.point(own, constants)

    def device_wide(self, space: PlanSpace, whole: Limits) -> Candidate | None:
        """The best known plan of the whole device, if the slice is a part of it."""
        if self.database is None or whole == self.limits:
            return None
        first = space.versions[0].constants
        best = [self._best(space, self._key(first, whole, hashed)) for hashed in HASHES]
        found = max(filter(None, best), key=lambda each: each.standing, default=None)
        if found is None or found.origin != MEASURED or dict(found.shape) != dict(self.task.shape):
            return None
        constants = _open_constants(found, space) or dict(first)
        plan = self._names(constants).to_author(found.plan)
        return None if plan is None else Candidate(plan, constants)

    def _best(self, space: PlanSpace, key: Key) -> Entry | None:
        assert self.database is not None
        best = self.database.versions(key, self.task.shape) if len(space.versions) > 1 else ()
        return best[0] if best else self.database.best(key, self.task.shape)

    def add(
        self, candidate: Candidate, outcome: Outcome, trial: int, seconds: float = 0.0, origin: str = MEASURED,
        final: bool = False, default: bool = False,
    ) -> None:  # fmt: skip
        """Store the outcome of a trial, which took so many seconds. `default`: of the plan that runs untuned.

        A trial of an earlier run, whose number is negative, keeps its run and number.
        """
        if self.database is None:
            return
        if isinstance(outcome, Failed):
            result: dict[str, Any] = {"failure": str(outcome.reason), "text": outcome.text[:2000]}
        else:
            result = {name: getattr(outcome, name) for name in ("seconds", "low", "high", "repeats")}
        provenance = replace(self._provenance(), trial=max(0, trial), seconds=seconds, when=time.time())
        if trial < 0 and (earlier := self._earlier.get(candidate.key)) is not None:
            provenance = replace(provenance, run=earlier.run, trial=earlier.trial, seconds=earlier.seconds)
        self.database.keep(
            replace(self._entry(candidate, provenance, result), origin=origin, final=final, default=default)
        )

    def withdraw(self, candidate: Candidate) -> None:
        """Make a plan that a run selected a trial again: calls prefer any other selected plan."""
        if self.database is not None:
            nothing = {"failure": str(FailureReason.REFUSED)}
            self.database.withdraw(self._entry(candidate, self._provenance(), nothing).identity)

    def _entry(self, candidate: Candidate, provenance: Provenance, result: Mapping[str, Any]) -> Entry:
        names = self._names(candidate.constants)
        plan = names.to_canonical(candidate.plan)
        return Entry(
            self._key(candidate.constants), self.task.stored_name, dict(self.task.shape),
            replace(self.limits, core=None), plan, provenance, caches=self.caches, names=names.shown(plan),
            **self._constants(candidate.constants), **result,
        )  # fmt: skip

    def _provenance(self) -> Provenance:
        return provenance_of(self.target, self.slice, self.by, self.run)

    def _constants(self, constants: Mapping[str, object]) -> dict[str, Any]:
        tunable = {each.name: each.default for each in kernel_of(self.task).parameters if each.tunable is not None}
        if not tunable:
            return {}
        every = {**tunable, **self.task.constants, **constants}
        return {"constants": {name: every[name] for name in tunable}, "first_hash": self._key(tunable).kernel_hash}

    def _key(
        self, constants: Mapping[str, object], limits: Limits | None = None, hashed: Hash = kernel_hash
    ) -> Key:  # fmt: skip
        known = (*sorted(constants.items()), ("limits", limits), ("hashed", hashed))
        if known not in self._keys:
            task = self.task
            self._keys[known] = key_of(
                self._built(constants), task.shape, task.dtypes, self.limits if limits is None else limits,
                strides_of(task), hashed,
            )  # fmt: skip
        return self._keys[known]

    def _names(self, constants: Mapping[str, object]) -> CanonicalNames:
        """The names in plans of the kernel with these constants."""
        return names_of(self._built(constants))

    def _built(self, constants: Mapping[str, object]) -> KernelOp:
        known = tuple(sorted(constants.items()))
        if known not in self._kernels:
            task = replace(self.task, constants={**self.task.constants, **constants})  # type: ignore[dict-item]
            self._kernels[known] = built(task)
        return self._kernels[known]


def best_of_neighbours(
    space: SearchSpace, neighbours: Sequence[Mapping[Point, PointOutcome]], count: int = MAX_SEEDS
) -> list[Point]:
    """At most `count` points of `space` that were fast on neighbouring devices, slices or shapes, best first.

    `neighbours`: the outcomes of each, by point. A point's score on a neighbour is the best time there divided by its
    own; 0 if it failed or was not measured. The first points together cover the neighbours, because the new device may
    be like any one of them: each gains most over those before it. Then come those with the highest mean score.
    """
    points = [
        point for point in dict.fromkeys(point for outcomes in neighbours for point in outcomes) if point in space
    ]
    if not points or count < 1:
        return []
    scores = np.array([_scores(points, outcomes) for outcomes in neighbours])
    means = scores.mean(0)
    chosen: list[int] = []
    covered = np.zeros(len(neighbours))
    while len(chosen) < count:
        gains = np.maximum(scores - covered[:, None], 0).mean(0)
        best = int(np.argmax(gains + WORTHWHILE * means))
        if gains[best] < WORTHWHILE:
            break
        chosen.append(best)
        covered = np.maximum(covered, scores[:, best])
    rest = [int(i) for i in np.argsort(-means, kind="stable") if i not in set(chosen) and means[i] > 0]
    return [points[i] for i in (chosen + rest)[:count]]


def _scores(points: Sequence[Point], outcomes: Mapping[Point, PointOutcome]) -> list[float]:
    best = min((outcome for outcome in outcomes.values() if isinstance(outcome, float)), default=0.0)
    of_points = (outcomes.get(point) for point in points)
    return [best / outcome if isinstance(outcome, float) else 0.0 for outcome in of_points]


def _open_constants(entry: Entry, space: PlanSpace) -> dict[str, Any] | None:
    """An entry's values of the tunable constants that the task leaves open; None if it lacks one."""
    names = space.versions[0].constants
    if not names or not names.keys() <= entry.constants.keys():
        return None
    return {name: entry.constants[name] for name in names}


def _had_less_time(entry: Entry, timeout: float) -> bool:
    return entry.failure == FailureReason.TIME_OUT and entry.provenance.seconds < SOME_OF_IT * timeout


def _outcome(entry: Entry) -> Outcome | None:
    if entry.origin == MODELLED:
        return None
    if entry.failure is not None:
        return Failed(FailureReason(entry.failure), entry.text)
    if entry.seconds is None:
        return None
    return Measurement(entry.seconds, entry.low or entry.seconds, entry.high or entry.seconds, entry.repeats)
