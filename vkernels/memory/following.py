"""What a step takes when a schedule is followed for real: operations, the program between them, and on top of that what
following costs its thread."""

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
    """One call that followed its plan. Seconds: the whole call, and by operation, the operation with what the program
    took before it."""

    seconds: float
    own: tuple[float, ...]


class Followed(MemoryMachine):
    """The same machine, whose links have nothing to do with what the program's thread carries itself."""

    @staticmethod
    def of(machine: MemoryMachine) -> Followed:
        return Followed(**{each.name: getattr(machine, each.name) for each in fields(machine)})

    def out_seconds(self, tier: Tier, size: int) -> float:
        return 0.0 if self.is_at_once(tier, size) else super().out_seconds(tier, size)

    def in_seconds(self, tier: Tier, size: int) -> float:
        return 0.0 if self.is_at_once(tier, size) else super().in_seconds(tier, size)


def running_ahead(machine: MemoryMachine) -> MemoryMachine:
    """For a device that a program does not wait for: what its thread does meanwhile costs nothing."""
    return replace(
        machine, operation_seconds=0.0, made_seconds=0.0, absence_seconds=0.0, hand_over_seconds=0.0, at_once=0,
        flash_at_once=0,
    )  # fmt: skip


def with_program(trace: MemoryTrace, outside: Sequence[float]) -> MemoryTrace:
    """The trace of a program whose thread waits for each operation. `outside`: what it took before each, and after the
    last, which here is before the first."""
    before = [outside[0] + outside[-1], *outside[1:-1]]
    operations = (
        structs.replace(op, seconds=op.seconds + more) for op, more in zip(trace.operations, before, strict=True)
    )  # fmt: skip
    return replace(trace, operations=tuple(operations))


def simulated(layout: MemoryLayout, own: Sequence[float] | None = None, timeline: bool = False) -> SimulatedRun:
    """An iteration as it is followed. `own`: what operations, with the program before each, took; what the trace says
    if nothing is said."""
    seconds = [op.seconds for op in layout.trace.operations] if own is None else own
    whole = [one + more for one, more in zip(seconds, costs(layout), strict=True)]
    run = simulate(layout.trace, layout.schedule, Followed.of(layout.machine), whole, timeline)
    return replace(run, ideal_seconds=sum(seconds))


def simulated_times(layout: MemoryLayout, times: Sequence[StepTimes]) -> float:
    """The median of calls, each simulated with its own times."""
    return median(simulated(layout, each.own).seconds for each in times)


def costs(layout: MemoryLayout) -> list[float]:
    """By operation, what following costs the program's thread, in seconds."""
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
        if each.back >= count and each.tier is Tier.FLASH:  # it is read into ordinary memory when a call ends
            found[-1] += machine.absence_seconds + size / machine.from_flash
    return found


def copied_again(layout: MemoryLayout) -> Iterator[int]:
    """Absences whose copies were there already, but are made again when an iteration begins: between calls the program
    may have written what was on the device."""
    absences, count = layout.schedule.absences, len(layout.trace.operations)
    away = {each.tensor for each in absences if each.back >= count}
    for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].leave, pair[0])):
        if each.tensor not in away and (each.copy is None or each.copy < 0):
            yield number
        away.add(each.tensor)


def _begun(machine: MemoryMachine, tier: Tier, size: int) -> tuple[float, float]:
    """What the program's thread does for a copy of so many bytes, and for a fetch."""
    if not machine.is_at_once(tier, size):
        return (machine.absence_seconds + machine.hand_over_seconds,) * 2
    out, back = (
        (machine.to_host, machine.from_host) if tier is Tier.HOST else (machine.to_flash, machine.from_flash)
    )  # fmt: skip
    return machine.absence_seconds + size / out, machine.absence_seconds + size / back
