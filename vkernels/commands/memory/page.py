"""A step's iteration on a device with too little memory as one HTML page: tables, and a plot over time to zoom into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.memory.bound import TimeBound
from vkernels.memory.links import ANY_SIZE, MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.trace import MemoryTrace

from ..formatting import format_bytes, format_seconds
from ..html import render
from ..html.charts import Plots
from .plots import plot_iteration
from .show import HEADS, bound_text, rows_of, trace_text

MAX_ROWS = 12


@dataclass(frozen=True)
class PageSubject:
    """What the page shows. `runs`: by name; the last must have its timeline and is plotted. `said`: its origin."""

    trace: MemoryTrace
    machine: MemoryMachine
    bound: TimeBound
    runs: tuple[tuple[str, SwapSchedule, SimulatedRun], ...]
    said: str = "Simulated, not run."


def write_page(path: Path, subject: PageSubject) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(subject))


def page_of(subject: PageSubject) -> str:
    """Return the page as HTML."""
    trace, machine = subject.trace, subject.machine
    name, schedule, run = subject.runs[-1]
    plots = Plots()
    plot_iteration(plots, trace, machine, schedule, run)
    waits = sorted((at for at, wait in enumerate(run.stalls) if wait), key=lambda at: -run.stalls[at])
    largest = sorted(schedule.absences, key=lambda absence: -trace.tensors[absence.tensor].size)
    return render(
        "memory.html",
        plots,
        title=f"Memory of {trace.name}",
        summary=trace_text(trace),
        device=format_bytes(machine.device_bytes),
        host=format_bytes(machine.host_bytes) if machine.host_bytes < ANY_SIZE else "unlimited size",
        origin=subject.said,
        heads=HEADS,
        rows=rows_of(subject.runs, trace),
        bound=bound_text(trace, subject.bound),
        name=name,
        run=run,
        waiting=sum(run.stalls),
        waits=[(at, trace.operations[at].name, format_seconds(run.stalls[at])) for at in waits[:MAX_ROWS]],
        absences=[(absence, trace.tensors[absence.tensor]) for absence in largest[:MAX_ROWS]],
        left_out=max(0, len(largest) - MAX_ROWS),
    )
