"""Documents of entries as a database returns them: read, checked, and in the order in which calls prefer them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits

from .entry import Entry, Key
from .entry_json import entry_from_text

_log = logging.getLogger(__name__)

MAX_CONSIDERED = 64
MAX_RATE_RATIO = 1.25
"""Rates of two slices whose ratio is smaller count as equal."""


@dataclass(frozen=True)
class Contents:
    """Entries in the order of their addition, and the reasons why others are unreadable."""

    entries: tuple[Entry, ...]
    damaged: tuple[str, ...]


def contents_of(documents: Sequence[object]) -> Contents:
    """Read entries, and why some cannot be read."""
    found = [entry_or_reason(document) for document in documents]
    return Contents(
        tuple(each for each in found if isinstance(each, Entry)),
        tuple(each for each in found if isinstance(each, str)),
    )


def entry_or_reason(document: object) -> Entry | str:
    """Read an entry, or why it cannot be read."""
    if not isinstance(document, str):
        return "the entry: is no text"
    try:
        return entry_from_text(document)
    except FileError as error:
        return str(error)


def is_variant(entry: Entry, key: Key) -> bool:
    """Whether an entry is of a kernel with tunable constants, of which `key` has the first values."""
    return bool(entry.first_hash) and entry.asked == key


def ordered(
    documents: Sequence[object],
    is_wanted: Callable[[Entry], bool],
    shape: Mapping[str, int] | None,
    limits: Limits | None,
    where: str,
) -> tuple[Entry, ...]:
    """The wanted entries, the best first. Logs one warning about unreadable ones per database, named by `where`."""
    contents = contents_of(documents)
    damaged = contents.damaged
    if damaged and where not in _warned:
        _warned.add(where)
        _log.warning("%s: %d tuned plans cannot be read and are not used; the first: %s",
                     where, len(damaged), damaged[0])  # fmt: skip
    return in_order([each for each in contents.entries if is_wanted(each)], shape, limits)


def in_order(
    found: Sequence[Entry], shape: Mapping[str, int] | None, limits: Limits | None
) -> tuple[Entry, ...]:  # fmt: skip
    """Entries in the order in which calls of a shape, within limits, prefer them."""
    latest = {each.standing: each.caches for each in sorted(found, key=lambda each: each.provenance.when)}
    return tuple(sorted(found, key=lambda each: _order(each, shape, limits, latest[each.standing])))


_warned: set[str] = set()
"""Databases for which a warning about unreadable plans was logged."""


def _order(
    entry: Entry, shape: Mapping[str, int] | None, limits: Limits | None, latest: str
) -> tuple[Any, ...]:  # fmt: skip
    return (
        entry.standing < 2, _distance(entry.shape, shape), limits is not None and not _similar(entry.limits, limits),
        -entry.standing, entry.standing == 3 and entry.is_of_farm, entry.caches != latest, entry.rank, entry.identity,
    )  # fmt: skip


def _distance(one: Mapping[str, int], other: Mapping[str, int] | None) -> float:
    if other is None or dict(one) == dict(other):
        return 0.0
    return 1e-9 + sum(abs(log2((1 + one.get(name, 0)) / (1 + other[name]))) for name in other)


def _similar(one: Limits, other: Limits) -> bool:
    rates = ((getattr(one, n), getattr(other, n)) for n in ("clock", "memory_bandwidth", "cache_bandwidth"))
    return all(0 < a < MAX_RATE_RATIO * b and b < MAX_RATE_RATIO * a for a, b in rates)
