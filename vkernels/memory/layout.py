"""Memory offsets under a schedule: of each tensor while it is on the device, and of copies on the host and flash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from vkernels.ir.errors import MemoryPlanError
from vkernels.runtime.memory_blocks import ALIGNMENT, aligned

from .links import MemoryMachine, Tier
from .pool import place
from .schedule import Stay, SwapSchedule, stays_of
from .schedule_check import check_possible, least_bytes
from .sizes import sized
from .strategies import search
from .trace import MemoryTrace, live_bytes, wrapped

TRIES = 8
"""Schedules to try, each for less memory, until the tensors of one have offsets."""
LESS = 0.995
"""Safety factor on the memory of the next try."""
SECONDS = 0.5
"""Time limit for the offsets of a try."""
SHARE = 0.5
"""Part of it for a footprint within the memory; the rest tells how much less the next schedule may use."""
ROOMY = 1.05
"""A tier's memory over its peak, for simple placement."""
MEMORIES = ("device_bytes", "host_bytes", "flash_bytes")


@dataclass(frozen=True, slots=True)
class Piece:
    """A time in which a tensor is on the device: from operation `start` until before `end`, which may wrap.

    `fetched`: the number of the absence before it; None if the tensor is made, or always there.
    """

    tensor: int
    start: int
    end: int
    fetched: int | None
    offset: int = 0

    def holds(self, moment: int, count: int) -> bool:
        """Whether the tensor is there during an operation."""
        return self.start <= moment < self.end or self.start <= moment + count < self.end


@dataclass(frozen=True)
class MemoryLayout:
    """A trace with aligned sizes, its schedule and offsets, and the bytes that each memory needs."""

    trace: MemoryTrace
    schedule: SwapSchedule
    machine: MemoryMachine
    pieces: tuple[Piece, ...]
    stays: tuple[Stay, ...]
    device_bytes: int
    host_bytes: int
    flash_bytes: int


def lay_out(trace: MemoryTrace, machine: MemoryMachine, alignment: int = ALIGNMENT) -> MemoryLayout:
    """Find a schedule whose tensors have offsets within the device. Raises `MemoryPlanError` if there is none.

    A schedule counts bytes, but offsets may leave gaps. If they do not fit in a memory, the next schedule is made for
    less of it, the last one for the least device memory. The error's `least` has offsets.
    """
    sizes = tuple(structs.replace(tensor, size=aligned(tensor.size, alignment)) for tensor in trace.tensors)
    trace = MemoryTrace(trace.name, sizes, trace.operations)
    least, at = least_bytes(trace)
    try:
        check_possible(trace, machine)
    except MemoryPlanError:
        if least <= machine.device_bytes:
            raise
        check_possible(trace, replace(machine, device_bytes=least))
        planned, tries = replace(machine, device_bytes=least), 1
    else:
        planned, tries = machine, TRIES
    enough = 0
    for number in range(tries):
        if number == TRIES - 1:
            planned = replace(planned, device_bytes=least)
        found = _laid_out(trace, search(trace, planned, rounds=0, trials=0, others=()), machine, alignment)
        over = {name: getattr(found, name) for name in MEMORIES if getattr(found, name) > getattr(machine, name)}
        if not over:
            return found
        if [*over] == ["device_bytes"]:
            enough = min(enough or found.device_bytes, found.device_bytes)
            if planned.device_bytes == least:
                break
        less = {name: int(getattr(planned, name) * LESS * (getattr(machine, name) / over[name])) for name in over}
        if "device_bytes" in less:
            less["device_bytes"] = max(least, less["device_bytes"])
        planned = replace(planned, **less)
    enough = enough if enough > machine.device_bytes else 0
    if least > machine.device_bytes:
        raise MemoryPlanError(
            f"operation {at} ({trace.operations[at].name}) has to have {sized(least)} at once, and the device has "
            f"{sized(machine.device_bytes)}: at least {sized(max(least, enough))} are needed",
            at,
            max(least, enough),
        )
    raise MemoryPlanError(
        f"{sized(machine.device_bytes)} are enough for each operation, which needs {sized(least)} at most, but no "
        f"offsets were found within them, and within {sized(machine.host_bytes)} of host: "
        + (f"{sized(enough)} would do" if enough else "a little more would do"),
        at,
        enough or None,
    )


def _laid_out(trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine, alignment: int) -> MemoryLayout:
    count = len(trace.operations)
    pieces, stays = [*pieces_of(trace, schedule)], [*stays_of(schedule, count)]
    device = [wrapped(each.start, each.end, trace.tensors[each.tensor].size, count) for each in pieces]
    placed = place(device, count, machine.device_bytes, SECONDS, alignment, share=SHARE)
    pieces = [replace(each, offset=offset) for each, offset in zip(pieces, placed.offsets, strict=True)]
    footprints = []
    for tier, room in ((Tier.HOST, machine.host_bytes), (Tier.FLASH, machine.flash_bytes)):
        mine = [n for n, each in enumerate(stays) if each.tier is tier]
        blocks = [wrapped(stays[n].start, stays[n].end, trace.tensors[stays[n].tensor].size, count) for n in mine]
        roomy = int(min(room, max(live_bytes(blocks, count)) * ROOMY))
        there = place(blocks, count, roomy, SECONDS, alignment, share=SHARE)
        for n, offset in zip(mine, there.offsets, strict=True):
            stays[n] = replace(stays[n], offset=offset)
        footprints.append(there.footprint)
    return MemoryLayout(trace, schedule, machine, tuple(pieces), tuple(stays), placed.footprint, *footprints)


def pieces_of(trace: MemoryTrace, schedule: SwapSchedule) -> Iterator[Piece]:
    """Every time of an iteration in which a tensor is on the device."""
    count = len(trace.operations)
    away = schedule.by_tensor()
    for index, (tensor, life) in enumerate(zip(trace.tensors, trace.lifetimes(), strict=True)):
        absences = away.get(index, [])
        if tensor.is_global and absences:
            for (number, each), (_, after) in zip(absences, [*absences[1:], absences[0]], strict=True):
                last = after.leave + (count if after.leave <= each.leave else 0)
                yield _from_this_iteration(Piece(index, each.back, last + 1, number), count)
            continue
        in_order = [(number, each.shifted(count if each.leave < life.start else 0)) for number, each in absences]
        start, fetched = life.start, None
        for number, each in sorted(in_order, key=lambda pair: pair[1].leave):
            yield _from_this_iteration(Piece(index, start, each.leave + 1, fetched), count)
            start, fetched = each.back, number
        yield _from_this_iteration(Piece(index, start, life.end, fetched), count)


def _from_this_iteration(piece: Piece, count: int) -> Piece:
    turn = count if piece.start >= count else 0
    return replace(piece, start=piece.start - turn, end=piece.end - turn)
