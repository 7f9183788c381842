"""`vk db profiles`: list profiles of calls, and delete some."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError
from vkernels.ir.plan_json import plan_to_json

from ..formatting import format_seconds, plural, printable
from ..results import check_writable, console_for, table_of
from .entries import DAY, Dry
from .options import Db, Json, date, opened, write_result

if TYPE_CHECKING:
    from rich.table import Table

    from vkernels.compiler.call_profiles import CallProfile

Kernel = Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Only profiles of this kernel.")]
Older = Annotated[float | None, typer.Option(min=0, metavar="DAYS", help="Only profiles older than this many days.")]
Stale = Annotated[
    bool, typer.Option("--stale", help="Only profiles of other versions of vkernels, and unreadable ones.")
]
Delete = Annotated[bool, typer.Option("--delete", help="Delete them; without --stale needs --kernel or --older-than.")]


def profiles(
    db: Db = None,
    kernel: Kernel = None,
    older_than: Older = None,
    stale: Stale = False,
    delete: Delete = False,
    dry_run: Dry = False,
    json: Json = None,
) -> None:
    """List profiles of calls, which `vk.profile` and contracts of latency measure; or delete some of them."""
    check_writable(json)
    if delete and not (stale or kernel is not None or older_than is not None):
        raise OptionError("vk db profiles: say which to delete: --stale, --kernel, --older-than")
    if dry_run and not delete:
        raise OptionError("vk db profiles: --dry-run is of --delete")
    before = None if older_than is None else time.time() - DAY * older_than
    with opened(db, writing=delete and not dry_run) as database:
        from vkernels.compiler.call_profiles import code_digest

        code, stored = code_digest(), database.all_profiles(kernel, before)
        found = [each for each in stored.profiles if not stale or each.key.code != code]
        out = console_for(json, is_wide=True)
        if delete:
            doomed = [*(each.identity for each in found), *(stored.damaged if stale else ())]
            removed = len(doomed) if dry_run else database.remove_profiles(doomed)
            out.print(f"{plural(removed, 'profile')} {'would be ' if dry_run else ''}deleted")
            write_result(json, "profiles", database, removed=removed, dry_run=dry_run)
            return
        out.print(table(found, code) if found else "no profiles of calls")
        if stored.damaged:
            out.print(f"{plural(len(stored.damaged), 'profile')} cannot be read; --stale --delete deletes them")
        write_result(
            json, "profiles", database, profiles=[as_json(each, code) for each in found], damaged=len(stored.damaged)
        )


def as_json(profile: CallProfile, code: str) -> dict[str, Any]:
    """A profile as JSON. `code`: of this version of vkernels."""
    found = {**asdict(profile), "plan": plan_to_json(profile.plan), "usable": profile.key.code == code}
    return {**found, "identity": profile.identity}


def _name(profile: CallProfile) -> str:
    part = f", one of {profile.parts} parts" if profile.parts > 1 else ""
    return f"{profile.key}{part}"


def table(found: list[CallProfile], code: str) -> Table:
    """A line for each profile."""
    numbers = ("calls", "p50", "p99", "gap")
    shown = table_of("call", "dtypes", "on", "beside", *numbers, "when", "", right=numbers)
    for each in found:
        shown.add_row(
            printable(_name(each)), printable(each.key.dtypes), printable(each.key.slice),
            printable(", ".join(each.beside)), str(each.calls), format_seconds(each.p50), format_seconds(each.p99),
            "" if each.gap is None else format_seconds(each.gap), date(each.when),
            "" if each.key.code == code else "other version",
        )  # fmt: skip
    return shown
