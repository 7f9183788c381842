"""Simulate a step as `limit` runs it: operations, the program between them, and the overhead of its thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import NamedTuple

from msgspec import structs

from .layout import MemoryLayout
from .links import MemoryMachine, Tier
from .simulate import SimulatedRun, simulate
from .trace import MemoryTrace


class StepTimes(NamedTuple):
    """Seconds of one planned call: all of it, and of each operation together with the program before it."""

    seconds: float
    own: tuple[float, ...]


class Followed(MemoryMachine):
    """A machine whose links are not used by the small transfers of the program's own thread."""

    @staticmethod
    def of(machine: MemoryMachine) -> Followed:
        return Followed(**{each.name: getattr(machine, each.name) for each in fields(machine)})

    def out_seconds(self, tier: Tier, size: int) -> float:
        return 0.0 if self.is_at_once(tier, size) else super().out_seconds(tier, size)

    def in_seconds(self, tier: Tier, size: int) -> float:
        return 0.0 if self.is_at_once(tier, size) else super().in_seconds(tier, size)


def running_ahead(machine: MemoryMachine) -> MemoryMachine:
    """Return the machine for an asynchronous device: the overhead of the program's thread is hidden."""
    return replace(
        machine, operation_seconds=0.0, made_seconds=0.0, absence_seconds=0.0, hand_over_seconds=0.0, at_once=0,
        flash_at_once=0,
    )  # fmt: skip


def with_program(trace: MemoryTrace, outside: Sequence[float]) -> MemoryTrace:
    """Add the program's own time to the operations, for a synchronous device.

    `outside`: seconds before each operation, and after the last, which count before the first.
    """
    before = [outside[0] + outside[-1], *outside[1:-1]]
    pairs = zip(trace.operations, before, strict=True)
    return replace(trace, operations=tuple(structs.replace(op, seconds=op.seconds + more) for op, more in pairs))


def simulated(layout: MemoryLayout, own: Sequence[float] | None = None, timeline: bool = False) -> SimulatedRun:
    """Simulate an iteration with its overhead. `own`: seconds of each operation with the program before it; default:
    those of the trace."""
    seconds = [op.seconds for op in layout.trace.operations] if own is None else own
    whole = [one + more for one, more in zip(seconds, costs(layout), strict=True)]
    run = simulate(layout.trace, layout.schedule, Followed.of(layout.machine), whole, timeline)
    return replace(run, ideal_seconds=sum(seconds))


def simulated_times(layout: MemoryLayout, times: Sequence[StepTimes]) -> float:
    """Return the median of calls, each simulated with its own times."""
    return median(simulated(layout, each.own).seconds for each in times)


def costs(layout: MemoryLayout) -> list[float]:
    """Return the overhead of the program's thread by operation, in seconds."""
    trace, machine = layout.trace, layout.machine
    count = len(trace.operations)
    found = [machine.operation_seconds] * count
    for tensor, life in zip(trace.tensors, trace.lifetimes(), strict=True):
        if not tensor.is_global:
            found[life.start] += machine.made_seconds + tensor.size / machine.made_rate
    again = {*copied_again(layout)}
    for number, each in enumerate(layout.schedule.absences):
        size = trace.tensors[each.tensor].size
        out, back = _begun(machine, each.tier, size)
        if each.copy is not None:
            found[each.leave if each.copy < 0 else each.copy] += out
        elif number in again:
            found[0] += out
        found[each.back % count] += back
        if each.back >= count and each.tier is Tier.FLASH:  # read into ordinary memory at the end of a call
            found[-1] += machine.absence_seconds + size / machine.from_flash
    return found


def copied_again(layout: MemoryLayout) -> Iterator[int]:
    """Absences whose copies exist, but are made again at the start of an iteration: the program may have written the
    tensors between calls."""
    count = len(layout.trace.operations)
    away = {each.tensor for each in layout.schedule.absences if each.back >= count}
    for number, each in layout.schedule.by_leave():
        if each.tensor not in away and (each.copy is None or each.copy < 0):
            yield number
        away.add(each.tensor)


def _begun(machine: MemoryMachine, tier: Tier, size: int) -> tuple[float, float]:
    """Return the overhead of a copy and of a fetch."""
    if not machine.is_at_once(tier, size):
        return (machine.absence_seconds + machine.hand_over_seconds,) * 2
    rates = (machine.to_host, machine.from_host) if tier is Tier.HOST else (machine.to_flash, machine.from_flash)
    return machine.absence_seconds + size / rates[0], machine.absence_seconds + size / rates[1]
