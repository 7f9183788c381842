"""What was found, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table

from vkernels.runtime.memory.bound import Bound
from vkernels.runtime.memory.pool import Placement
from vkernels.runtime.memory.schedule import Schedule
from vkernels.runtime.memory.simulate import Run
from vkernels.runtime.memory.trace import Trace

from ..explain.words import bytes_in_words, counted, printable, seconds_in_words
from .results import global_bytes

HEADS = ("", "fraction", "seconds", "waiting", "peak", "out", "back", "absences")
"""Of a table of schedules; `fraction`: of the ideal time."""


def show_trace(console: Console, trace: Trace) -> None:
    """A few lines about a step."""
    console.print(printable(trace.name), style="bold")
    console.print(f"  {trace_in_words(trace)}", soft_wrap=True)


def trace_in_words(trace: Trace) -> str:
    """How much there is of it, and what it takes."""
    return (
        f"{counted(len(trace.operations), 'operation')} in {seconds_in_words(trace.seconds)}, "
        f"{counted(len(trace.tensors), 'tensor')}; {bytes_in_words(trace.peak)} live at once, "
        f"{bytes_in_words(global_bytes(trace))} of them always"
    )


def show_pool(console: Console, placed: Placement, allocators: Mapping[str, int]) -> None:
    """The pool beside allocators that do not know lifetimes."""
    least = ", which is proved to be the smallest" if placed.is_smallest else ""
    console.print(f"  pool: {bytes_in_words(placed.footprint)}{_over(placed.footprint, placed.peak)}{least}")
    for name, size in allocators.items():
        console.print(f"  {name}: {bytes_in_words(size)}{_over(size, placed.peak)}")


def _over(size: int, peak: int) -> str:
    return f", {size / peak:.4f} of the peak" if peak else ""


def show_runs(console: Console, runs: Iterable[tuple[str, Schedule, Run]], trace: Trace, bound: Bound) -> None:
    """A line for each schedule, and what none can do better than."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for head in HEADS:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows_of(runs, trace):
        table.add_row(*row)
    console.print(table)
    console.print(bound_in_words(trace, bound), soft_wrap=True)


def rows_of(runs: Iterable[tuple[str, Schedule, Run]], trace: Trace) -> Iterator[tuple[str, ...]]:
    """The cells of `HEADS`."""
    for name, schedule, run in runs:
        out, back = schedule.moved(trace)
        yield (
            name, f"{run.fraction:.4f}", f"{run.seconds:.4g}", seconds_in_words(sum(run.stalls)),
            bytes_in_words(run.peak), bytes_in_words(out), bytes_in_words(back), str(len(schedule.absences)),
        )  # fmt: skip


def bound_in_words(trace: Trace, bound: Bound) -> str:
    """What no schedule can do better than, without recomputing."""
    least = trace.seconds / bound.seconds if bound.seconds else 1.0
    if bound.between is None:
        return "nothing has to wait, as far as the bound can tell"
    start, end = bound.between
    names = f"{trace.operations[start].name} ({start}) and {trace.operations[end].name} ({end})"
    return printable(
        f"no schedule can do better than {least:.4f}: {seconds_in_words(bound.waiting)} must be waited, most of it "
        f"between {names}"
    )
