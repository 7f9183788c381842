"""The database: entries in, entries out, from many processes at once. What is read is checked as a stranger's."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, and_, case, delete, select

from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.limits import Limits

from .address import Address, address_of
from .connecting import Store
from .entry import Entry
from .entry_json import entry_from_text
from .exchange import document_of, entries_of
from .key import Key, compilers
from .rows import insert, rows_of, shape_text, upsert
from .tables import check_ours, entries, has_versions, make_tables, prove_writable

_log = logging.getLogger(__name__)

BUSY_SECONDS = 30.0
"""Seconds that a database is waited for, where nobody says otherwise."""
RETRY_SECONDS = 60.0
"""Seconds after which a database that could not be written is tried again."""
MAX_CONSIDERED = 64
"""Entries that are looked at for the best."""
MAX_RATE_RATIO = 1.25
"""Rates of two slices that differ by less, as a factor, count as the same."""


@dataclass(frozen=True)
class EntryFilter:
    """Which entries: all that have what is not None. `shape`: with `key`. `before`: seconds since 1970."""

    kernel: str | None = None
    key: Key | None = None
    shape: Mapping[str, int] | None = None
    before: float | None = None


@dataclass(frozen=True)
class Contents:
    """Entries as they were added, and why others cannot be read."""

    entries: tuple[Entry, ...]
    damaged: tuple[str, ...]


class Database:
    """An open database. For any number of threads, processes and forks at once: it connects anew for each use, unless
    it is a passing one.

    Everything raises `SetupError` where it cannot be reached or stays busy, `FileError` where it is damaged.
    """

    def __init__(self, address: Address, store: Store):
        self.address = address
        self._store = store
        self._waiting: list[Entry] = []
        self._again = 0.0
        self._lock = threading.Lock()

    @staticmethod
    def open(
        url: str | None = None, read_only: bool = False, seconds: float = BUSY_SECONDS, passing: bool = False
    ) -> Database:  # fmt: skip
        """The database at a path or URL, else the user's own; made where there is none, unless `read_only`.

        `seconds`: how long to wait for it, now and later. `passing`: it is for this process alone, and nobody wants it
        once that has ended: it is faster, and a power failure may leave nothing of it.

        Raises `OptionError` for what is no address, `FileError` for a file that is not there, is another's, or cannot
        be read; such a file stays as it was.
        """
        address = address_of(url)
        if address.file is not None and not read_only:
            _make_file(address.file, own=url is None)
        if address.file is not None and not address.file.is_file():
            raise FileError(f"{address}: there is no database")
        store = Store(address, seconds, read_only, passing)
        if read_only:
            if not store.read(lambda connection: check_ours(connection, str(address))):
                raise FileError(f"{address}: is no tuning database: it is empty")
        else:
            store.prepare()
            store.write(lambda connection: make_tables(connection, str(address)))
        return Database(address, store)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        except (SetupError, FileError):
            if error[0] is None:
                raise  # else what happened before counts

    def close(self) -> None:
        """Let go of it. Raises `SetupError` where entries that it was to `keep` still cannot be written."""
        try:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self.add(*waiting)
        except (SetupError, FileError) as error:
            many = f"{len(waiting)} measurement{'s' if len(waiting) > 1 else ''}"
            raise SetupError(f"{many} could not be remembered: {error}") from error
        finally:
            self._store.close()

    # In

    def add(self, *given: Entry) -> None:
        """Remember entries, all or none; they are there when this returns.

        One replaces what was measured of the same plan in the same environment, unless that stands higher
        (`Entry.standing`). Entries of other environments stay beside it.
        """
        rows = rows_of(given)
        self._store.write(lambda connection: connection.execute(upsert(connection), rows) if rows else None)

    def keep(self, entry: Entry) -> None:
        """`add` an entry, now or later: while the database cannot be written it waits, and `close` says so in the end.

        For what took long to find: no trouble with a database ends a tuning run.
        """
        with self._lock:
            self._waiting.append(entry)
            if time.monotonic() < self._again:
                return
            waiting, self._waiting = self._waiting, []
        try:
            self.add(*waiting)
        except (SetupError, FileError) as error:
            with self._lock:
                if not self._again:
                    _log.warning("what is found is not remembered for now: %s", error)
                self._waiting, self._again = waiting + self._waiting, time.monotonic() + RETRY_SECONDS

    def check_writable(self) -> None:
        """Write something. Raises `SetupError` where that cannot be: better before hours of tuning than after."""
        self._store.write(prove_writable)

    def add_new(self, given: Iterable[Entry]) -> tuple[int, int]:
        """Remember those whose identity is not there yet, all or none: how many were added, how many were there."""
        rows = rows_of(given)

        def add(connection: Connection) -> int:
            statement = insert(connection).on_conflict_do_nothing(index_elements=["identity"])
            statement = statement.returning(entries.c.identity)
            return sum(connection.execute(statement, row).first() is not None for row in rows)

        added = self._store.write(add)
        return added, len(rows) - added

    def import_(self, document: object, where: str = "the document") -> tuple[int, int]:
        """`add_new` of what `export` gave, here or elsewhere. Raises `FileError`, and then nothing has changed."""
        return self.add_new(entries_of(document, where))

    # Out

    def export(self, wanted: EntryFilter | None = None) -> dict[str, Any]:
        """Entries as one object for JSON."""
        return document_of(self.entries(wanted))

    def best(self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None) -> Entry | None:
        """The entry with the plan to take: the first of `candidates`."""
        return next(iter(self.candidates(key, shape, limits)), None)

    def candidates(
        self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None
    ) -> tuple[Entry, ...]:
        """Entries with a time under a key, the best first. Whether their plans fit is not asked.

        What was measured comes before what was modelled; then this very `shape` before others of its class, the nearest
        first; then slices with rates like those of `limits`; then what a run settled on; then the least time.
        """
        statement = _best_of(entries.c.question, key, shape)
        documents = self._store.read(lambda connection: connection.execute(statement).scalars().all())
        return self._in_order(documents, lambda each: each.key == key, shape, limits)

    def versions(
        self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None
    ) -> tuple[Entry, ...]:
        """The same of a kernel with tunable constants, whatever they are. `key`: of the kernel with their first values;
        an entry's own tells which it was."""
        statement = _best_of(entries.c.asked, key, shape)

        def read(connection: Connection) -> Sequence[object]:
            return connection.execute(statement).scalars().all() if has_versions(connection) else []

        return self._in_order(
            self._store.read(read), lambda each: bool(each.first_hash) and each.asked == key, shape, limits
        )

    def entries(self, wanted: EntryFilter | None = None) -> tuple[Entry, ...]:
        """Entries in the order in which they came. Those that cannot be read are left out, with a warning."""
        contents = self.read(wanted)
        if contents.damaged:
            _log.warning("%s: %d entries cannot be read; the first: %s",
                         self.address, len(contents.damaged), contents.damaged[0])  # fmt: skip
        return contents.entries

    def read(self, wanted: EntryFilter | None = None) -> Contents:
        """The same, with what is wrong with those that cannot be read."""
        statement = select(entries.c.document).where(*_conditions(wanted or EntryFilter())).order_by(entries.c.id)
        return self._understood(
            self._store.read(lambda connection: connection.execute(statement).scalars().all()))  # fmt: skip

    def prune(
        self,
        wanted: EntryFilter | None = None,
        stale: bool = False,
        failures: bool = False,
        beaten: bool = False,
        damaged: bool = False,
        dry: bool = False,
    ) -> int:
        """Remove entries, and say how many; or only say it, if `dry`.

        Of those `wanted`: all, or with any of the flags those only that some flag names: `stale`, made by other
        compilers than the present ones; `failures`; `beaten`, all but the best of each key, shape and origin;
        `damaged`, which cannot be read.
        """
        columns = entries.c
        statement = select(
            columns.id, columns.question, columns.shape, columns.standing, columns.compilers, columns.document
        ).where(*_conditions(wanted or EntryFilter()))  # fmt: skip
        statement = statement.order_by(columns.standing.desc(), columns.rank, columns.id)

        def remove(connection: Connection) -> int:
            present, seen, doomed = {compilers(False), compilers(True)}, set(), []
            for row in connection.execute(statement):
                group = (row.question, row.shape, row.standing == 1)
                is_beaten = row.standing in (1, 2, 3) and group in seen
                seen.add(group) if row.standing in (1, 2, 3) else None
                flags = (
                    stale and row.compilers not in present, failures and row.standing in (0, 4), beaten and is_beaten,
                    damaged and isinstance(_understand(row.document), str),
                )  # fmt: skip
                if any(flags) or not (stale or failures or beaten or damaged):
                    doomed.append(row.id)
            for start in range(0, 0 if dry else len(doomed), 500):
                connection.execute(delete(entries).where(columns.id.in_(doomed[start : start + 500])))
            return len(doomed)

        return self._store.read(remove) if dry else self._store.write(remove)

    def _in_order(
        self, documents: Sequence[object], is_one: Callable[[Entry], bool], shape: Mapping[str, int] | None,
        limits: Limits | None,
    ) -> tuple[Entry, ...]:  # fmt: skip
        contents = self._understood(documents)
        if contents.damaged:
            _warn_of_damaged(str(self.address), contents.damaged)
        found = filter(is_one, contents.entries)
        return tuple(sorted(found, key=lambda each: _order(each, shape, limits)))

    def _understood(self, documents: Sequence[object]) -> Contents:
        found = [_understand(document) for document in documents]
        return Contents(
            tuple(each for each in found if isinstance(each, Entry)),
            tuple(each for each in found if isinstance(each, str)),
        )


_damaged: set[str] = set()


def _warn_of_damaged(where: str, damaged: Sequence[str]) -> None:
    """Say once for each database that a call's entries cannot be read."""
    if where not in _damaged:
        _damaged.add(where)
        many = len(damaged)
        _log.warning("%s: %d tuned plans cannot be read and are not used; the first: %s", where, many, damaged[0])


def _best_of(question: Any, key: Key, shape: Mapping[str, int] | None) -> Any:
    """What asks for the documents of the best entries with a time, by the column of their question."""
    text = "" if shape is None else shape_text(shape)
    columns = entries.c
    return (
        select(columns.document)
        .where(and_(question == key.digest, columns.standing.between(1, 3)))
        .order_by(
            case((columns.standing >= 2, 0), else_=1), case((columns.shape == text, 0), else_=1),
            columns.standing.desc(), columns.rank, columns.identity,
        )
        .limit(MAX_CONSIDERED)
    )  # fmt: skip


def _understand(document: object) -> Entry | str:
    """An entry, or why it is none."""
    if not isinstance(document, str):
        return "the entry: is no text"
    try:
        return entry_from_text(document)
    except FileError as error:
        return str(error)


def _order(entry: Entry, shape: Mapping[str, int] | None, limits: Limits | None) -> tuple[Any, ...]:
    return (
        entry.standing < 2, _apart(entry.shape, shape), limits is not None and not _alike(entry.limits, limits),
        -entry.standing, entry.rank, entry.identity,
    )  # fmt: skip


def _apart(one: Mapping[str, int], other: Mapping[str, int] | None) -> float:
    """How far two shapes are from each other, in powers of two; 0 of the same."""
    if other is None or dict(one) == dict(other):
        return 0.0
    return 1e-9 + sum(abs(log2((1 + one.get(name, 0)) / (1 + other[name]))) for name in other)


def _alike(one: Limits, other: Limits) -> bool:
    pairs = [(one.clock, other.clock), (one.memory_bandwidth, other.memory_bandwidth),
             (one.cache_bandwidth, other.cache_bandwidth)]  # fmt: skip
    return all(0 < a < MAX_RATE_RATIO * b and b < MAX_RATE_RATIO * a for a, b in pairs)


def _conditions(wanted: EntryFilter) -> list[Any]:
    found = []
    if wanted.kernel is not None:
        found.append(entries.c.kernel == wanted.kernel)
    if wanted.key is not None:
        found.append(entries.c.question == wanted.key.digest)
    if wanted.shape is not None:
        found.append(entries.c.shape == shape_text(wanted.shape))
    if wanted.before is not None:
        found.append(entries.c.created < wanted.before)
    return found


def _make_file(path: Path, own: bool) -> None:
    """An empty file that its owner alone may read and write, where there is none; and the folder of the user's own."""
    try:
        if own:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except FileNotFoundError:
        raise FileError(f"{path}: there is no folder {path.parent}") from None
    except OSError as error:
        raise SetupError(f"{path}: cannot be opened: {error.strerror}") from None
