"""`vk db export`, `vk db import` and `vk db merge`: move entries between databases and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import FileError

from ..results import STANDARD_OUTPUT, check_writable, write_json
from .options import SECONDS, Db, Json, Kernel, console, opened, read_wanted, write_result

if TYPE_CHECKING:
    from vkernels.autotune.database import Database, Entry

Target = Annotated[Path, typer.Argument(metavar="FILE", help="Output file (`-` for stdout).")]
Source = Annotated[Path, typer.Argument(metavar="FILE", help="File that `vk db export` wrote.")]
Others = Annotated[list[str], typer.Argument(metavar="PATH|URL…", help="Source databases.")]


def export(file: Target, db: Db = None, kernel: Kernel = None) -> None:
    """Export entries to a JSON file."""
    check_writable(file)
    with opened(db) as database:
        from vkernels.autotune.database import EntryFilter
        from vkernels.autotune.database.exchange import document_of

        found = read_wanted(database, EntryFilter(kernel=kernel))
        write_json(file, document_of(found.entries))
        out = console(file == STANDARD_OUTPUT)
        out.print(f"{len(found.entries)} entries exported")
        if found.damaged:
            out.print(
                f"{len(found.damaged)} left out because they cannot be read; `vk db prune --damaged` deletes them"
            )


def import_(file: Source, db: Db = None, json: Json = None) -> None:
    """Import the entries of a file, all or none; existing entries stay unchanged."""
    check_writable(json)
    from vkernels.autotune.database.exchange import read_entries

    entries = read_entries(file)
    with opened(db, writing=True) as database:
        _say(database, "import", json, *database.add_new(entries))


def merge(others: Others, db: Db = None, json: Json = None) -> None:
    """Import the entries of other databases, all or none; existing entries stay unchanged."""
    check_writable(json)
    from vkernels.autotune.database import Database, EntryFilter

    entries: list[Entry] = []
    for other in others:
        with Database.open(other, read_only=True, seconds=SECONDS) as database:
            found = database.read(EntryFilter())
            if found.damaged:
                raise FileError(f"{database.address}: {len(found.damaged)} entries cannot be read: {found.damaged[0]}")
            entries += found.entries
    with opened(db, writing=True) as database:
        _say(database, "merge", json, *database.add_new(entries))


def _say(database: Database, command: str, json: Path | None, added: int, there: int) -> None:
    known = f", {there} already existed" if there else ""
    console(json == STANDARD_OUTPUT).print(f"{database.address}: {added} entries added{known}")
    write_result(json, command, database, added=added, there=there)
