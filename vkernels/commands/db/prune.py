"""`vk db prune`: remove what is of no use any more."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from vkernels.ir.errors import OptionError

from ..results import STANDARD_OUTPUT, check_writable
from .options import Db, Json, Kernel, console, opened, write_result

DAY = 86400.0

Older = Annotated[float | None, typer.Option(min=0, metavar="DAYS", help="Only entries older than this.")]
Stale = Annotated[bool, typer.Option("--stale", help="Those of other compilers than the present ones.")]
Failures = Annotated[bool, typer.Option("--failures", help="Those of plans that gave no time.")]
Beaten = Annotated[bool, typer.Option("--beaten", help="All but the best of each kernel, shape and limits.")]
Damaged = Annotated[bool, typer.Option("--damaged", help="Those that cannot be read.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only say how many.")]


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
    """Remove entries: of several kinds those of any; `--kernel` and `--older-than` narrow it down."""
    check_writable(json)
    if not (stale or failures or beaten or damaged or kernel is not None or older_than is not None):
        raise OptionError("vk db prune: say what to remove: --stale, --failures, --beaten, --damaged, --kernel, …")
    with opened(db, writing=True) as database:
        from vkernels.autotune.database import Wanted

        before = None if older_than is None else time.time() - DAY * older_than
        wanted = Wanted(kernel=kernel, before=before)
        removed = database.prune(wanted, stale, failures, beaten, damaged, dry_run)
        console(json == STANDARD_OUTPUT).print(f"{removed} entries {'would be ' if dry_run else ''}removed")
        write_result(json, "prune", database, removed=removed, dry_run=dry_run)
