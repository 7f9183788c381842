"""Tuned plans: the databases of the user and of the site, and whose plan wins where several have one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from vkernels.autotune.database.address import default_file, site_files
from vkernels.autotune.database.entry import MEMORY, Entry
from vkernels.autotune.database.layers import Layer, Layered, layered, preferred
from vkernels.autotune.database.ranking import in_order
from vkernels.bundles.manifest import Code
from vkernels.ir.errors import Error, SetupError
from vkernels.ir.optional_packages import missing_package

from .bundles import codes_of
from .finding import TUNED_PLANS as AREA
from .finding import Finding, Status

MOST_SHOWN = 8
"""Plans of several layers that are told one by one."""


def plans(bundles: Sequence[Path] = ()) -> Iterator[Finding]:
    """The databases, `bundles`, and which plan wins where several layers have one."""
    try:
        file = default_file()
    except SetupError as error:
        yield Finding(AREA, "user", "cannot be read now", Status.NOTE, str(error))
        return
    found: list[Layered] = []
    if file.exists():
        yield _database("user", file, False, found)
    else:
        yield Finding(AREA, "user", f"none; `vk tune` keeps them in {file}")
    for number, site in enumerate(site_files()):
        yield _database(f"site {number + 1}" if number else "site", site, True, found)
    yield from _winners(found)
    for file in bundles:
        yield from _bundle(file, found)


def _database(what: str, file: Path, is_site: bool, found: list[Layered]) -> Finding:
    """How many plans a database has, which are added to those that were `found`."""
    try:
        from vkernels.autotune.database.database import Database  # by SQLAlchemy, which calls do without

        with Database.open(str(file), read_only=True) as database:
            contents = database.read()
    except ModuleNotFoundError as error:
        advice = str(missing_package(error) or error)
        return Finding(AREA, what, f"in {file}; not counted", Status.NOTE, advice)
    except SetupError as error:
        return Finding(AREA, what, "cannot be read now", Status.NOTE, str(error))
    except Error as error:
        return Finding(AREA, what, "cannot be read", Status.PROBLEM, f"{error}; calls run without its plans")
    added = layered(contents.entries, is_site, str(file))
    found += added
    here = sum(each.layer == Layer.HERE for each in added)
    shown = f"{len(added)} in {file}" + (f", {here} of them measured here" if here else "")
    if contents.damaged:
        advice = f"{len(contents.damaged)} more cannot be read: {contents.damaged[0]}"
        return Finding(AREA, what, shown, Status.NOTE, advice)
    if is_site and file.stat().st_mode & 0o022 and os.getuid() != file.stat().st_uid:
        return Finding(AREA, what, shown, Status.NOTE, f"others than its owner can change it: chmod go-w {file}")
    return Finding(AREA, what, shown)


def _winners(found: Sequence[Layered]) -> Iterator[Finding]:
    """The plan that calls try first, for each call that several layers have a plan for, and why."""
    several = [group for group in _by_call(found) if len({each.layer for each in group}) > 1]
    for group in several[:MOST_SHOWN]:
        winner, *others = _best_of_layers(group)
        beaten = ", ".join(f"{each.layer.shown} {each.entry.short}" for each in others)
        entry = winner.entry
        shape = " ".join(f"{name}={size}" for name, size in entry.shape.items())
        where = entry.provenance.slice or entry.provenance.device
        reason = "measured, not modelled" if others[0].entry.standing < 2 <= entry.standing else "its layer comes first"
        yield Finding(
            AREA, f"{entry.kernel} {shape}, {where}", f"{winner.layer.shown} {entry.short} before {beaten}: {reason}"
        )
    if len(several) > MOST_SHOWN:
        yield Finding(AREA, "in several layers", f"{len(several) - MOST_SHOWN} more; `vk db list` shows each database")


def _bundle(file: Path, found: Sequence[Layered]) -> Iterator[Finding]:
    """How many plans a bundle has for this machine, and each that loses against a database's plan for the same call."""
    told, codes = codes_of(file)
    yield told
    usable = [each for each in found if 1 <= each.entry.standing <= 3]
    beaten = {
        f"{kernel} {shape}, {code.target}": _best_of_layers(better)[0]
        for kernel, dtypes, code in codes
        if (better := [each for each in usable if _is_for(each.entry, kernel, dtypes, code)])
        for shape in [" ".join(f"{name}={size}" for name, size in code.shape.items())]
    }
    for call, winner in list(beaten.items())[:MOST_SHOWN]:
        shown = f"{winner.layer.shown} {winner.entry.short} before {told.what}: its layer comes first, if not frozen"
        yield Finding(AREA, call, shown)


def _is_for(entry: Entry, kernel: str, dtypes: str, code: Code) -> bool:
    """Whether an entry is for the calls of a bundle's code."""
    sizes = all(getattr(entry.limits, name) == value for name, value in code.limits.items() if name != MEMORY)
    return (
        sizes and entry.kernel.rpartition(":")[2] == kernel and entry.key.dtypes == dtypes
        and dict(entry.shape) == dict(code.shape)
    )  # fmt: skip


def _by_call(found: Iterable[Layered]) -> Iterator[list[Layered]]:
    """The plans that calls may run, by kernel, class of sizes, dtypes and limits."""

    def key(each: Layered) -> tuple[str, str]:
        return each.entry.kernel, each.entry.key.digest

    usable = (each for each in found if 1 <= each.entry.standing <= 3)
    for _, group in groupby(sorted(usable, key=key), key):
        yield list(group)


def _best_of_layers(group: Sequence[Layered]) -> list[Layered]:
    """The best plan of each layer, the preferred first."""
    best: dict[Layer, Layered] = {}
    by_entry = {id(each.entry): each for each in group}
    for entry in in_order([each.entry for each in group], None, None):
        each = by_entry[id(entry)]
        best.setdefault(each.layer, each)
    return preferred([*best.values()])
