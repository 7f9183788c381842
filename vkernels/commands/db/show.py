"""`vk db show`: the entries of a kernel, the best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..results import STANDARD_OUTPUT, check_writable
from .listing import title_of, usable
from .options import Db, Json, console, date, opened, read_wanted, write_result

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.autotune.database import Entry
    from vkernels.autotune.database.groups import Group

MOST = 10

Name = Annotated[str, typer.Argument(metavar="KERNEL", help="Its name, as `vk db list` shows it.")]
All = Annotated[bool, typer.Option("--all", help=f"Every entry, not only the best {MOST} of each shape and limits.")]


def show(kernel: Name, db: Db = None, all: All = False, json: Json = None) -> None:
    """Show a kernel's entries: plans, times, failures, and where they were measured."""
    check_writable(json)
    with opened(db) as database:
        from vkernels.autotune.database import Wanted
        from vkernels.autotune.database.entry_json import entry_to_json
        from vkernels.autotune.database.groups import groups_of

        found = read_wanted(database, Wanted(kernel=kernel))
        out = console(json == STANDARD_OUTPUT)
        for group in groups_of(found.entries):
            _print(out, group, len(group.entries) if all else MOST)
        write_result(
            json, "show", database, entries=[entry_to_json(entry) for entry in found.entries],
            damaged=list(found.damaged),
        )  # fmt: skip


def _print(out: Console, group: Group, most: int) -> None:
    from ..explain.words import counted, plan_in_words, printable, seconds_in_words

    out.print(printable(title_of(group)), style="bold")
    out.print(printable(f"  {'; '.join(group.places)}"))
    out.print(printable(f"  {group.key.compilers}{'' if usable(group) else ' (not the compilers here)'}"))
    out.print(f"  limits {group.key.limits_hash[:12]}, shapes {printable(group.key.shape_class)}")
    for entry in group.timed[:most]:
        words = f"to {seconds_in_words(entry.high or 0)}, {entry.short}: {plan_in_words(_said(entry))}"
        mark = "settled on" if entry.final else entry.origin if entry.origin != "measured" else ""
        out.print(printable(f"  {seconds_in_words(entry.seconds or 0):>10}  {words}{f'  ← {mark}' if mark else ''}"))
    if len(group.timed) > most:
        out.print(f"  … and {counted(len(group.timed) - most, 'slower one')}")
    for reason, number in group.failures.items():
        out.print(f"  {printable(reason)}: {counted(number, 'plan')}{_example(group, reason)}")
    out.print(f"  last: {date(group.latest)}\n")


def _said(entry: Entry) -> dict[str, object]:
    """A plan's fields, and the constants that were tuned with it."""
    from vkernels.ir.plan_json import plan_to_json

    plan: dict[str, object] = plan_to_json(entry.plan)
    return {**plan, **({"constants": dict(entry.constants)} if entry.constants else {})}


def _example(group: Group, reason: str) -> str:
    from ..explain.words import printable

    texts = [entry.text for entry in group.entries if entry.failure == reason and entry.text]
    return f", such as: {printable(texts[0].splitlines()[0])[:160]}" if texts else ""
