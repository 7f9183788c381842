"""What entries say: how searches came to their best plans, what these are, what each choice weighs, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..database.entry import Entry
from ..database.groups import EntryGroup, groups_of
from .choices import NONE, choices_of

MAX_SHOWN_VALUES = 12
"""Of one choice that are told, the best first."""


@dataclass(frozen=True)
class Convergence:
    """One tuning run: of each trial its number, its seconds (None: it failed), and the best seconds until then."""

    run: str
    trials: tuple[tuple[int, float | None, float | None], ...]


@dataclass(frozen=True)
class DecisionWeight:
    """What one decision weighs: for each value that was tried, how many times the best plan's time the best plan with
    that value takes, the best first. `most`: the largest of them."""

    name: str
    factors: Mapping[str, float]

    @property
    def most(self) -> float:
        return max(self.factors.values())


@dataclass(frozen=True)
class ReportedSlice:
    """What is known of one kernel and shape within one set of limits. `name`: what to call them, unlike others."""

    name: str
    group: EntryGroup

    @property
    def best(self) -> Entry | None:
        return self.group.best

    @property
    def convergence(self) -> tuple[Convergence, ...]:
        """Of each run, in the order in which they began."""
        entries = sorted(self.group.entries, key=lambda entry: (entry.provenance.run, entry.provenance.trial))
        runs = [_convergence(run, list(some)) for run, some in groupby(entries, key=lambda entry: entry.provenance.run)]
        return tuple(run for run in runs if len(run.trials) > 1)

    @property
    def choices(self) -> tuple[DecisionWeight, ...]:
        """Choices of which more than one value was tried, what weighs most first."""
        times = [(choices_of(entry), entry.rank) for entry in self.group.timed]
        names = dict.fromkeys(name for chosen, _ in times for name in chosen)
        found = [_choice(name, times) for name in names]
        return tuple(sorted((each for each in found if len(each.factors) > 1), key=lambda each: -each.most))


@dataclass(frozen=True)
class ReportedKernel:
    """One kernel, shape and dtypes, with every slice that it was tuned for."""

    kernel: str
    shape: Mapping[str, int]
    dtypes: str
    slices: tuple[ReportedSlice, ...]

    def crossed(self) -> tuple[tuple[float | None, ...], ...]:
        """Tuned for (row), run on (column): the best time there over that of the row's plan; None where nobody
        measured it, 0 where it failed."""
        return tuple(tuple(_part(row, column) for column in self.slices) for row in self.slices)

    def differing(self) -> dict[str, tuple[str, ...]]:
        """Of each choice in which the slices' best plans differ, its value on each slice; of all where there is but
        one slice."""
        plans = [choices_of(each.best) if each.best is not None else {} for each in self.slices]
        names = dict.fromkeys(name for plan in plans for name in plan)
        rows = {name: tuple(plan.get(name, NONE) for plan in plans) for name in names}
        if len(plans) == 1:
            return {name: row for name, row in rows.items() if row != (NONE,)}
        return {name: row for name, row in rows.items() if len(set(row)) > 1}


@dataclass(frozen=True)
class TuningReport:
    """Everything. `stale`: how many entries are left out because other compilers made their code."""

    subjects: tuple[ReportedKernel, ...]
    entries: int
    stale: int


def find(entries: Iterable[Entry], compilers: Sequence[str]) -> TuningReport:
    """What entries say, of those whose code is made as now; of all where there are no such."""
    everything = list(entries)
    present = [entry for entry in everything if entry.key.compilers in compilers]
    used = present or everything
    subjects: dict[tuple[object, ...], list[EntryGroup]] = {}
    for group in groups_of(used):
        what = (group.kernel, tuple(sorted(group.shape.items())), group.key.dtypes)
        subjects.setdefault(what, []).append(group)
    found = [
        ReportedKernel(some[0].kernel, some[0].shape, some[0].key.dtypes, _named(some)) for some in subjects.values()
    ]
    return TuningReport(tuple(found), len(used), len(everything) - len(used))


def _named(groups: Sequence[EntryGroup]) -> tuple[ReportedSlice, ...]:
    """Slices by where they were measured; numbered where that is not unlike others."""
    names = [_place(group) for group in groups]
    return tuple(
        ReportedSlice(name if names.count(name) == 1 else f"{name} ({names[:at].count(name) + 1})", group)
        for at, (name, group) in enumerate(zip(names, groups, strict=True))
    )


def _place(group: EntryGroup) -> str:
    where = (group.best or group.entries[0]).provenance
    return where.slice or where.device


def _convergence(run: str, entries: Sequence[Entry]) -> Convergence:
    best: float | None = None
    trials = []
    for entry in entries:
        if entry.seconds is not None:
            best = entry.seconds if best is None else min(best, entry.seconds)
        trials.append((entry.provenance.trial, entry.seconds, best))
    return Convergence(run, tuple(trials))


def _choice(name: str, times: Sequence[tuple[Mapping[str, str], float]]) -> DecisionWeight:
    least: dict[str, float] = {}
    for chosen, seconds in times:
        value = chosen.get(name, NONE)
        least[value] = min(seconds, least.get(value, seconds))
    best = min(least.values())
    ordered = sorted(least.items(), key=lambda each: each[1])[:MAX_SHOWN_VALUES]
    return DecisionWeight(name, {value: seconds / best for value, seconds in ordered})


def _part(row: ReportedSlice, column: ReportedSlice) -> float | None:
    """How near a slice's best plan comes to the best on another."""
    if row.best is None or column.best is None:
        return None
    plan, constants = row.best.plan, dict(row.best.constants)
    same = [each for each in column.group.entries if each.plan == plan and dict(each.constants) == constants]
    timed = [each.rank for each in same if each.seconds is not None]
    if not timed:
        return 0.0 if same else None
    return min(1.0, column.best.rank / min(timed))
