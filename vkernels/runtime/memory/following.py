"""What a step takes when a schedule is followed for real: operations, the program between them, and on top of that what
following costs its thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from .layout import Layout
from .links import Tier
from .simulate import Run, simulate
from .trace import Trace


class Times(NamedTuple):
    """One call that followed its plan. Seconds: the whole call, and by operation, the operation with what the program
    took before it."""

    seconds: float
    own: tuple[float, ...]


def with_program(trace: Trace, outside: Sequence[float]) -> Trace:
    """The trace of a program whose thread waits for each operation. `outside`: what it took before each, and after the
    last, which here is before the first."""
    before = [outside[0] + outside[-1], *outside[1:-1]]
    operations = (
        replace(op, seconds=op.seconds + more) for op, more in zip(trace.operations, before, strict=True)
    )  # fmt: skip
    return replace(trace, operations=tuple(operations))


def simulated(layout: Layout, own: Sequence[float] | None = None, timeline: bool = False) -> Run:
    """An iteration as it is followed. `own`: what operations, with the program before each, took; what the trace says
    if nothing is said."""
    seconds = [op.seconds for op in layout.trace.operations] if own is None else own
    whole = [one + more for one, more in zip(seconds, costs(layout), strict=True)]
    return replace(simulate(layout.trace, layout.schedule, layout.machine, whole, timeline), ideal_seconds=sum(seconds))


def simulated_times(layout: Layout, times: Sequence[Times]) -> float:
    """The median of calls, each simulated with its own times."""
    return median(simulated(layout, each.own).seconds for each in times)


def costs(layout: Layout) -> list[float]:
    """By operation, what following costs the program's thread, in seconds."""
    trace, machine = layout.trace, layout.machine
    count = len(trace.operations)
    found = [machine.operation_seconds] * count
    for tensor, life in zip(trace.tensors, trace.lifetimes(), strict=True):
        if not tensor.is_global:
            found[life.start] += machine.made_seconds + tensor.size / machine.made_rate
    for each in layout.schedule.absences:
        size, on_host = trace.tensors[each.tensor].size, each.tier is Tier.HOST
        by_thread = machine.is_at_once(each.tier, size)
        out, back = (machine.to_host, machine.from_host) if on_host else (machine.to_flash, machine.from_flash)
        copied = each.leave if each.copy is None or each.copy < 0 else each.copy
        if each.copy is not None:
            found[copied] += machine.absence_seconds + size / out * by_thread
        found[each.back % count] += machine.absence_seconds + size / back * by_thread
        if each.back >= count and not on_host:
            found[-1] += size / back  # it is read into ordinary memory when a call ends
    return found
