"""Results of commands: text on a console, tables, progress, and JSON files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vkernels.ir.errors import FileError
from vkernels.ir.write_file import write_file

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STANDARD_OUTPUT = Path("-")
SCHEMA = 1
WIDE = 120
"""Columns of wide tables without a terminal."""

UNBOUNDED = 10_000
"""More columns than any table has."""


def target_name() -> str:
    """The CPU, by LLVM's name for what it has: LLVM itself takes some processors for older ones."""
    from vkernels.compiler.backends.llvm import host_processor

    return f"cpu-{host_processor()}"


def check_writable(path: Path | None) -> None:
    """Raise `FileError` early if a file could not be written there; None and `-` always can."""
    if path is None or path == STANDARD_OUTPUT:
        return
    if path.is_dir():
        raise FileError(f"{path}: is a folder")
    if not path.parent.is_dir():
        raise FileError(f"{path}: folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise FileError(f"{path}: is not writable")


def write_json(path: Path, results: Mapping[str, Any]) -> None:
    """Write results to a file, or to standard output if the path is `-`."""
    text = json.dumps(results, indent=2) + "\n"
    if path == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    write_file(path, text)


def write_results(path: Path | None, command: str, **results: Any) -> None:
    """Write a command's results as JSON, if requested; docs/json.md documents the fields."""
    if path is not None:
        write_json(path, {"schema_version": SCHEMA, "command": command, **results})


def console_for(path: Path | None = None, is_wide: bool = False) -> Console:
    """Return the console for text: standard error if `path` is `-`, because standard output is taken.

    `is_wide`: without a terminal, it has at least `WIDE` columns.
    """
    from rich.console import Console

    console = Console(stderr=path == STANDARD_OUTPUT, highlight=False, markup=False, emoji=False)
    if is_wide and not console.is_terminal:
        console.width = max(console.width, WIDE)
    return console


def table_of(
    *columns: str, right: Collection[str] = (), whole: Collection[str] = (), title: str | None = None
) -> Table:
    """Return an empty table without lines. `right`: right-aligned columns; `whole`: columns without line breaks."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)  # type: ignore[arg-type]
    return table


def widths_of(table: Table, console: Console) -> tuple[int, int]:
    """The columns of text that a table needs at least, and those in which no cell is folded."""
    from rich.measure import Measurement

    found = Measurement.get(console, console.options.update(max_width=UNBOUNDED), table)
    return found.minimum, found.maximum


def print_table(table: Table, console: Console) -> None:
    """Print a table. Without a terminal, where there is no edge, it is as wide as its cells."""
    before = console.width
    if not console.is_terminal:
        console.width = max(before, widths_of(table, console)[1])
    try:
        console.print(table)
    finally:
        console.width = before


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error, if that is a terminal.

    The yielded function takes the present step, the number of completed parts and of all, and more text.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    counts = TextColumn("{task.completed}/{task.total} {task.fields[more]}")
    columns = (TextColumn("{task.description}"), BarColumn(), counts, TimeElapsedColumn())
    console = console_for(STANDARD_OUTPUT)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("preparing", total=1, more="")

        def report(what: str, done: int, total: int, more: str = "") -> None:
            bar.update(task, description=what, completed=done, total=total, more=more)

        yield report
