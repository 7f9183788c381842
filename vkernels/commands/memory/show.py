"""Print traces, pools and schedules, and return them as JSON; docs/json.md documents the fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isinf
from typing import Any

from rich.console import Console
from rich.table import Table

from vkernels.memory.bound import TimeBound
from vkernels.memory.links import MemoryMachine
from vkernels.memory.pool import PoolPlacement
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.trace import MemoryTrace

from ..formatting import format_bytes, format_seconds, plural, printable

HEADS = ("", "fraction", "time", "waits", "peak", "out", "back", "swaps")
"""Columns of the table of schedules; `fraction`: ideal time divided by simulated time. Within 80 columns."""


def show_trace(console: Console, trace: MemoryTrace) -> None:
    """Print a step in a few lines."""
    console.print(printable(trace.name), style="bold")
    console.print(f"  {trace_text(trace)}", soft_wrap=True)


def trace_text(trace: MemoryTrace) -> str:
    """Return a line about a step: its operations, time and memory."""
    return (
        f"{plural(len(trace.operations), 'operation')} in {format_seconds(trace.seconds)}, "
        f"{plural(len(trace.tensors), 'tensor')}; {format_bytes(trace.peak)} live at once, "
        f"{format_bytes(global_bytes(trace))} of it throughout"
    )


def show_pool(console: Console, placed: PoolPlacement, allocators: Mapping[str, int]) -> None:
    """Print the pool beside allocators that do not know lifetimes."""
    least = ", proved to be the smallest possible" if placed.is_smallest else ""
    console.print(f"  pool: {format_bytes(placed.footprint)}{_over(placed.footprint, placed.peak)}{least}")
    for name, size in allocators.items():
        console.print(f"  {name}: {format_bytes(size)}{_over(size, placed.peak)}")


def _over(size: int, peak: int) -> str:
    return f", {size / peak:.4f} of the peak" if peak else ""


def show_runs(
    console: Console, runs: Iterable[tuple[str, SwapSchedule, SimulatedRun]], trace: MemoryTrace, bound: TimeBound
) -> None:
    """Print a row for each schedule, and the lower bound."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for head in HEADS:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows_of(runs, trace):
        table.add_row(*row)
    console.print(table)
    console.print(bound_text(trace, bound), soft_wrap=True)


def rows_of(runs: Iterable[tuple[str, SwapSchedule, SimulatedRun]], trace: MemoryTrace) -> Iterator[tuple[str, ...]]:
    """Return the cells of `HEADS`, row by row."""
    for name, schedule, run in runs:
        out, back = schedule.moved(trace)
        yield (
            name, f"{run.fraction:.4f}", format_seconds(run.seconds), format_seconds(sum(run.stalls)),
            short_bytes(run.peak), short_bytes(out), short_bytes(back), str(len(schedule.absences)),
        )  # fmt: skip


def short_bytes(size: float) -> str:
    """Format bytes with three digits."""
    number, _, unit = format_bytes(size).partition(" ")
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{number} {unit}"


def bound_text(trace: MemoryTrace, bound: TimeBound) -> str:
    """Return a sentence about the lower bound, which holds without recomputation."""
    least = trace.seconds / bound.seconds if bound.seconds else 1.0
    if bound.between is None:
        return "the lower bound does not rule out a schedule without waits"
    start, end = bound.between
    names = f"{trace.operations[start].name} ({start}) and {trace.operations[end].name} ({end})"
    return printable(
        f"no schedule can exceed a fraction of {least:.4f}: {format_seconds(bound.waiting)} of waiting are "
        f"unavoidable, most of it between {names}"
    )


def trace_to_json(trace: MemoryTrace) -> dict[str, Any]:
    """Return a trace's key figures."""
    return {
        "name": trace.name,
        "operations": len(trace.operations),
        "tensors": len(trace.tensors),
        "seconds": trace.seconds,
        "peak_bytes": trace.peak,
        "global_bytes": global_bytes(trace),
    }


def global_bytes(trace: MemoryTrace) -> int:
    """Return the size of the tensors that outlive the iteration."""
    return sum(each.size for each in trace.tensors if each.is_global)


def pool_to_json(placed: PoolPlacement, allocators: dict[str, int]) -> dict[str, Any]:
    """Return a pool's placement and the sizes that online allocators need."""
    return {
        "footprint_bytes": placed.footprint,
        "peak_bytes": placed.peak,
        "is_smallest": placed.is_smallest,
        "offsets": list(placed.offsets),
        "allocators": allocators,
    }


def machine_to_json(machine: MemoryMachine) -> dict[str, Any]:
    """Return sizes and links; unlimited flash is null."""
    return {
        "device_bytes": machine.device_bytes,
        "host_bytes": machine.host_bytes,
        "flash_bytes": None if isinf(machine.flash_bytes) else machine.flash_bytes,
        "link": machine.to_host,
        "flash_link": machine.to_flash,
    }


def run_to_json(name: str, trace: MemoryTrace, schedule: SwapSchedule, run: SimulatedRun) -> dict[str, Any]:
    """Return one simulated schedule."""
    out, back = schedule.moved(trace)
    return {
        "name": name,
        "seconds": run.seconds,
        "fraction": run.fraction,
        "waiting_seconds": sum(run.stalls),
        "peak_bytes": run.peak,
        "absences": len(schedule.absences),
        "out_bytes": out,
        "back_bytes": back,
        "steady": run.steady,
    }
