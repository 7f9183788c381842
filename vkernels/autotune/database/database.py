"""The database: add, query and remove entries, from many processes at once. Everything read is validated."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, case, delete, select, update

from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.limits import Limits

from .address import Address, address_of
from .entry import Entry, Key, compilers
from .lookup import shape_text
from .profile_rows import StoredProfiles, add_profiles, profiles_with, remove_profiles, stored_in
from .ranking import MAX_CONSIDERED, Contents, contents_of, entry_or_reason, is_variant, ordered
from .storage import (
    Store,
    check_ours,
    entries,
    has_versions,
    insert,
    make_tables,
    prove_writable,
    rows_of,
    upsert,
)

_log = logging.getLogger(__name__)

BUSY_SECONDS = 30.0
RETRY_SECONDS = 60.0
"""Pause before writing again to a database that could not be written."""
MAX_DELETED_AT_ONCE = 500
MAX_ASKED = 10_000


@dataclass(frozen=True)
class EntryFilter:
    """Selects the entries that match all fields that are not None. `before`: seconds since 1970."""

    kernel: str | None = None
    key: Key | None = None
    shape: Mapping[str, int] | None = None
    before: float | None = None

    @property
    def conditions(self) -> list[Any]:
        """SQL conditions."""
        columns = entries.c
        return [
            *([] if self.kernel is None else [columns.kernel == self.kernel]),
            *([] if self.key is None else [columns.question == self.key.digest]),
            *([] if self.shape is None else [columns.shape == shape_text(self.shape)]),
            *([] if self.before is None else [columns.created < self.before]),
        ]


class Database:
    """An open database, for any number of threads, processes and forks: each use opens a new connection.

    All methods raise `SetupError` if it cannot be reached or stays busy, and `FileError` if it is damaged.
    """

    def __init__(self, address: Address, store: Store):
        self.address = address
        self._store = store
        self._waiting: list[Entry] = []
        self._retry_at = 0.0
        self._lock = threading.Lock()

    @staticmethod
    def open(
        url: str | None = None, read_only: bool = False, seconds: float = BUSY_SECONDS, temporary: bool = False
    ) -> Database:  # fmt: skip
        """Open the database at a path or URL, by default the user's own; it is created unless `read_only`.

        `seconds`: how long to wait while it is busy. `temporary`: it is for this process alone; writes are faster, and
        may be lost in a power failure.

        Raises `OptionError` for an invalid address, and `FileError` for a file that is absent, unreadable or not a
        tuning database; such a file is not changed.
        """
        address = address_of(url)
        if address.file is not None and not read_only:
            _make_file(address.file, own=url is None)
        if address.file is not None and not address.file.is_file():
            raise FileError(f"{address}: there is no database")
        store = Store(address, seconds, read_only, temporary)
        if not read_only:
            store.prepare()
            store.write(lambda connection: make_tables(connection, str(address)))
        elif not store.read(lambda connection: check_ours(connection, str(address))):
            raise FileError(f"{address}: is no tuning database: it is empty")
        return Database(address, store)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        except (SetupError, FileError):
            if error[0] is None:  # else the earlier error is more useful
                raise

    def close(self) -> None:
        """Close the database. Raises `SetupError` if entries passed to `keep` still cannot be written."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            self.add(*waiting)
        except (SetupError, FileError) as error:
            many = f"{len(waiting)} measurement{'s' if len(waiting) > 1 else ''}"
            raise SetupError(f"{many} could not be remembered: {error}") from error
        finally:
            self._store.close()

    # Write

    def add(self, *given: Entry) -> None:
        """Store entries, all or none; they are durable when this returns.

        An entry replaces an earlier one of the same plan and environment unless that has a higher `Entry.standing`.
        Entries of other environments stay.
        """
        if rows := rows_of(given):
            self._store.write(lambda connection: connection.execute(upsert(connection), rows))

    def keep(self, entry: Entry) -> None:
        """`add` an entry now, or later if the database cannot be written; `close` raises if it never could.

        For expensive results: trouble with the database does not end a tuning run.
        """
        with self._lock:
            self._waiting.append(entry)
            if time.monotonic() < self._retry_at:
                return
            waiting, self._waiting = self._waiting, []
        try:
            self.add(*waiting)
        except (SetupError, FileError) as error:
            with self._lock:
                if not self._retry_at:
                    _log.warning("what is found is not remembered for now: %s", error)
                self._waiting, self._retry_at = waiting + self._waiting, time.monotonic() + RETRY_SECONDS

    def take_unwritten(self) -> list[Entry]:
        """Write what `keep` still holds, or give back what cannot be written now, which is then the caller's."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            self.add(*waiting)
        except (SetupError, FileError):
            return waiting
        return []

    def withdraw(self, identity: str) -> None:
        """Make an entry that a tuning run selected a trial again. Nothing happens without such an entry."""

        def demote(connection: Connection) -> None:
            statement = select(entries.c.document).where(entries.c.identity == identity)
            found = [each for each in contents_of(connection.execute(statement).scalars().all()).entries if each.final]
            for row in rows_of(replace(entry, final=False) for entry in found):
                connection.execute(update(entries).where(entries.c.identity == identity).values(row))

        self._store.write(demote)

    def check_writable(self) -> None:
        """Raise `SetupError` if nothing can be written: better before hours of tuning than after."""
        self._store.write(prove_writable)

    def add_new(self, given: Iterable[Entry]) -> tuple[int, int]:
        """Add entries with new identities, all or none; return how many were added, and how many existed."""
        rows = rows_of(given)

        def add(connection: Connection) -> int:
            statement = insert(connection).on_conflict_do_nothing(index_elements=["identity"])
            statement = statement.returning(entries.c.identity)
            return sum(connection.execute(statement, row).first() is not None for row in rows)

        added = self._store.write(add)
        return added, len(rows) - added

    def add_profiles(self, given: Sequence[CallProfile]) -> None:
        """Store profiles of calls, all or none; each replaces one of the same identity."""
        self._store.write(lambda connection: add_profiles(connection, given))

    def remove_profiles(self, identities: Sequence[str]) -> int:
        """Delete profiles of calls by their identities; returns how many there were."""
        return self._store.write(lambda connection: remove_profiles(connection, identities))

    # Read

    def all_profiles(self, kernel: str | None = None, before: float | None = None) -> StoredProfiles:
        """The profiles of all calls or of one kernel's, and those made before a time (seconds since 1970)."""
        return self._store.read(lambda connection: stored_in(connection, kernel, before))

    def profiles(self, key: CallKey) -> list[CallProfile]:
        """The profiles of calls with a key. Unreadable ones are left out."""
        return self._store.read(lambda connection: profiles_with(connection, key))

    def unmeasured(self) -> tuple[Entry, ...]:
        """The best modelled entry of each key and shape that has no measured one; at most `MAX_ASKED`."""
        columns, others = entries.c, entries.alias()
        is_measured = (
            select(others.c.id)
            .where(others.c.question == columns.question, others.c.shape == columns.shape)
            .where(others.c.standing.in_((2, 3)))
        )
        statement = (
            select(columns.document)
            .where(columns.standing == 1, ~is_measured.exists())
            .order_by(columns.rank, columns.id)
            .limit(MAX_ASKED)
        )
        found: dict[tuple[str, str], Entry] = {}
        for entry in contents_of(self._store.read(lambda each: each.execute(statement).scalars().all())).entries:
            found.setdefault((entry.key.digest, shape_text(entry.shape)), entry)
        return tuple(found.values())

    def best(self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None) -> Entry | None:
        """The first of `candidates`."""
        return next(iter(self.candidates(key, shape, limits)), None)

    def candidates(
        self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None
    ) -> tuple[Entry, ...]:
        """Entries with a time under a key, the best first. Whether their plans fit is not checked.

        Measured entries come before modelled ones; then entries of this `shape` before others of its class, the
        nearest first; then slices with rates like those of `limits`; then results of final comparisons; then those
        judged in the settings of the latest of these; then the least time.
        """
        statement = _best_documents(entries.c.question, key, shape)
        documents = self._store.read(lambda connection: connection.execute(statement).scalars().all())
        return ordered(documents, lambda each: each.key == key, shape, limits, str(self.address))

    def versions(
        self, key: Key, shape: Mapping[str, int] | None = None, limits: Limits | None = None
    ) -> tuple[Entry, ...]:
        """`candidates` of a kernel with tunable constants, for all their values.

        `key`: of the kernel with the first value of each constant.
        """
        statement = _best_documents(entries.c.asked, key, shape)

        def read(connection: Connection) -> Sequence[object]:
            return connection.execute(statement).scalars().all() if has_versions(connection) else []

        return ordered(self._store.read(read), lambda each: is_variant(each, key), shape, limits, str(self.address))

    def entries(self, wanted: EntryFilter | None = None) -> tuple[Entry, ...]:
        """Entries in the order of their addition. Unreadable ones are left out, with a warning."""
        contents = self.read(wanted)
        if contents.damaged:
            _log.warning("%s: %d entries cannot be read; the first: %s",
                         self.address, len(contents.damaged), contents.damaged[0])  # fmt: skip
        return contents.entries

    def read(self, wanted: EntryFilter | None = None) -> Contents:
        """Entries in the order of their addition, and what is wrong with the unreadable ones."""
        conditions = (wanted or EntryFilter()).conditions
        statement = select(entries.c.document).where(*conditions).order_by(entries.c.id)
        return contents_of(self._store.read(lambda connection: connection.execute(statement).scalars().all()))

    def prune(
        self,
        wanted: EntryFilter | None = None,
        stale: bool = False,
        failures: bool = False,
        beaten: bool = False,
        damaged: bool = False,
        dry: bool = False,
    ) -> int:
        """Delete entries, and return their number; `dry`: only return it.

        Without flags, all `wanted` entries; else those of them that match a flag: `stale`, of other compiler versions;
        `failures`; `beaten`, all but the best of each key, shape and origin; `damaged`, unreadable.
        """
        columns = entries.c
        statement = (
            select(columns.id, columns.question, columns.shape, columns.standing, columns.compilers, columns.document)
            .where(*(wanted or EntryFilter()).conditions)
            .order_by(columns.standing.desc(), columns.rank, columns.id)
        )

        def remove(connection: Connection) -> int:
            present, seen, doomed = {compilers(False), compilers(True)}, set(), []
            for row in connection.execute(statement):
                group = (row.question, row.shape, row.standing == 1)
                is_timed = row.standing in (1, 2, 3)
                flags = (
                    stale and row.compilers not in present, failures and row.standing in (0, 4),
                    beaten and is_timed and group in seen, damaged and isinstance(entry_or_reason(row.document), str),
                )  # fmt: skip
                if is_timed:
                    seen.add(group)
                if any(flags) or not (stale or failures or beaten or damaged):
                    doomed.append(row.id)
            for start in range(0, 0 if dry else len(doomed), MAX_DELETED_AT_ONCE):
                some = doomed[start : start + MAX_DELETED_AT_ONCE]
                connection.execute(delete(entries).where(columns.id.in_(some)))
            return len(doomed)

        return self._store.read(remove) if dry else self._store.write(remove)


def _best_documents(question: Any, key: Key, shape: Mapping[str, int] | None) -> Any:
    columns = entries.c
    return (
        select(columns.document)
        .where(question == key.digest, columns.standing.between(1, 3))
        .order_by(
            case((columns.standing >= 2, 0), else_=1),
            case((columns.shape == ("" if shape is None else shape_text(shape)), 0), else_=1),
            columns.standing.desc(), columns.rank, columns.identity,
        )
        .limit(MAX_CONSIDERED)
    )  # fmt: skip


def _make_file(path: Path, own: bool) -> None:
    try:
        if own:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except FileNotFoundError:
        raise FileError(f"{path}: there is no folder {path.parent}") from None
    except OSError as error:
        raise SetupError(f"{path}: cannot be opened: {error.strerror}") from None
