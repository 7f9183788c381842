"""`vk db show`: show the entries of a kernel, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..results import STANDARD_OUTPUT, check_writable
from .listing import title_of, usable
from .options import Db, Json, console, date, opened, read_wanted, write_result

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.autotune.database import Entry
    from vkernels.autotune.database.groups import EntryGroup

MAX_SHOWN = 10

Name = Annotated[str, typer.Argument(metavar="KERNEL", help="Kernel name, as in `vk db list`.")]
All = Annotated[
    bool, typer.Option("--all", help=f"Show every entry, not only the best {MAX_SHOWN} of each shape and limits.")
]


def show(kernel: Name, db: Db = None, all: All = False, json: Json = None) -> None:
    """Show a kernel's entries: plans, times, failures, and where they were measured."""
    check_writable(json)
    with opened(db) as database:
        from vkernels.autotune.database import EntryFilter
        from vkernels.autotune.database.entry_json import entry_to_json
        from vkernels.autotune.database.groups import groups_of

        found = read_wanted(database, EntryFilter(kernel=kernel))
        out = console(json == STANDARD_OUTPUT)
        for group in groups_of(found.entries):
            _print(out, group, len(group.entries) if all else MAX_SHOWN)
        write_result(
            json, "show", database, entries=[entry_to_json(entry) for entry in found.entries],
            damaged=list(found.damaged),
        )  # fmt: skip


def _print(out: Console, group: EntryGroup, limit: int) -> None:
    from ..formatting import format_plan, format_seconds, plural, printable

    out.print(printable(title_of(group)), style="bold")
    out.print(printable(f"  {'; '.join(group.places)}"))
    out.print(printable(f"  {group.key.compilers}{'' if usable(group) else ' (other compiler versions)'}"))
    out.print(f"  limits {group.key.limits_hash[:12]}, shapes {printable(group.key.shape_class)}")
    for entry in group.timed[:limit]:
        words = f"to {format_seconds(entry.high or 0)}, {entry.short}: {format_plan(_fields(entry))}"
        mark = "final comparison" if entry.final else entry.origin if entry.origin != "measured" else ""
        out.print(printable(f"  {format_seconds(entry.seconds or 0):>10}  {words}{f'  ← {mark}' if mark else ''}"))
    if len(group.timed) > limit:
        out.print(f"  … and {plural(len(group.timed) - limit, 'slower plan')}")
    for reason, number in group.failures.items():
        out.print(f"  {printable(reason)}: {plural(number, 'plan')}{_example(group, reason)}")
    out.print(f"  last: {date(group.latest)}\n")


def _fields(entry: Entry) -> dict[str, object]:
    """Return a plan's fields, and the constants that were tuned with it."""
    from vkernels.ir.plan_json import plan_to_json

    plan: dict[str, object] = plan_to_json(entry.plan)
    return {**plan, **({"constants": dict(entry.constants)} if entry.constants else {})}


def _example(group: EntryGroup, reason: str) -> str:
    from ..formatting import printable

    texts = [entry.text for entry in group.entries if entry.failure == reason and entry.text]
    return f", for example: {printable(texts[0].splitlines()[0])[:160]}" if texts else ""
