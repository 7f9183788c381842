"""A step's iteration on a device with too little memory as one HTML page: tables, and a plot over time to zoom into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.memory.bound import TimeBound
from vkernels.memory.links import ANY_SIZE, MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.simulate_engine import LINKS, Timeline
from vkernels.memory.trace import MemoryTrace

from ..formatting import byte_scale, format_bytes, format_seconds
from ..html import render
from ..html.charts import Plots, plain
from .offset_map import OffsetMap, plot_map
from .show import HEADS, bound_text, rows_of, trace_text

MAX_ROWS = 12
Steps = Iterable[tuple[float, float]]
WAITS = "waits"
OUT, BACK, WAIT = "#d9822b", "#4c7fd0", "#c92a2a"


@dataclass(frozen=True)
class PageSubject:
    """What the page shows. `runs`: by name; the last must have its timeline and is plotted. `said`: its origin.

    `map`: where its tensors are."""

    trace: MemoryTrace
    machine: MemoryMachine
    bound: TimeBound
    runs: tuple[tuple[str, SwapSchedule, SimulatedRun], ...]
    said: str = "Simulated, not run."
    map: OffsetMap | None = None


MAP_ABOUT = (
    "Each rectangle is a block: when it is there, and where. Grey: tensors that outlive the iteration. "
    "Drag to zoom, double-click to reset; hover for names."
)


def write_page(path: Path, subject: PageSubject) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(subject))


def page_of(subject: PageSubject) -> str:
    """Return the page as HTML."""
    trace, machine = subject.trace, subject.machine
    name, schedule, run = subject.runs[-1]
    plots = Plots()
    plot_iteration(plots, trace, machine, schedule, run)
    if subject.map is not None:
        plot_map(plots, subject.map)
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
        waits=[
            (at, trace.operations[at].name, trace.operations[at].source, format_seconds(run.stalls[at]))
            for at in waits[:MAX_ROWS]
        ],
        absences=[(absence, trace.tensors[absence.tensor]) for absence in largest[:MAX_ROWS]],
        left_out=max(0, len(largest) - MAX_ROWS),
        has_map=subject.map is not None,
        map_about=MAP_ABOUT,
        map_left_out=0 if subject.map is None else subject.map.left_out,
    )


def write_map(path: Path, title: str, summary: str, found: OffsetMap, sizes: Mapping[str, int], peak: int) -> None:
    """Write a page with the map of a pool, without a schedule. `sizes`: of the pool and of allocators, by name.

    Raises as `write_file`.
    """
    plots = Plots()
    plot_map(plots, found)
    largest = sorted(found.blocks, key=lambda block: (-block.size, block.start))[:MAX_ROWS]
    page = render(
        "pool.html",
        plots,
        title=f"Memory of {title}",
        summary=summary,
        rows=[(name, format_bytes(size), f"{size / peak:.4f}" if peak else "") for name, size in sizes.items()],
        map_about=MAP_ABOUT,
        left_out=found.left_out,
        largest=[(b.name, format_bytes(b.size), b.offset, b.start, b.end, b.source) for b in largest],
    )
    write_file(path, page)


def plot_iteration(
    plots: Plots, trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule, run: SimulatedRun
) -> None:
    """Plot a run that has its timeline: bytes on device and host above, transfers and waits below."""
    from plotly.subplots import make_subplots

    timeline = run.timeline
    if timeline is None:
        raise ValueError("a run without its timeline cannot be plotted")
    figure = make_subplots(rows=2, shared_xaxes=True, row_heights=[0.65, 0.35], vertical_spacing=0.05)
    live = zip(timeline.starts, trace.live(), strict=True)
    most = max([machine.device_bytes, *(size for _, size in (*timeline.memory, *timeline.host))])
    scale, unit = byte_scale(most)
    device = [(0.0, machine.device_bytes), (run.seconds, machine.device_bytes)]
    for name, steps, style in (
        ("on the device", timeline.memory, {"fill": "tozeroy", "line": {"color": "#4c7fd0", "shape": "hv"}}),
        ("live", live, {"line": {"color": "#868e96", "shape": "hv"}}),
        ("on the host", timeline.host, {"line": {"color": "#2b8a3e", "shape": "hv"}}),
        ("device capacity", device, {"line": {"color": "#c92a2a", "dash": "dash"}}),
    ):
        x, y = _columns(steps, run.seconds)
        figure.add_scatter(x=x, y=[size / scale for size in y], name=name, mode="lines", row=1, col=1, **style)
    spans = [*_transfers(trace, schedule, timeline, run.seconds), *_waits(trace, timeline, run)]
    figure.add_bar(
        base=[start for _, start, _, _ in spans], x=[end - start for _, start, end, _ in spans],
        y=[row for row, _, _, _ in spans], hovertext=[plain(text) for _, _, _, text in spans], hoverinfo="text",
        marker={"color": [_colour(row) for row, _, _, _ in spans], "line": {"width": 0}},
        orientation="h", showlegend=False, row=2, col=1,
    )  # fmt: skip
    figure.update_yaxes(title=unit, rangemode="tozero", row=1, col=1)
    rows = {"categoryorder": "array", "categoryarray": [WAITS, *reversed(LINKS)]}
    figure.update_yaxes(type="category", automargin=True, **rows, row=2, col=1)
    figure.update_xaxes(title="seconds since the iteration began", row=2, col=1)
    plots.add("iteration", figure, height=560)


def _columns(steps: Steps, end: float) -> tuple[list[float], list[float]]:
    """Times and sizes; the last size holds until the end."""
    points = list(steps)
    points += [(end, points[-1][1])] if points and points[-1][0] < end else []
    return [time for time, _ in points], [size for _, size in points]


def _transfers(
    trace: MemoryTrace, schedule: SwapSchedule, timeline: Timeline, whole: float
) -> Iterator[tuple[str, float, float, str]]:
    for transfer in timeline.transfers:
        tensor = trace.tensors[schedule.absences[transfer.absence].tensor]
        text = f"{tensor.name}, {format_bytes(tensor.size)}: {format_seconds(transfer.end - transfer.start)}"
        if transfer.start < 0:  # Iterations repeat: the part before this one is drawn at its end.
            yield LINKS[transfer.link], max(0.0, whole + transfer.start), whole, text
        yield LINKS[transfer.link], max(0.0, transfer.start), min(transfer.end, whole), text


def _waits(trace: MemoryTrace, timeline: Timeline, run: SimulatedRun) -> Iterator[tuple[str, float, float, str]]:
    for at, wait in enumerate(run.stalls):
        if wait > 0:
            text = f"{trace.operations[at].name} ({at}) waits {format_seconds(wait)}"
            yield WAITS, max(0.0, timeline.starts[at] - wait), timeline.starts[at], text


def _colour(row: str) -> str:
    return WAIT if row == WAITS else OUT if row.startswith("to ") else BACK
