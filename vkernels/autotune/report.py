"""What a tuning database says of each kernel, as figures to print and draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from vkernels.ir.plan import PLAN_TYPES
from vkernels.ir.planning.decisions.decisions import DECISION_OF

from .database.entry import Entry, Key


def title_of(kernel: str, shape: Mapping[str, int], dtypes: str) -> str:
    """Kernel, sizes and dtypes as one line: the dtype of most tensors, and those of the others by name."""
    sizes = [f"{name}={size}" for name, size in shape.items()]
    parts = [part.partition("=")[::2] for part in dtypes.split()]
    usual = Counter(dtype for _, dtype in parts).most_common(1)
    others = [f"{name}={dtype}" for name, dtype in parts if dtype != usual[0][0]]
    return " ".join([kernel, *sizes, *(dtype for dtype, _ in usual), *others])


@dataclass(frozen=True)
class EntryGroup:
    """Entries of one kernel, shape, dtypes, limits and compilers, in the order of their addition; at least one."""

    entries: tuple[Entry, ...]

    @property
    def key(self) -> Key:
        return self.entries[0].asked

    @property
    def kernel(self) -> str:
        return self.entries[0].kernel

    @property
    def shape(self) -> Mapping[str, int]:
        return self.entries[0].shape

    @property
    def title(self) -> str:
        """Kernel, sizes and dtypes as one line."""
        return title_of(self.kernel, self.shape, self.key.dtypes)

    @cached_property
    def timed(self) -> tuple[Entry, ...]:
        """Entries with a time, in the order in which launches prefer them."""
        found = [entry for entry in self.entries if entry.failure is None]
        return tuple(sorted(found, key=lambda entry: (-min(entry.standing, 2), -entry.standing, entry.rank)))

    @property
    def best(self) -> Entry | None:
        return self.timed[0] if self.timed else None

    @property
    def default(self) -> Entry | None:
        """The latest entry of the plan that runs without tuning; None if it has no time."""
        found = [entry for entry in self.timed if entry.default]
        return max(found, key=lambda entry: entry.provenance.when, default=None)

    @property
    def gain(self) -> float | None:
        """Speed-up of the best plan over the default one; None if unknown."""
        best, default = self.best, self.default
        if best is None or default is None or not best.seconds or not default.seconds:
            return None
        return default.seconds / best.seconds

    @cached_property
    def failures(self) -> Mapping[str, int]:
        """Number of failures by reason, the most frequent first."""
        return dict(Counter(entry.failure for entry in self.entries if entry.failure is not None).most_common())

    @property
    def places(self) -> tuple[str, ...]:
        """Devices and slices of the entries, as `H100 · nvidia:0`."""
        found = (entry.provenance for entry in self.entries)
        return tuple(dict.fromkeys(" · ".join(filter(None, (each.device, each.slice))) for each in found))

    @property
    def latest(self) -> float:
        """Time of the last entry, in seconds since 1970."""
        return max(entry.provenance.when for entry in self.entries)


def groups_of(entries: Iterable[Entry]) -> tuple[EntryGroup, ...]:
    """Group entries by kernel, shape, dtypes, limits and compilers, ordered by name."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.asked, tuple(sorted(entry.shape.items()))), []).append(entry)
    groups = [EntryGroup(_with_latest_names(some)) for some in found.values()]
    return tuple(sorted(groups, key=lambda g: (g.kernel, sorted(g.shape.items()), g.key.dtypes, g.places, g.latest)))


def _with_latest_names(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Entries of one kernel, whose author may have renamed variables, with the names of the latest one."""
    names: dict[str, str] = {}
    for entry in sorted(entries, key=lambda each: each.provenance.when):
        names |= entry.names
    return tuple(replace(entry, names=names) for entry in entries)


NONE = "—"


def choices_of(entry: Entry) -> dict[str, str]:
    """The decisions of an entry's plan and its constants by name: `tile i`, `home e`, `packs`, …"""
    shown = [name for name in PLAN_TYPES if entry.limits.warp > 1 or not DECISION_OF[name].gpu_only]
    plan = entry.shown
    values = {name: getattr(plan, name) for name in shown}
    found: dict[str, str] = {}
    for name, some in values.items():
        if isinstance(some, Mapping):
            found |= {f"{DECISION_OF[name].entry} {each}": str(value) for each, value in some.items()}
    found |= {name: ", ".join(some) or NONE for name, some in values.items() if isinstance(some, tuple)}
    for name, some in values.items():
        if not isinstance(some, Mapping | tuple):
            found[name.replace("_", " ")] = NONE if some is None else str(some)
    found |= {f"constant {name}": NONE if value is None else str(value) for name, value in entry.constants.items()}
    return found


MAX_SHOWN_VALUES = 12


@dataclass(frozen=True)
class Convergence:
    """One tuning run. `trials`: number, seconds (None for a failure), and best seconds so far."""

    run: str
    trials: tuple[tuple[int, float | None, float | None], ...]


@dataclass(frozen=True)
class DecisionWeight:
    """The importance of one decision. `factors`: by value, the slowdown of the best plan with it, the best first."""

    name: str
    factors: Mapping[str, float]

    @property
    def most(self) -> float:
        return max(self.factors.values())


@dataclass(frozen=True)
class ReportedSlice:
    """The entries of one kernel and shape within one set of limits. `name`: unique."""

    name: str
    group: EntryGroup

    @property
    def best(self) -> Entry | None:
        return self.group.best

    @property
    def convergence(self) -> tuple[Convergence, ...]:
        """The convergence of each run with several trials."""
        entries = sorted(self.group.entries, key=lambda entry: (entry.provenance.run, entry.provenance.trial))
        runs = [_convergence(run, list(some)) for run, some in groupby(entries, key=lambda entry: entry.provenance.run)]
        return tuple(run for run in runs if len(run.trials) > 1)

    @property
    def progress(self) -> Convergence | None:
        """All runs after one another, as if they were one; None without several trials."""
        begun: dict[str, float] = {}
        for entry in self.group.entries:
            run, when = entry.provenance.run, entry.provenance.when
            begun[run] = min(when, begun.get(run, when))

        def place(entry: Entry) -> tuple[float, str, int, float]:
            where = entry.provenance
            return begun[where.run], where.run, where.trial, where.when

        found = _convergence("", sorted(self.group.entries, key=place), renumber=True)
        return found if len(found.trials) > 1 else None

    @property
    def choices(self) -> tuple[DecisionWeight, ...]:
        """Decisions with more than one tried value, the most important first."""
        times = [(choices_of(entry), entry.rank) for entry in self.group.timed]
        names = dict.fromkeys(name for chosen, _ in times for name in chosen)
        found = [_choice(name, times) for name in names]
        return tuple(sorted((each for each in found if len(each.factors) > 1), key=lambda each: -each.most))


@dataclass(frozen=True)
class ReportedKernel:
    """One kernel, shape and dtypes, with all slices that it was tuned for."""

    kernel: str
    shape: Mapping[str, int]
    dtypes: str
    slices: tuple[ReportedSlice, ...]

    @property
    def title(self) -> str:
        """Kernel, sizes and dtypes as one line."""
        return title_of(self.kernel, self.shape, self.dtypes)

    def crossed(self) -> tuple[tuple[float | None, ...], ...]:
        """Tuned for (row), run on (column): the best time there divided by that of the row's plan; None if it was not
        measured, 0 if it failed."""
        return tuple(tuple(_part(row, column) for column in self.slices) for row in self.slices)

    def differing(self) -> dict[str, tuple[str, ...]]:
        """The values of each decision in which the slices' best plans differ; all decisions if there is one slice."""
        plans = [choices_of(each.best) if each.best is not None else {} for each in self.slices]
        names = dict.fromkeys(name for plan in plans for name in plan)
        rows = {name: tuple(plan.get(name, NONE) for plan in plans) for name in names}
        if len(plans) == 1:
            return {name: row for name, row in rows.items() if row != (NONE,)}
        return {name: row for name, row in rows.items() if len(set(row)) > 1}


@dataclass(frozen=True)
class TuningReport:
    """The whole report. `stale`: number of entries that are left out because of other compiler versions."""

    subjects: tuple[ReportedKernel, ...]
    entries: int
    stale: int


def find(entries: Iterable[Entry], compilers: Sequence[str]) -> TuningReport:
    """Report the entries of the present compiler versions; all entries if there are none of these."""
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
    places = [(group.best or group.entries[0]).provenance for group in groups]
    names = [place.slice or place.device for place in places]
    return tuple(
        ReportedSlice(name if names.count(name) == 1 else f"{name} ({names[:at].count(name) + 1})", group)
        for at, (name, group) in enumerate(zip(names, groups, strict=True))
    )


def _convergence(run: str, entries: Sequence[Entry], renumber: bool = False) -> Convergence:
    best: float | None = None
    trials = []
    for number, entry in enumerate(entries):
        if entry.seconds is not None:
            best = entry.seconds if best is None else min(best, entry.seconds)
        trials.append((number if renumber else entry.provenance.trial, entry.seconds, best))
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
    if row.best is None or column.best is None:
        return None
    plan, constants = row.best.plan, dict(row.best.constants)
    same = [each for each in column.group.entries if each.plan == plan and dict(each.constants) == constants]
    timed = [each.rank for each in same if each.seconds is not None]
    if not timed:
        return 0.0 if same else None
    return min(1.0, column.best.rank / min(timed))
