"""A step's memory over time, what its links do, and where it waits: plain SVG for docs/memory-swapping.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from vkernels.memory.links import MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.simulate_engine import LINKS
from vkernels.memory.trace import MemoryTrace

BEGIN, END = "<!-- made by benchmarks/swap.py -->", "<!-- end -->"
INK, GREY, BLUE, ORANGE, GREEN, RED = "#222", "#999", "#1f6fb4", "#d9762b", "#3a8f4d", "#c0392b"
LEFT, TOP, WIDE, HIGH, STRIP = 70, 40, 800, 260, 18
COLUMNS = 800
"""Moments at which memory is drawn: the most in each."""


def memory_plot(trace: MemoryTrace, schedule: SwapSchedule, run: SimulatedRun, machine: MemoryMachine) -> str:
    """Bytes that live, on the device and on the host; the four links; the waits."""
    assert run.timeline is not None
    whole, highest = run.seconds, max(trace.peak, machine.device_bytes, *(size for _, size in run.timeline.host))
    live = list(zip(run.timeline.starts, trace.live(), strict=True))
    parts = [
        *_axes(trace, run, highest),
        _curve(live, whole, highest, GREY),
        _curve(run.timeline.host, whole, highest, GREEN),
        _curve(run.timeline.memory, whole, highest, BLUE),
        _line(machine.device_bytes / highest),
        *_legend(),
        *_links(run, whole),
        *_waits(run, whole),
    ]
    high = TOP + HIGH + 6 * (STRIP + 6) + 50
    style = "font-family:sans-serif;font-size:12px;fill:#222"
    size = f'width="{LEFT + WIDE + 30}" height="{high}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 30} {high}" {size} style="{style}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _axes(trace: MemoryTrace, run: SimulatedRun, highest: int) -> Iterator[str]:
    title = f"{trace.name}: {run.seconds:.3f} s an iteration, {run.fraction:.4f} of the ideal"
    yield _text(LEFT, 20, title, weight="bold")
    step = next(each for each in (5, 10, 20, 50, 100, 200) if highest / 1e9 / each <= 7)
    for size in range(0, int(highest / 1e9) + 1, step):
        y = _y(size * 1e9 / highest)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        yield _text(LEFT - 8, y + 4, f"{size} GB", anchor="end")
    for tenth in range(0, 11, 2):
        x = LEFT + WIDE * tenth / 10
        yield _text(x, TOP + HIGH + 16, f"{run.seconds * tenth / 10:.2f} s", anchor="middle")


def _legend() -> Iterator[str]:
    for number, (color, text) in enumerate(
        ((GREY, "lives"), (BLUE, "on the device"), (GREEN, "on the host"), (RED, "the device's capacity"))
    ):
        x = LEFT + 330 + number * 115
        yield f'<rect x="{x}" y="{TOP - 12}" width="12" height="4" fill="{color}"/>'
        yield _text(x + 16, TOP - 6, text)


def _curve(points: Sequence[tuple[float, int]], whole: float, highest: int, color: str) -> str:
    """Steps, the largest in each column."""
    columns = [0] * (COLUMNS + 1)
    at, level = 0, points[0][1]
    for column in range(COLUMNS + 1):
        most = level
        while at < len(points) and points[at][0] <= whole * (column + 1) / COLUMNS:
            level = points[at][1]
            most = max(most, level)
            at += 1
        columns[column] = most
    path = " ".join(f"{LEFT + WIDE * n / COLUMNS:.1f},{_y(size / highest):.1f}" for n, size in enumerate(columns))
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def _line(part: float) -> str:
    y = _y(part)
    return f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="{RED}" stroke-dasharray="6 4"/>'


def _links(run: SimulatedRun, whole: float) -> Iterator[str]:
    assert run.timeline is not None
    for link, name in enumerate(LINKS):
        spans = [(each.start, each.end) for each in run.timeline.transfers if each.link == link]
        yield from _strip(link, name, spans, whole, ORANGE)


def _waits(run: SimulatedRun, whole: float) -> Iterator[str]:
    assert run.timeline is not None
    spans = [(start - wait, start) for start, wait in zip(run.timeline.starts, run.stalls, strict=True) if wait > 0]
    yield from _strip(4, "waits", spans, whole, RED)


def _strip(number: int, name: str, spans: Sequence[tuple[float, float]], whole: float, color: str) -> Iterator[str]:
    """A row of time, dark where it is busy: how much of each column is."""
    top = TOP + HIGH + 30 + number * (STRIP + 6)
    yield _text(LEFT - 8, top + STRIP - 5, name, anchor="end")
    yield f'<rect x="{LEFT}" y="{top}" width="{WIDE}" height="{STRIP}" fill="#f4f4f4"/>'
    cells = COLUMNS // 2
    busy = [0.0] * cells
    for start, end in spans:
        for a, b in ((start, end), (start + whole, end + whole)):
            a, b = max(a, 0.0) / whole * cells, min(b, whole) / whole * cells
            for cell in range(int(a), min(cells, int(b) + 1)):
                busy[cell] += max(0.0, min(b, cell + 1) - max(a, cell))
    for cell, part in enumerate(busy):
        if part > 0.01:
            x = LEFT + WIDE * cell / cells
            box = f'x="{x:.1f}" y="{top}" width="{WIDE / cells:.1f}" height="{STRIP}"'
            yield f'<rect {box} fill="{color}" opacity="{min(1.0, part):.2f}"/>'


def _y(part: float) -> float:
    return TOP + HIGH * (1 - part)


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
