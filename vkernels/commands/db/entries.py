"""The commands of `vk db`: list and show entries; export, import, merge and delete them."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import FileError, OptionError
from vkernels.ir.plan_json import plan_to_json

from ..formatting import format_plan, format_seconds, plural, printable
from ..results import check_writable, console_for, write_json
from .options import SECONDS, Db, Json, Kernel, date, opened, read_entries_of, write_result

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.autotune.database import Database, Entry
    from vkernels.autotune.report import EntryGroup


def list_(db: Db = None, kernel: Kernel = None, json: Json = None) -> None:
    """List tuned kernels: best time and number of plans tried for each shape and set of limits."""
    check_writable(json)
    with opened(db) as database:
        from vkernels.autotune.report import groups_of

        found = read_entries_of(database, kernel)
        groups = groups_of(found.entries)
        _print_list(console_for(json), groups, found.damaged, str(database.address))
        write_result(json, "list", database, groups=[as_json(group) for group in groups], damaged=list(found.damaged))


def as_json(group: EntryGroup) -> dict[str, Any]:
    """Return a group as JSON."""
    best = group.best
    return {
        "kernel": group.kernel, "shape": dict(group.shape), "key": asdict(group.key), "usable": usable(group),
        "places": list(group.places), "tried": len(group.entries), "failures": dict(group.failures),
        "seconds": best and best.seconds, "low": best and best.low, "high": best and best.high,
        "origin": best and best.origin, "final": best.final if best else None, "caches": best.caches if best else None,
        "plan": plan_to_json(best.shown) if best else None, "constants": dict(best.constants) if best else None,
        "gain": group.gain, "latest": group.latest,
    }  # fmt: skip


def usable(group: EntryGroup) -> bool:
    """Whether the group was tuned with the compilers installed here."""
    from vkernels.autotune.database.entry import compilers

    return group.key.compilers in (compilers(False), compilers(True))


def _print_list(out: Console, groups: tuple[EntryGroup, ...], damaged: tuple[str, ...], where: str) -> None:
    by_title: dict[str, list[EntryGroup]] = {}
    for group in groups:
        by_title.setdefault(group.title, []).append(group)
    out.print(printable(where), style="bold")
    if groups:
        out.print(_line("on", "best", "gain", "tried", "failed", "last"))
    for title, some in by_title.items():
        out.print(printable(title), style="bold")
        for group in some:
            for line in _lines_of(group):
                out.print(printable(line), soft_wrap=True)
    said = f"{plural(len(groups), 'group')}, {plural(sum(len(group.entries) for group in groups), 'measurement')}"
    out.print(f"{said}.")
    if damaged:
        out.print(f"{plural(len(damaged), 'entry')} cannot be read, for example: {printable(damaged[0])}")


def _lines_of(group: EntryGroup) -> list[str]:
    """A group in lines of at most 80 columns, if its places are not longer."""
    best, gain = group.best, group.gain
    numbers = (
        format_seconds(best.seconds) if best and best.seconds else "—", "" if gain is None else f"×{gain:.2f}",
        str(len(group.entries)), str(sum(group.failures.values())), date(group.latest)[:10],
    )  # fmt: skip
    *others, last = group.places
    lines = [*(f"  {place}" for place in others), _line(last, *numbers)]
    if len(last) > PLACE:
        lines[-1:] = [f"  {last}", _line("", *numbers)]
    notes = [note for note in (_judged(best), "" if usable(group) else "other compilers") if note]
    return [*lines, *([f"    {', '.join(notes)}"] if notes else [])]


PLACE = 36
"""Columns of a device and slice."""


def _line(place: str, best: str, gain: str, tried: str, failed: str, last: str) -> str:
    return f"  {place:<{PLACE}}{best:>8}{gain:>7}{tried:>7}{failed:>8}  {last}"


def _judged(entry: Entry | None) -> str:
    """How a time came about, if not as `vk tune` does by default."""
    if entry is None:
        return ""
    if entry.origin != "measured":
        return entry.origin
    return "" if entry.caches == "program" else f"{entry.caches} arguments only"


MAX_SHOWN = 10

Name = Annotated[str, typer.Argument(metavar="KERNEL", help="Kernel name, as in `vk db list`.")]
All = Annotated[
    bool, typer.Option("--all", help=f"Show every entry, not only the best {MAX_SHOWN} of each shape and limits.")
]


def show(kernel: Name, db: Db = None, all: All = False, json: Json = None) -> None:
    """Show a kernel's entries: plans, times, failures, and where they were measured."""
    check_writable(json)
    with opened(db) as database:
        from vkernels.autotune.database.entry_json import entry_to_json
        from vkernels.autotune.report import groups_of

        found = read_entries_of(database, kernel)
        out = console_for(json)
        for group in groups_of(found.entries):
            _print(out, group, len(group.entries) if all else MAX_SHOWN)
        write_result(
            json, "show", database, entries=[entry_to_json(entry) for entry in found.entries],
            damaged=list(found.damaged),
        )  # fmt: skip


def _print(out: Console, group: EntryGroup, limit: int) -> None:
    out.print(printable(group.title), style="bold")
    out.print(printable(f"  {'; '.join(group.places)}"))
    out.print(printable(f"  {group.key.compilers}{'' if usable(group) else ' (other compiler versions)'}"))
    out.print(f"  limits {group.key.limits_hash[:12]}, shapes {printable(group.key.shape_class)}")
    for entry in group.timed[:limit]:
        fields = {**plan_to_json(entry.shown), "constants": dict(entry.constants)}
        words = f"to {format_seconds(entry.high or 0)}, {entry.short}: {format_plan(fields)}"
        mark = ", ".join(filter(None, ["final comparison" if entry.final else "", _judged(entry)]))
        out.print(printable(f"  {format_seconds(entry.seconds or 0):>10}  {words}{f'  ← {mark}' if mark else ''}"))
    if len(group.timed) > limit:
        out.print(f"  … and {plural(len(group.timed) - limit, 'slower plan')}")
    for reason, number in group.failures.items():
        texts = [entry.text for entry in group.entries if entry.failure == reason and entry.text]
        example = f", for example: {printable(texts[0].splitlines()[0])[:160]}" if texts else ""
        out.print(f"  {printable(reason)}: {plural(number, 'plan')}{example}")
    out.print(f"  last: {date(group.latest)}\n")


Target = Annotated[Path, typer.Argument(metavar="FILE", help="Output file (`-` for stdout).")]
Source = Annotated[Path, typer.Argument(metavar="FILE", help="File that `vk db export` wrote.")]
Others = Annotated[list[str], typer.Argument(metavar="PATH|URL…", help="Source databases.")]


def export(file: Target, db: Db = None, kernel: Kernel = None) -> None:
    """Export entries to a JSON file."""
    check_writable(file)
    with opened(db) as database:
        from vkernels.autotune.database.entry_json import document_of

        found = read_entries_of(database, kernel)
        write_json(file, document_of(found.entries))
        out = console_for(file)
        out.print(f"{len(found.entries)} entries exported")
        if found.damaged:
            out.print(
                f"{len(found.damaged)} left out because they cannot be read; `vk db prune --damaged` deletes them"
            )


def import_(file: Source, db: Db = None, json: Json = None) -> None:
    """Import the entries of a file, all or none; existing entries stay unchanged."""
    check_writable(json)
    from vkernels.autotune.database.entry_json import read_entries

    entries = read_entries(file)
    with opened(db, writing=True) as database:
        _say(database, "import", json, *database.add_new(entries))


def merge(others: Others, db: Db = None, json: Json = None) -> None:
    """Import the entries of other databases, all or none; existing entries stay unchanged."""
    check_writable(json)
    from vkernels.autotune.database import Database

    entries: list[Entry] = []
    for other in others:
        with Database.open(other, read_only=True, seconds=SECONDS) as database:
            found = database.read()
            if found.damaged:
                raise FileError(f"{database.address}: {len(found.damaged)} entries cannot be read: {found.damaged[0]}")
            entries += found.entries
    with opened(db, writing=True) as database:
        _say(database, "merge", json, *database.add_new(entries))


def _say(database: Database, command: str, json: Path | None, added: int, there: int) -> None:
    known = f", {there} already existed" if there else ""
    console_for(json).print(f"{database.address}: {added} entries added{known}")
    write_result(json, command, database, added=added, there=there)


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
        console_for(json).print(f"{removed} entries {'would be ' if dry_run else ''}deleted")
        write_result(json, "prune", database, removed=removed, dry_run=dry_run)
