"""Print check results: a table for each kernel, a row for each target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from vkernels.inspect.check.cells import Cell
from vkernels.inspect.check.check import Checked
from vkernels.inspect.worker_client import Progress as Report

from .results import counts

LEGEND = (
    "Registers: per thread. Shared: bytes per program. Spilled: bytes per thread. Blocks: programs that one "
    "multiprocessor holds at once (on RDNA a work-group processor), and the resource that limits them. Seconds: "
    "compile time, shared by devices of one architecture and plan. Rung: where the plan stands on its fallback ladder, "
    "and how many plans were tried if more than one. Modelled: predicted milliseconds of a call. Bottleneck: its "
    "longest part."
)
WIDE = 120
"""Columns of a full table, and of output that goes to no terminal."""

_VERDICTS = {True: "yes", False: "no", None: "?"}
_STYLES = {True: "green", False: "red", None: "yellow"}


@contextmanager
def progress_bar() -> Iterator[Report]:
    """Show a progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("preparing", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


def show(checked: Checked, triton: str, seconds: float, to_errors: bool) -> None:
    """Print the results; `to_errors`: to standard error, because standard output is taken."""
    console = Console(stderr=to_errors, highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(stderr=to_errors, highlight=False, markup=False, width=WIDE)
    for title, group in groupby(checked.cells, key=_title):
        cells = list(group)
        console.print(_table(title, cells, is_wide=console.width >= WIDE))
        for reason, names in _reasons(cells).items():
            console.print(f"{', '.join(names)}: {reason}", soft_wrap=True)
        console.print()
    console.print(LEGEND)
    n = counts(checked.cells)
    console.print(
        f"{n['cells']} cells: {n['fit']} fit, {n['misfit']} do not, {n['unknown']} unknown, {n['spill']} spill. "
        f"{checked.binaries} binaries, {checked.cached} from the cache, by Triton {triton}, in {seconds:.1f} s."
    )


def _title(cell: Cell) -> str:
    """Return the kernel, dtype, sizes and configuration as one line."""
    sizes = [f"{name}={value}" for name, value in {**cell.shape, **cell.configuration}.items()]
    return " ".join([cell.kernel, cell.dtype, *sizes])


def _reasons(cells: list[Cell]) -> dict[str, list[str]]:
    """Return why cells do not fit or are unknown, each reason with its targets."""
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason:
            reasons.setdefault(cell.reason, []).append(cell.target)
    return reasons


def _table(title: str, cells: list[Cell], is_wide: bool) -> Table:
    """`is_wide`: add the columns that narrow terminals leave to the JSON."""
    table = Table(box=None, title=Text(title), title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("target", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    for column in ("registers", "shared", "spilled", "blocks"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("limited by")
    if is_wide:
        table.add_column("seconds", justify="right", no_wrap=True)
    planned = any(cell.planned for cell in cells)
    if planned:
        table.add_column("rung", no_wrap=True)
        table.add_column("modelled", justify="right", no_wrap=True)
    if planned and is_wide:
        table.add_column("bottleneck", no_wrap=True)
    for cell in cells:
        figures = (cell.registers_per_thread, cell.shared_bytes, cell.spill_bytes, cell.blocks_per_multiprocessor)
        seconds = f"{cell.compile_seconds:.2f}" if cell.launches else ""
        table.add_row(
            Text(cell.target),
            Text(_VERDICTS[cell.fits], _STYLES[cell.fits]),
            *("" if figure is None else str(figure) for figure in figures),
            ", ".join(cell.limited_by),
            *([seconds] if is_wide else []),
            *(_plan(cell)[: 3 if is_wide else 2] if planned else ()),
        )
    return table


def _plan(cell: Cell) -> tuple[str, str, str]:
    """Return rung, modelled milliseconds and bottleneck of a cell's plan."""
    plan = cell.planned
    if plan is None:
        return "", "", ""
    tries = f" ({len(plan.tried) + 1} plans)" if plan.tried else ""
    modelled = "" if plan.modelled_seconds is None else f"{1e3 * plan.modelled_seconds:.3g}"
    return f"{plan.rung or ''}{tries}", modelled, plan.bottleneck or ""
