"""`vk report`: what tuning found, as one page that needs nothing else; docs/database.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vkernels.ir.write_file import write_file

from ..db.options import Db, Kernel, console, opened, read_wanted
from ..results import STANDARD_OUTPUT, check_writable

File = Annotated[Path, typer.Argument(metavar="FILE.html", help="Where to; - is standard output.")]


def report(file: File = Path("tuning.html"), db: Db = None, kernel: Kernel = None) -> None:
    """Write what tuning found as one HTML file, that works without a network and on a phone.

    How searches came to their best plans, these plans on each device and slice side by side, what each is worth on the
    others, which choices weigh most, and what failed.
    """
    check_writable(file)
    with opened(db) as database:
        from vkernels.autotune.database import Wanted
        from vkernels.autotune.database.key import compilers
        from vkernels.autotune.report import find

        from .page import page_of

        found = read_wanted(database, Wanted(kernel=kernel))
        findings = find(found.entries, (compilers(False), compilers(True)))
        page = page_of(findings, str(database.address))
        if file == STANDARD_OUTPUT:
            typer.echo(page, nl=False)
        else:
            write_file(file, page)
            said = f"{len(findings.subjects)} kernels and shapes, {findings.entries} measurements"
            console(False).print(f"{file}: {said}")
        if found.damaged:
            console(True).print(f"{len(found.damaged)} entries cannot be read and are left out")
