"""Tuned plans of an SQLite file by Python's own `sqlite3`: importing SQLAlchemy takes ten times as long as a query.

Only for calls, which read. Whatever is not as it should be is left to `Database`, which says what is wrong.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal

from .address import connect_file
from .entry import Key
from .ranking import MAX_CONSIDERED

SCHEMA = 1
APPLICATION = 0x766B7475
"""Application id of our SQLite files: `vktu`."""
ABOUT, ENTRIES, PROFILES = "vkernels_about", "vkernels_entries", "vkernels_profiles"
"""Tables of a database. Those of earlier versions lack the last one."""

DAMAGE_ERRORS = (UnicodeError, OverflowError, MemoryError)
"""Raised by Python's SQLite module for some damaged files."""
BUSY_SECONDS = 0.5
"""How long to wait for a writer."""

Column = Literal["question", "asked"]


def shape_text(shape: Mapping[str, int]) -> str:
    """Sizes as the column `shape` has them."""
    return json.dumps(dict(shape), sort_keys=True)


def documents_in(file: Path, column: Column, key: Key, shape: Mapping[str, int]) -> list[object] | None:
    """The documents that `Database.candidates` considers, or `Database.versions` (`asked`), in any order.

    None if the file is busy, damaged, of an earlier version, or no database of ours.
    """
    statement = f"""
        SELECT document FROM {ENTRIES} WHERE {column} = ? AND standing BETWEEN 1 AND 3
        ORDER BY CASE WHEN standing >= 2 THEN 0 ELSE 1 END, CASE WHEN shape = ? THEN 0 ELSE 1 END,
                 standing DESC, rank, identity LIMIT {MAX_CONSIDERED}"""
    return _asked(file, statement, (key.digest, shape_text(shape)))


def wrong_in(file: Path, column: Column, key: Key) -> list[object]:
    """The documents of plans that gave wrong answers, in any order; none if the file cannot be read now."""
    statement = f"SELECT document FROM {ENTRIES} WHERE {column} = ? AND standing = 4 LIMIT {MAX_CONSIDERED}"
    return _asked(file, statement, (key.digest,)) or []


def _asked(file: Path, statement: str, values: tuple[str, ...]) -> list[object] | None:
    try:
        with closing(connect_file(file, BUSY_SECONDS, read_only=True)) as connection:
            connection.execute("BEGIN")
            if not _is_ours(connection):
                return None
            return [row[0] for row in connection.execute(statement, values)]
    except (sqlite3.Error, OSError, *DAMAGE_ERRORS):
        return None


def _is_ours(connection: sqlite3.Connection) -> bool:
    application = connection.execute("PRAGMA application_id").fetchone()
    schema = connection.execute(f"SELECT value FROM {ABOUT} WHERE name = 'schema'").fetchone()
    return bool(application == (APPLICATION,) and schema == (str(SCHEMA),))
