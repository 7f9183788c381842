"""`vk report`: write the tuning database as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vkernels.ir.write_file import write_file

from ..db.options import Db, Kernel, opened, read_entries_of
from ..results import STANDARD_OUTPUT, check_writable, console_for

File = Annotated[Path, typer.Argument(metavar="FILE.html", help="Output file (`-` for stdout).")]


def report(file: File = Path("tuning.html"), db: Db = None, kernel: Kernel = None) -> None:
    """Write tuning results as one self-contained HTML file.

    It shows how each search converged, the best plans side by side on all devices and slices, what each plan is worth
    on the others, which decisions matter most, and what failed.
    """
    check_writable(file)
    with opened(db) as database:
        from vkernels.autotune.database.entry import compilers
        from vkernels.autotune.report import find

        from .page import page_of

        found = read_entries_of(database, kernel)
        findings = find(found.entries, (compilers(False), compilers(True)))
        page = page_of(findings, str(database.address))
        if file == STANDARD_OUTPUT:
            typer.echo(page, nl=False)
        else:
            write_file(file, page)
            said = f"{len(findings.subjects)} kernels and shapes, {findings.entries} measurements"
            console_for().print(f"{file}: {said}")
        if found.damaged:
            console_for(STANDARD_OUTPUT).print(f"{len(found.damaged)} entries cannot be read and were left out")
