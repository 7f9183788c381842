"""What is drawn over the time of an iteration. Narrow, so that its words can be read on a phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from vkernels.runtime.memory.links import Machine
from vkernels.runtime.memory.schedule import Schedule
from vkernels.runtime.memory.simulate import Run
from vkernels.runtime.memory.simulate_log import LINKS, Timeline
from vkernels.runtime.memory.trace import Trace

from ..explain.html.markup import bar, label, line, svg
from ..explain.words import bytes_in_words, seconds_in_words

WIDE, LEFT, RIGHT, TOP, HIGH, ROW = 480.0, 76.0, 10.0, 8.0, 200.0, 24.0
COLUMNS = 240
"""Moments at which memory is drawn: the most in each."""
TICKS = 4
LEGEND = (("here", "on the device"), ("over", "its capacity"), ("total", "what lives"), ("registers", "on the host"))
Steps = Sequence[tuple[float, int]]


def memory_over_time(trace: Trace, machine: Machine, run: Run) -> str:
    """Bytes that live, on the device and on the host, beside the device's capacity."""
    line_ = _timeline(run)
    live = list(zip(line_.starts, trace.live(), strict=True))
    top = max(trace.peak, machine.device_bytes, *(size for _, size in line_.host), 1)
    shapes = []
    for tick in range(TICKS + 1):
        y = _y(tick / TICKS)
        shapes += [
            line(LEFT, y, WIDE - RIGHT, y, "axis"),
            label(LEFT - 6, y + 4, bytes_in_words(top * tick / TICKS), anchor="end"),
        ]
    shapes += [
        _path(line_.memory, run.seconds, top, "here", closed=True),
        _path(line_.host, run.seconds, top, "host"),
        _path(live, run.seconds, top, "live"),
        line(LEFT, _y(machine.device_bytes / top), WIDE - RIGHT, _y(machine.device_bytes / top), "limit"),
        *_times(run.seconds, TOP + HIGH + 16),
    ]
    bottom = TOP + HIGH + 40
    for number, (kind, words) in enumerate(LEGEND):
        x, y = LEFT + number % 2 * 190, bottom + number // 2 * 18
        shapes += [bar(x, y - 9, 14, 9, kind), label(x + 20, y, words)]
    return svg(WIDE, bottom + 26, shapes, "Bytes over the time of an iteration")


def transfers_over_time(trace: Trace, schedule: Schedule, run: Run) -> str:
    """A row for each link and direction, a bar for each transfer."""
    whole, shapes = run.seconds, []
    for number, name in enumerate(LINKS):
        y = TOP + number * ROW
        shapes += [label(0, y + 15, name), bar(LEFT, y + 2, WIDE - RIGHT - LEFT, ROW - 6, "room")]
    for each in _timeline(run).transfers:
        tensor = trace.tensors[schedule.absences[each.absence].tensor]
        said = f"{tensor.name}, {bytes_in_words(tensor.size)}: {seconds_in_words(each.end - each.start)}"
        for start, end in _within(each.start, each.end, whole):
            x = _x(start, whole)
            kind = "out" if each.link < 2 else "back"
            shapes.append(bar(x, TOP + each.link * ROW + 2, max(0.5, _x(end, whole) - x), ROW - 6, kind, said))
    shapes += _times(whole, TOP + len(LINKS) * ROW + 12)
    return svg(WIDE, TOP + len(LINKS) * ROW + 18, shapes, "What each link carries over the time of an iteration")


def waits_over_time(trace: Trace, run: Run) -> str:
    """Where operations wait; empty where none does."""
    starts, whole = _timeline(run).starts, run.seconds
    shapes = [label(0, TOP + 15, "waits"), bar(LEFT, TOP + 2, WIDE - RIGHT - LEFT, ROW - 6, "room")]
    for at, wait in enumerate(run.stalls):
        if wait > 0:
            said = f"{trace.operations[at].name} ({at}) waits {seconds_in_words(wait)}"
            x = _x(max(0.0, starts[at] - wait), whole)
            shapes.append(bar(x, TOP + 2, max(0.5, _x(starts[at], whole) - x), ROW - 6, "over", said))
    if not any(run.stalls):
        return ""
    shapes += _times(whole, TOP + ROW + 12)
    return svg(WIDE, TOP + ROW + 18, shapes, "Where operations wait")


def most_in_columns(steps: Steps, whole: float, columns: int = COLUMNS) -> list[int]:
    """Of a size that changes in steps, the most in each part of the time; `steps` is in time's order."""
    most = [0] * columns
    if not steps or whole <= 0:
        return most
    for (begin, size), (end, _) in pairwise([*steps, (whole, 0)]):
        first = min(columns - 1, max(0, int(begin / whole * columns)))
        last = min(columns - 1, max(first, int(end / whole * columns)))
        for column in range(first, last + 1):
            most[column] = max(most[column], size)
    return most


def _path(steps: Steps, whole: float, top: int, kind: str, closed: bool = False) -> str:
    step = (WIDE - RIGHT - LEFT) / COLUMNS
    ways = [
        f"L{LEFT + n * step:.1f} {_y(size / top):.1f}H{LEFT + (n + 1) * step:.1f}"
        for n, size in enumerate(most_in_columns(steps, whole))
    ]
    bottom = f"{TOP + HIGH:.1f}"
    way = "".join(ways)
    drawn = f"M{LEFT:.1f} {bottom}{way}V{bottom}Z" if closed else f"M{way[1:]}"
    return f'<path d="{drawn}" class="{kind}"/>'


def _within(start: float, end: float, whole: float) -> Iterator[tuple[float, float]]:
    """A transfer's parts of an iteration that repeats: what began before it began is at its end."""
    if start < 0:
        yield max(0.0, whole + start), whole
    yield max(0.0, start), min(end, whole)


def _times(whole: float, y: float) -> list[str]:
    anchors = ("start", "middle", "end")
    return [
        label(_x(whole * n / 2, whole), y, seconds_in_words(whole * n / 2), anchor=anchor)
        for n, anchor in enumerate(anchors)
    ]


def _timeline(run: Run) -> Timeline:
    if run.timeline is None:
        raise ValueError("a run without its timeline cannot be drawn")
    return run.timeline


def _x(seconds: float, whole: float) -> float:
    return LEFT + (WIDE - LEFT - RIGHT) * (seconds / whole if whole else 0.0)


def _y(part: float) -> float:
    return TOP + HIGH * (1 - part)
