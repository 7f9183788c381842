"""Options and helpers that the `vk db` commands share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

from ..options import Json as Json
from ..results import write_results

if TYPE_CHECKING:
    from vkernels.autotune.database import Contents, Database

SECONDS = 10.0
"""How long an interactive command waits for a locked database."""

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="PATH|URL", help="Database file, or postgresql://USER@HOST/NAME. Default: the user's own file."
    ),
]
Kernel = Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Only entries of this kernel.")]


def opened(url: str | None, writing: bool = False) -> Database:
    """Open the database. Raises as `Database.open`."""
    from vkernels.autotune.database import Database

    return Database.open(url, read_only=not writing, seconds=SECONDS)


def read_entries_of(database: Database, kernel: str | None) -> Contents:
    """Read the entries of a kernel, or all. Raises `OptionError` with the known names for an unknown kernel."""
    from vkernels.autotune.database import EntryFilter

    found = database.read(EntryFilter(kernel=kernel))
    if kernel is not None and not found.entries and not found.damaged:
        names = sorted({entry.kernel for entry in database.read().entries})
        there = did_you_mean(kernel, names) if names else "the database is empty"
        raise OptionError(f"{database.address} has no entries of kernel {kernel!r}: {there}")
    return found


def write_result(path: Path | None, command: str, database: Database, **results: Any) -> None:
    """Write results as JSON, if requested."""
    write_results(path, f"db {command}", database=str(database.address), **results)


def date(seconds: float) -> str:
    """Format a Unix time in local time; empty for 0 or an invalid time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""
    except (OverflowError, ValueError, OSError):
        return ""
