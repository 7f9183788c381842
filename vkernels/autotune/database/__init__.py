"""The tuning database: plans, the limits that they were measured under, and their times; docs/database.md.

SQLAlchemy is imported when a database is opened.
"""

from typing import TYPE_CHECKING, Any

from .entry import MEASURED, MODELLED, Entry, Key, Provenance, key_of

if TYPE_CHECKING:
    from .database import Database, EntryFilter
    from .ranking import Contents

__all__ = ["MEASURED", "MODELLED", "Contents", "Database", "Entry", "EntryFilter", "Key", "Provenance", "key_of"]


def __getattr__(name: str) -> Any:
    if name in ("Database", "EntryFilter"):
        from . import database

        return getattr(database, name)
    if name == "Contents":
        from .ranking import Contents

        return Contents
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
