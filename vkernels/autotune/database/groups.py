"""Entries that answer one question, together: a kernel and shape within some limits, as some compilers make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from .entry import Entry
from .key import Key


@dataclass(frozen=True)
class EntryGroup:
    """`entries`: in the order in which they came, one at least."""

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

    @cached_property
    def timed(self) -> tuple[Entry, ...]:
        """Those with a time, the best first, as launches judge."""
        found = [entry for entry in self.entries if entry.failure is None]
        return tuple(sorted(found, key=lambda entry: (-min(entry.standing, 2), -entry.standing, entry.rank)))

    @property
    def best(self) -> Entry | None:
        return self.timed[0] if self.timed else None

    @property
    def default(self) -> Entry | None:
        """The last that was measured of what runs where nothing was tuned; None where it has no time."""
        found = [entry for entry in self.timed if entry.default]
        return max(found, key=lambda entry: entry.provenance.when, default=None)

    @property
    def gain(self) -> float | None:
        """How many times faster the best plan is than the default one; None where that is not known."""
        best, default = self.best, self.default
        if best is None or default is None or not best.seconds or not default.seconds:
            return None
        return default.seconds / best.seconds

    @cached_property
    def failures(self) -> Mapping[str, int]:
        """How many failed, by reason, the most frequent first."""
        return dict(Counter(entry.failure for entry in self.entries if entry.failure is not None).most_common())

    @property
    def places(self) -> tuple[str, ...]:
        """Devices and slices that the entries are from: `H100 · nvidia:0`."""
        found = (entry.provenance for entry in self.entries)
        return tuple(dict.fromkeys(" · ".join(filter(None, (each.device, each.slice))) for each in found))

    @property
    def latest(self) -> float:
        """When the last entry was made, in seconds since 1970."""
        return max(entry.provenance.when for entry in self.entries)


def groups_of(entries: Iterable[Entry]) -> tuple[EntryGroup, ...]:
    """By kernel, shape, dtypes, limits and compilers; in the order of their names."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.asked, tuple(sorted(entry.shape.items()))), []).append(entry)
    groups = [EntryGroup(tuple(some)) for some in found.values()]
    return tuple(sorted(groups, key=lambda g: (g.kernel, sorted(g.shape.items()), g.key.dtypes, g.places, g.latest)))
