"""Options and helpers that the `vk db` commands share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError

from ..options import Json as Json
from ..results import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.autotune.database import Contents, Database, EntryFilter

SCHEMA = 1
SECONDS = 10.0
"""How long an interactive command waits for a locked database."""

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="PATH|URL", help="Database file, or postgresql://USER@HOST/NAME. Default: the user's own file."
    ),
]
Kernel = Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Only entries of this kernel.")]


@contextmanager
def opened(url: str | None, writing: bool = False) -> Iterator[Database]:
    """Open the database. Raises `FileError` and `SetupError` as it does."""
    from vkernels.autotune.database import Database

    with Database.open(url, read_only=not writing, seconds=SECONDS) as database:
        yield database


def read_wanted(database: Database, wanted: EntryFilter) -> Contents:
    """Read the requested entries. Raises `OptionError` with the known names for an unknown kernel."""
    from vkernels.autotune.database import EntryFilter
    from vkernels.ir.did_you_mean import did_you_mean

    found = database.read(wanted)
    if wanted.kernel is not None and not found.entries and not found.damaged:
        names = sorted({entry.kernel for entry in database.read(EntryFilter()).entries})
        there = did_you_mean(wanted.kernel, names) if names else "the database is empty"
        raise OptionError(f"{database.address}: has no entries of kernel {wanted.kernel!r}: {there}")
    return found


def write_result(path: Path | None, command: str, database: Database, **results: Any) -> None:
    """Write results as JSON, if requested."""
    if path is not None:
        said = {"schema_version": SCHEMA, "command": f"db {command}", "database": str(database.address)}
        write_json(path, {**said, **results})


def console(to_errors: bool) -> Console:
    """Return the console for text output."""
    from rich.console import Console

    return Console(stderr=to_errors, highlight=False, markup=False)


def date(seconds: float) -> str:
    """Format a Unix time in local time; empty for 0 or an invalid time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""
    except (OverflowError, ValueError, OSError):
        return ""
