"""`vk doctor`: what this machine and installation have, and what is in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.optional_packages import missing_package

from ..exits import Code
from ..options import Json
from ..results import check_writable, console_for, print_table, table_of, write_results

if TYPE_CHECKING:
    from .finding import Finding


Bundles = Annotated[
    list[Path] | None,
    typer.Option("--bundle", metavar="FILE.vkb", help="Also count this bundle's plans, the lowest layer."),
]


def doctor(json: Json = None, bundles: Bundles = None) -> None:
    """Show what this machine and installation have, what is in the way, and what would help.

    Nothing is changed or measured. Exit code 1: something does not work.
    """
    check_writable(json)
    console, findings = console_for(json, is_wide=True), examine(bundles or [])
    table = table_of("", "", "found", "")
    area = ""
    for each in findings:
        table.add_row(each.area if each.area != area else "", each.what, each.found, _mark(each))
        area = each.area
    print_table(table, console)
    console.print()
    for each in findings:
        if each.advice:
            console.print(f"{each.status}: {each.what}: {each.advice}")
    problems = sum(each.status == "problem" for each in findings)
    console.print(f"{problems or 'no'} problem{'' if problems == 1 else 's'}")
    write_results(json, "doctor", findings=[asdict(each) for each in findings])
    if problems:
        raise typer.Exit(Code.FINDING)


def examine(bundles: Sequence[Path] = ()) -> list[Finding]:
    """All findings, by area. `bundles`: whose plans are the lowest layer."""
    from .gpus import gpus
    from .processor import processor
    from .software import software
    from .storage import storage

    parts: Iterable[Callable[[], Iterable[Finding]]] = (software, processor, storage, partial(_plans, bundles), gpus)
    return [found for part in parts for found in part()]


def _plans(bundles: Sequence[Path]) -> Iterable[Finding]:
    """Tuned plans and bundles; without compilers, bundles only."""
    try:
        from .plans import plans
    except ModuleNotFoundError as error:
        if missing_package(error) is None:
            raise
        from .bundles import without_compilers

        return without_compilers(bundles)
    return plans(bundles)


def _mark(finding: Finding) -> str:
    return "" if finding.status == "ok" else str(finding.status)
