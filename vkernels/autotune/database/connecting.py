"""Transactions: tried again while others are in the way, and errors told in our words, without passwords."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from vkernels.ir.errors import Error, FileError, SetupError

from .address import Address

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

PAUSE = 0.02
"""Seconds before a second try; twice as many before each that follows."""
LONGEST_PAUSE = 1.0
BUSY = ("database is locked", "database table is locked", "database schema is locked", "database schema has changed")
"""What SQLite says while others write."""
TRANSIENT = ("40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03")
"""PostgreSQL's codes: serialisation, deadlock, too many connections, a lock, a server that stops or starts."""
ODD = (UnicodeError, OverflowError, MemoryError)
"""What Python's module raises for some bytes of a damaged file: messages and numbers that are none."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


class Store:
    """What reads and writes, each in one transaction. `seconds`: how long to wait for others. `passing`: as
    `Address.engine` has it."""

    def __init__(self, address: Address, seconds: float, read_only: bool, passing: bool = False):
        self._address, self._seconds = address, seconds
        self._engine: Engine = address.engine(seconds, read_only, passing)
        if address.file is not None:
            event.listen(self._engine, "begin", _begin)

    def read(self, work: Work[Result]) -> Result:
        """What `work` finds in one consistent state."""
        return self._tried(lambda: self._run(work, writing=False))

    def write(self, work: Work[Result]) -> Result:
        """What `work` returns; what it writes is there, all of it, when this returns, or nothing is."""
        return self._tried(lambda: self._run(work, writing=True))

    def prepare(self) -> None:
        """Let a file's readers and its writer not wait for each other. A file that is another's stays as it was."""
        if self._address.file is None:
            return
        from .tables import APPLICATION

        def set_journal() -> None:
            with self._engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                mark = raw.execute("PRAGMA application_id").fetchone()[0]
                is_empty = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
                if mark == APPLICATION or (is_empty and not mark):
                    raw.execute("PRAGMA journal_mode = WAL")

        self._tried(set_journal)

    def close(self) -> None:
        self._engine.dispose()

    def _run(self, work: Work[Result], writing: bool) -> Result:
        with self._engine.connect() as connection:
            connection.execution_options(writing=writing)
            with connection.begin():
                return work(connection)

    def _tried(self, once: Callable[[], Result]) -> Result:
        end, pause = time.monotonic() + self._seconds, PAUSE
        while True:
            try:
                return once()
            except (SQLAlchemyError, sqlite3.Error, OSError, *ODD) as error:
                if not _passes(error) or time.monotonic() + pause > end:
                    raise self._told(error) from None
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _told(self, error: Exception) -> Error:
        """The error as ours: nothing of a statement, its parameters or a password is in it."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        text = self._address.hide(" ".join(str(cause).split())) or type(cause).__name__
        damaged = getattr(cause, "sqlite_errorcode", 0) & 0xFF in DAMAGED
        if damaged or isinstance(cause, ODD):
            return FileError(f"{self._address}: is no database, or a damaged one: {text}")
        return SetupError(f"{self._address}: the tuning database cannot be used: {text[:400]}")


def _begin(connection: Connection) -> None:
    """A writer asks for the file at once, as one that began to read cannot always write then."""
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _passes(error: Exception) -> bool:
    """Whether another try may do."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return any(said in str(cause) for said in BUSY)
    code = getattr(cause, "sqlstate", None)
    if code is not None:
        return code in TRANSIENT
    return isinstance(error, OperationalError) and error.connection_invalidated
