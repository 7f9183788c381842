"""`vk db list`: list what was tuned, a row for each kernel, shape and set of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..results import STANDARD_OUTPUT, check_writable
from .options import Db, Json, Kernel, console, date, opened, read_wanted, write_result

if TYPE_CHECKING:
    from vkernels.autotune.database.groups import EntryGroup


def list_(db: Db = None, kernel: Kernel = None, json: Json = None) -> None:
    """List tuned kernels: best time and number of plans tried for each shape and set of limits."""
    check_writable(json)
    with opened(db) as database:
        from vkernels.autotune.database import EntryFilter
        from vkernels.autotune.database.groups import groups_of

        found = read_wanted(database, EntryFilter(kernel=kernel))
        groups = groups_of(found.entries)
        _print(groups, found.damaged, str(database.address), json == STANDARD_OUTPUT)
        write_result(json, "list", database, groups=[as_json(group) for group in groups], damaged=list(found.damaged))


def as_json(group: EntryGroup) -> dict[str, Any]:
    """Return a group as JSON."""
    from dataclasses import asdict

    from vkernels.ir.plan_json import plan_to_json

    best = group.best
    return {
        "kernel": group.kernel, "shape": dict(group.shape), "key": asdict(group.key), "usable": usable(group),
        "places": list(group.places), "tried": len(group.entries), "failures": dict(group.failures),
        "seconds": best and best.seconds, "low": best and best.low, "high": best and best.high,
        "origin": best and best.origin, "final": best.final if best else None,
        "plan": plan_to_json(best.plan) if best else None, "constants": dict(best.constants) if best else None,
        "gain": group.gain, "latest": group.latest,
    }  # fmt: skip


def usable(group: EntryGroup) -> bool:
    """Whether the group was tuned with the compilers installed here."""
    from vkernels.autotune.database.key import compilers

    return group.key.compilers in (compilers(False), compilers(True))


def _print(groups: tuple[EntryGroup, ...], damaged: tuple[str, ...], where: str, to_errors: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..formatting import format_seconds, plural, printable

    out = console(to_errors)
    table = Table(box=None, title=printable(where), title_justify="left", title_style="bold", pad_edge=False)
    for column in ("kernel", "on"):
        table.add_column(column)
    for column in ("best", "tried", "failed"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("last", no_wrap=True)
    for group in groups:
        best = group.best
        notes = [best.origin if best and best.origin != "measured" else "", "" if usable(group) else "other compilers"]
        cells = (
            title_of(group), "; ".join(group.places), format_seconds(best.seconds) if best and best.seconds else "—",
            str(len(group.entries)), str(sum(group.failures.values())), ", ".join(filter(None, notes)),
            date(group.latest),
        )  # fmt: skip
        table.add_row(*(Text(printable(cell)) for cell in cells))
    out.print(table)
    said = f"{plural(len(groups), 'group')}, {plural(sum(len(group.entries) for group in groups), 'measurement')}"
    out.print(f"{said}.")
    if damaged:
        out.print(f"{plural(len(damaged), 'entry')} cannot be read, for example: {printable(damaged[0])}")


def title_of(group: EntryGroup) -> str:
    """Return kernel, sizes and dtypes as one line."""
    sizes = " ".join(f"{name}={size}" for name, size in group.shape.items())
    return f"{group.kernel} {sizes} {short_dtypes(group)}"


def short_dtypes(group: EntryGroup) -> str:
    """Return one dtype if all tensors share it, else all."""
    named = [part.partition("=")[2] for part in group.key.dtypes.split()]
    return named[0] if len(set(named)) == 1 else group.key.dtypes
