"""The database's storage: its tables, how entries become their rows, and transactions on an SQLite file or a server."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sql
from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from vkernels.ir.errors import Error, FileError, SetupError

from .address import Address
from .entry import FARM, Entry
from .entry_json import MAX_FAILURE_TEXT, entry_from_text, entry_to_text, harmless
from .lookup import ABOUT, APPLICATION, DAMAGE_ERRORS, ENTRIES, PROFILES, SCHEMA, shape_text

LOCK = 0x766B7475
OF_FARM = f'%"by": "{FARM}%'
"""Pattern of the documents of a farm's entries. Quotes within texts are escaped, so no other text matches."""

metadata = sql.MetaData()

about = sql.Table(
    ABOUT,
    metadata,
    sql.Column("name", sql.String(40), primary_key=True),
    sql.Column("value", sql.String(200), nullable=False),
)

entries = sql.Table(
    ENTRIES,
    metadata,
    sql.Column("id", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sql.Column("identity", sql.String(64), nullable=False, unique=True),
    sql.Column("question", sql.String(64), nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("compilers", sql.Text, nullable=False),
    sql.Column("shape", sql.Text, nullable=False),
    sql.Column("standing", sql.SmallInteger, nullable=False),
    sql.Column("rank", sql.Float, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
    sql.Column("document", sql.Text, nullable=False),
    sql.Column("asked", sql.String(64), nullable=False, server_default=""),
    sql.Index("vkernels_entries_asked", "question", "standing", "rank"),
    sql.Index("vkernels_entries_kernel", "kernel"),
    sql.Index("vkernels_entries_versions", "asked", "standing", "rank"),
)
"""`document`: the entry as JSON, the only authority; the other columns serve queries. `asked`: the digest of
`Entry.asked`, for kernels with tunable constants; it is added to databases of earlier versions, which lack it."""

profiles = sql.Table(
    PROFILES,
    metadata,
    sql.Column("id", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sql.Column("identity", sql.String(64), nullable=False, unique=True),
    sql.Column("call", sql.String(64), nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
    sql.Column("document", sql.Text, nullable=False),
    sql.Index("vkernels_profiles_call", "call"),
)
"""Durations of calls, by the digest of their `CallKey`. It is added to databases of earlier versions, which lack it."""


def check_ours(connection: sql.Connection, where: str) -> bool:
    """Whether our tables are there; False for an empty database. Raises `FileError` for one of other software."""
    names = set(sql.inspect(connection).get_table_names())
    ours = {about.name, entries.name}
    application = _application(connection)
    if not names & ours:
        if connection.dialect.name == "sqlite" and (names or application):
            raise FileError(f"{where}: is a database of something else; nothing was changed")
        return False
    if not ours <= names or application not in (None, APPLICATION):
        raise FileError(f"{where}: is no tuning database, or a damaged one; nothing was changed")
    found = connection.execute(sql.select(about.c.value).where(about.c.name == "schema")).scalar()
    if found != str(SCHEMA):
        raise FileError(
            f"{where}: its tables are of version {str(found)[:20]!r}, which this vkernels does not know (it knows "
            f"{SCHEMA}); nothing was changed"
        )
    return True


def make_tables(connection: sql.Connection, where: str) -> None:
    """Make our tables unless they are there, within an exclusive transaction. Raises as `check_ours`."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    if check_ours(connection, where):
        if not has_versions(connection):
            connection.exec_driver_sql(f"ALTER TABLE {entries.name} ADD COLUMN asked VARCHAR(64) NOT NULL DEFAULT ''")
            next(index for index in entries.indexes if "asked" in index.columns).create(connection)
        profiles.create(connection, checkfirst=True)
        return
    metadata.create_all(connection)
    connection.execute(sql.insert(about), [{"name": "product", "value": "vkernels"}, {"name": "schema", "value": "1"}])
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")


def prove_writable(connection: sql.Connection) -> None:
    """Write a row without changing it."""
    connection.execute(sql.update(about).where(about.c.name == "product").values(value=about.c.value))


def has_versions(connection: sql.Connection) -> bool:
    """Whether the table has the column `asked`."""
    return any(column["name"] == "asked" for column in sql.inspect(connection).get_columns(entries.name))


def _application(connection: sql.Connection) -> Any:
    if connection.dialect.name != "sqlite":
        return None
    return connection.exec_driver_sql("PRAGMA application_id").scalar()


# Rows


def rows_of(given: Iterable[Entry]) -> list[dict[str, Any]]:
    """Rows, ordered by identity, so that concurrent writers cannot deadlock."""
    found: dict[str, Entry] = {}
    for entry in given:
        known = found.get(entry.identity)
        if known is None or entry.standing >= known.standing:
            found[entry.identity] = entry
    return [_row(found[identity]) for identity in sorted(found)]


def _row(entry: Entry) -> dict[str, Any]:
    """The row of an entry, which is read back first: only readable entries are stored.

    The text of a failure may be anything: it is shortened and cleaned.
    """
    entry = replace(entry, text=harmless(entry.text[:MAX_FAILURE_TEXT]))
    document = entry_to_text(entry)
    entry_from_text(document)
    return {
        "identity": entry.identity, "question": entry.key.digest, "kernel": entry.kernel,
        "compilers": entry.key.compilers, "shape": shape_text(entry.shape), "standing": entry.standing,
        "rank": entry.rank, "created": entry.provenance.when, "document": document,
        "asked": entry.asked.digest if entry.first_hash else "",
    }  # fmt: skip


def insert(connection: sql.Connection, table: sql.Table = entries) -> Any:
    """An insert statement of the connection's dialect."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def upsert(connection: sql.Connection) -> Any:
    """An insert statement that replaces entries of the same identity, unless they have a higher standing.

    An entry of a farm does not replace one of the same standing that a user's own run selected.
    """
    statement = insert(connection)
    new = statement.excluded
    is_own = sql.and_(entries.c.standing == 3, entries.c.document.not_like(OF_FARM))
    columns = [column.name for column in entries.columns if column.name not in ("id", "identity")]
    return statement.on_conflict_do_update(
        index_elements=["identity"],
        set_={name: new[name] for name in columns},
        where=sql.and_(
            new.standing >= entries.c.standing,
            sql.or_(new.standing > entries.c.standing, new.document.not_like(OF_FARM), sql.not_(is_own)),
        ),
    )


Result = TypeVar("Result")
Work = Callable[[Connection], Result]

PAUSE = 0.02
"""Seconds before the first retry; doubled before each further one."""
MAX_PAUSE = 1.0
BUSY = ("database is locked", "database table is locked", "database schema is locked", "database schema has changed")
"""Messages of SQLite while others write."""
TRANSIENT = ("40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03")
"""PostgreSQL's codes: serialisation failure, deadlock, too many connections, a lock, a server that stops or starts."""
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class Store:
    """Runs transactions. `seconds`: how long to wait while the database is busy. `temporary`: see `Address.engine`."""

    def __init__(self, address: Address, seconds: float, read_only: bool, temporary: bool = False):
        self._address, self._seconds = address, seconds
        self._engine: Engine = address.engine(seconds, read_only, temporary)
        if address.file is not None:
            event.listen(self._engine, "begin", _begin)

    def read(self, work: Work[Result]) -> Result:
        """Run `work` on a consistent state of the database and return its result."""
        return self._retry(lambda: self._run(work, writing=False))

    def write(self, work: Work[Result]) -> Result:
        """Run `work` and return its result. All its writes are durable when this returns, or none is."""
        return self._retry(lambda: self._run(work, writing=True))

    def prepare(self) -> None:
        """Switch our SQLite file to write-ahead logging, so that readers and the writer do not block each other."""
        if self._address.file is None:
            return

        def set_journal() -> None:
            with self._engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                mark = raw.execute("PRAGMA application_id").fetchone()[0]
                is_empty = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
                if mark == APPLICATION or (is_empty and not mark):
                    raw.execute("PRAGMA journal_mode = WAL")

        self._retry(set_journal)

    def close(self) -> None:
        self._engine.dispose()

    def _run(self, work: Work[Result], writing: bool) -> Result:
        with self._engine.connect() as connection:
            connection.execution_options(writing=writing)
            with connection.begin():
                return work(connection)

    def _retry(self, once: Callable[[], Result]) -> Result:
        end, pause = time.monotonic() + self._seconds, PAUSE
        while True:
            try:
                return once()
            except (SQLAlchemyError, sqlite3.Error, OSError, *DAMAGE_ERRORS) as error:
                if not _is_transient(error) or time.monotonic() + pause > end:
                    raise self._converted(error) from None
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, MAX_PAUSE)

    def _converted(self, error: Exception) -> Error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        text = self._address.hide(" ".join(str(cause).split())) or type(cause).__name__
        damaged = getattr(cause, "sqlite_errorcode", 0) & 0xFF in DAMAGE_CODES
        if damaged or isinstance(cause, DAMAGE_ERRORS):
            return FileError(f"{self._address}: is no database, or a damaged one: {text}")
        return SetupError(f"{self._address}: the tuning database cannot be used: {text[:400]}")


def _begin(connection: Connection) -> None:
    # Writers lock the file at once: a transaction that began by reading cannot always write later.
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _is_transient(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return any(message in str(cause) for message in BUSY)
    code = getattr(cause, "sqlstate", None)
    if code is not None:
        return code in TRANSIENT
    return isinstance(error, OperationalError) and error.connection_invalidated
