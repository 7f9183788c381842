"""`vk db prune`: delete entries."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from vkernels.ir.errors import OptionError

from ..results import STANDARD_OUTPUT, check_writable
from .options import Db, Json, Kernel, console, opened, write_result

DAY = 86400.0

Older = Annotated[float | None, typer.Option(min=0, metavar="DAYS", help="Only entries older than this many days.")]
Stale = Annotated[bool, typer.Option("--stale", help="Delete entries of other compiler versions.")]
Failures = Annotated[bool, typer.Option("--failures", help="Delete failed measurements.")]
Beaten = Annotated[
    bool, typer.Option("--beaten", help="Delete all but the best entry of each kernel, shape and limits.")
]
Damaged = Annotated[bool, typer.Option("--damaged", help="Delete unreadable entries.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Dry run: print the count, delete nothing.")]


def prune(
    db: Db = None,
    kernel: Kernel = None,
    older_than: Older = None,
    stale: Stale = False,
    failures: Failures = False,
    beaten: Beaten = False,
    damaged: Damaged = False,
    dry_run: Dry = False,
    json: Json = None,
) -> None:
    """Delete entries of any of the given kinds; `--kernel` and `--older-than` narrow the selection."""
    check_writable(json)
    if not (stale or failures or beaten or damaged or kernel is not None or older_than is not None):
        raise OptionError("vk db prune: say what to delete: --stale, --failures, --beaten, --damaged, --kernel, …")
    with opened(db, writing=True) as database:
        from vkernels.autotune.database import EntryFilter

        before = None if older_than is None else time.time() - DAY * older_than
        wanted = EntryFilter(kernel=kernel, before=before)
        removed = database.prune(wanted, stale, failures, beaten, damaged, dry_run)
        console(json == STANDARD_OUTPUT).print(f"{removed} entries {'would be ' if dry_run else ''}deleted")
        write_result(json, "prune", database, removed=removed, dry_run=dry_run)
