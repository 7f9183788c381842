"""The farm's own file: its users, jobs, what was said of them, and entries that the tuning database could not take yet.

Everything is written before it counts, so that a head that is killed and started again goes on where it was.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from vkernels.ir.errors import FileError, OptionError, SetupError

from .records import FarmJob, decoded, encoded

FORMAT = 1
APPLICATION = 0x766B666D
MAX_LINES = 2000
"""Lines that are kept of a job."""
_TABLES = """
CREATE TABLE users (name TEXT PRIMARY KEY, token TEXT NOT NULL, is_admin INTEGER NOT NULL);
CREATE TABLE jobs (number INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE lines (id INTEGER PRIMARY KEY, job INTEGER NOT NULL, at REAL NOT NULL, text TEXT NOT NULL);
CREATE INDEX lines_job ON lines (job);
CREATE TABLE unwritten (id INTEGER PRIMARY KEY, entry TEXT NOT NULL);
"""


@dataclass(frozen=True)
class User:
    """Who asks. `is_admin`: may cancel any job, add users, and stop the farm."""

    name: str
    is_admin: bool = False


class Store:
    """The file, for any number of threads. All methods raise `SetupError` if it cannot be read or written."""

    def __init__(self, path: Path):
        """Open or make the file. Raises `FileError` for a file of something else, or of another version."""
        self._path, self._lock = path, threading.Lock()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            path.chmod(0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            mark = self._connection.execute("PRAGMA application_id").fetchone()[0]
            found = self._connection.execute("PRAGMA user_version").fetchone()[0]
            tables = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        except sqlite3.Error as error:
            raise FileError(f"{path}: is no file of a farm, or a damaged one: {error}") from None
        if not tables and not mark:
            with self._writing() as connection:
                for statement in filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif mark != APPLICATION:
            raise FileError(f"{path}: is a database of something else; nothing was changed")
        elif found != FORMAT:
            raise FileError(f"{path}: is of version {found}, and this vkernels knows {FORMAT}; nothing was changed")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # Users

    def add_user(self, name: str, is_admin: bool = False) -> str:
        """Add a user, or give one a new token; returns the token, which is not kept. Raises `OptionError`."""
        if not name.isprintable() or not 0 < len(name) <= 80 or ":" in name:
            raise OptionError(f"a user's name has at most 80 printable characters and no colon, got {name!r:.100}")
        token = secrets.token_urlsafe(32)
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?)", (name, _hash(token), is_admin))
        return token

    def user(self, name: str, token: str) -> User | None:
        """The user with this name and token; None without one."""
        rows = self._read("SELECT token, is_admin FROM users WHERE name = ?", name)
        known, is_admin = rows[0] if rows else ("", 0)
        return User(name, bool(is_admin)) if hmac.compare_digest(str(known), _hash(token)) else None

    # Jobs

    def save(self, *jobs: FarmJob) -> None:
        """Keep jobs as they are now."""
        with self._writing() as connection:
            rows = [(job.number, encoded(job)) for job in jobs]
            connection.executemany("INSERT OR REPLACE INTO jobs VALUES (?, ?)", rows)

    def jobs(self) -> list[FarmJob]:
        """All jobs, in the order of their submission."""
        rows = self._read("SELECT document FROM jobs ORDER BY number")
        return [decoded(row[0], FarmJob, f"{self._path}: a job") for row in rows]

    def say(self, job: int, text: str) -> None:
        """Add a line to what is known of a job."""
        with self._writing() as connection:
            connection.execute("INSERT INTO lines (job, at, text) VALUES (?, ?, ?)", (job, time.time(), text[:4000]))

    def lines(self, job: int) -> list[tuple[float, str]]:
        """The last lines of a job: seconds since 1970, and text."""
        rows = self._read("SELECT at, text FROM lines WHERE job = ? ORDER BY id DESC LIMIT ?", job, MAX_LINES)
        return [(float(at), str(text)) for at, text in reversed(rows)]

    # Entries

    def keep_unwritten(self, entries: Sequence[str]) -> None:
        """Keep entries for later."""
        with self._writing() as connection:
            connection.executemany("INSERT INTO unwritten (entry) VALUES (?)", [(entry,) for entry in entries])

    def unwritten(self) -> dict[int, str]:
        """Entries that the tuning database does not have yet, by number."""
        return {int(number): str(entry) for number, entry in self._read("SELECT id, entry FROM unwritten ORDER BY id")}

    def forget_unwritten(self, numbers: Sequence[int]) -> None:
        """The tuning database has these now."""
        with self._writing() as connection:
            connection.executemany("DELETE FROM unwritten WHERE id = ?", [(number,) for number in numbers])

    def _read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise SetupError(f"{self._path}: cannot be read: {error}") from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise SetupError(f"{self._path}: cannot be written: {error}") from None


def _hash(token: str) -> str:
    """Tokens are random, so one round of a plain hash hides them."""
    return sha256(token.encode()).hexdigest()
