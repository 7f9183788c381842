"""What the commands about the database have in common."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError

from ..results import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.autotune.database import Contents, Database, Wanted

SCHEMA = 1
SECONDS = 10.0
"""What a person waits for a database."""

Db = Annotated[
    str | None,
    typer.Option("--db", metavar="PATH|URL", help="A file, or postgresql://USER@HOST/NAME; else the user's own file."),
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there as JSON too; - is standard output.")]
Kernel = Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Only entries of this kernel.")]


@contextmanager
def opened(url: str | None, writing: bool = False) -> Iterator[Database]:
    """The database. Raises `FileError` and `SetupError` as it does."""
    from vkernels.autotune.database import Database

    with Database.open(url, read_only=not writing, seconds=SECONDS) as database:
        yield database


def read_wanted(database: Database, wanted: Wanted) -> Contents:
    """What is wanted. Raises `OptionError` where there is no such kernel, with the names of those that there are."""
    from vkernels.autotune.database import Wanted
    from vkernels.ir.nearest import meant

    found = database.read(wanted)
    if wanted.kernel is not None and not found.entries and not found.damaged:
        names = sorted({entry.kernel for entry in database.read(Wanted()).entries})
        there = meant(wanted.kernel, names) if names else "it is empty"
        raise OptionError(f"{database.address}: has nothing of a kernel {wanted.kernel!r}: {there}")
    return found


def write_result(path: Path | None, command: str, database: Database, **results: Any) -> None:
    """As JSON, where it is asked for."""
    if path is not None:
        said = {"schema_version": SCHEMA, "command": f"db {command}", "database": str(database.address)}
        write_json(path, {**said, **results})


def console(to_errors: bool) -> Console:
    """Where words for people go."""
    from rich.console import Console

    return Console(stderr=to_errors, highlight=False, markup=False)


def date(seconds: float) -> str:
    """A time since 1970 for people, in their own zone; empty where it is none."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""
    except (OverflowError, ValueError, OSError):
        return ""
