"""Reserve a task in a database while it is measured, so that two farms on one database do not measure the same.

The database, or the file system, releases it as soon as the process ends: no clock is involved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from vkernels.autotune.measure.lock import BusyError, locked
from vkernels.ir.errors import SetupError

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database

PATIENCE = 0.05
"""Seconds to wait for a task that others measure: there are other tasks."""


class ClaimedError(SetupError):
    """Others measure this task now."""


@contextmanager
def claimed(database: Database, what: str) -> Iterator[None]:
    """Reserve what this text names. Raises `ClaimedError` if others have it, and `SetupError` without the database."""
    digest = sha256(what.encode()).hexdigest()
    if database.address.file is None:
        with _advisory(database, int(digest[:15], 16)):
            yield
        return
    folder = Path(f"{database.address.file}.claims")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked([digest[:40]], PATIENCE, folder))
        except BusyError:
            raise ClaimedError("another turn measures this task now") from None
        yield


@contextmanager
def _advisory(database: Database, number: int) -> Iterator[None]:
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    engine = database.address.engine(30.0, False)
    try:
        connection = engine.connect()
        taken = connection.execute(text("SELECT pg_try_advisory_lock(:number)"), {"number": number}).scalar()
        connection.commit()
    except SQLAlchemyError as error:
        raise SetupError(f"{database.address}: {database.address.hide(str(error))[:400]}") from None
    try:
        if not taken:
            raise ClaimedError("another farm measures this task now")
        yield
    finally:
        connection.invalidate()  # ends the session, which releases the lock, also where the server is away
        connection.close()
        engine.dispose()
