"""Where everything lies while a schedule runs: offsets on the device for each stretch of time in which a tensor is
there, and on the host and flash for what is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from vkernels.ir.errors import MemoryPlanError
from vkernels.runtime.memory_blocks import ALIGNMENT, aligned

from .links import MemoryMachine, Tier
from .pool import place
from .schedule import Absence, SwapSchedule
from .schedule_check import absences_by_tensor, check_possible, least_bytes
from .strategies import search
from .trace import Lifetime, MemoryTrace, live_bytes

TRIES = 8
"""Schedules that are made, each for a little less, until one's tensors have offsets."""
LESS = 0.995
"""Of what should do, so that a try is not wasted."""
SECONDS = 0.5
"""For the offsets of a try."""
ROOMY = 1.05
"""Of what a tier holds at once: so much it may take for what is simply placed."""
MEMORIES = ("device_bytes", "host_bytes", "flash_bytes")
ROUNDS, TRIALS = 0, 0
"""Of the search for a schedule: the quick part of it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch in which a tensor is on the device: from operation `start` until before `end`, which wraps beyond the
    last. `fetched`: the absence after which it comes; None where the tensor is made, or always there."""

    tensor: int
    start: int
    end: int
    fetched: int | None
    offset: int = 0

    def holds(self, moment: int, count: int) -> bool:
        """Whether it is there during an operation."""
        return self.start <= moment < self.end or self.start <= moment + count < self.end


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor's copy on a tier, for some absences: from after operation `start` until operation `end` has run."""

    tensor: int
    tier: Tier
    start: int
    end: int
    absences: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class MemoryLayout:
    """A trace whose sizes are aligned, its schedule, and offsets. Bytes that each memory needs."""

    trace: MemoryTrace
    schedule: SwapSchedule
    machine: MemoryMachine
    pieces: tuple[Piece, ...]
    stays: tuple[Stay, ...]
    device_bytes: int
    host_bytes: int
    flash_bytes: int


def lay_out(trace: MemoryTrace, machine: MemoryMachine, alignment: int = ALIGNMENT) -> MemoryLayout:
    """A schedule whose tensors have offsets within the device. Raises `MemoryPlanError` where there is none.

    A schedule counts bytes; offsets may need gaps beside them. So where they do not fit in a memory, one is made for a
    little less of that.
    """
    sizes = tuple(structs.replace(tensor, size=aligned(tensor.size, alignment)) for tensor in trace.tensors)
    trace = MemoryTrace(trace.name, sizes, trace.operations)
    check_possible(trace, machine)
    least, at = least_bytes(trace)
    planned, enough = machine, 0
    for _ in range(TRIES):
        found = _laid_out(trace, search(trace, planned, ROUNDS, TRIALS, others=()), machine, alignment)
        over = _over(found, machine)
        if not over:
            return found
        if [*over] == ["device_bytes"]:
            enough = min(enough or found.device_bytes, found.device_bytes)
        if [*over] == ["device_bytes"] and planned.device_bytes == least:
            break
        less = {name: int(getattr(planned, name) * LESS * part) for name, part in over.items()}
        if "device_bytes" in less:
            less["device_bytes"] = max(least, less["device_bytes"])
        planned = replace(planned, **less)
    raise MemoryPlanError(
        f"{machine.device_bytes} bytes are enough for each operation, which needs {least} at most, but no offsets were "
        f"found within them, and within {machine.host_bytes} bytes of host"
        + (f": {enough} bytes would do" if enough > machine.device_bytes else "; a little more would do"),
        at,
        enough if enough > machine.device_bytes else None,
    )


def _over(found: MemoryLayout, machine: MemoryMachine) -> dict[str, float]:
    """The memories that it needs more of than there is, and what part of that there is."""
    sizes = {name: (getattr(machine, name), getattr(found, name)) for name in MEMORIES}
    return {name: there / needed for name, (there, needed) in sizes.items() if needed > there}


def _laid_out(trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine, alignment: int) -> MemoryLayout:
    count = len(trace.operations)
    pieces, stays = [*pieces_of(trace, schedule)], [*stays_of(schedule, count)]
    device = [_block(each.start, each.end, trace.tensors[each.tensor].size, count) for each in pieces]
    placed = place(device, count, machine.device_bytes, SECONDS, alignment)
    pieces = [replace(each, offset=offset) for each, offset in zip(pieces, placed.offsets, strict=True)]
    sizes = {}
    for tier, room in ((Tier.HOST, machine.host_bytes), (Tier.FLASH, machine.flash_bytes)):
        mine = [n for n, each in enumerate(stays) if each.tier is tier]
        blocks = [_block(stays[n].start, stays[n].end, trace.tensors[stays[n].tensor].size, count) for n in mine]
        roomy = int(min(room, max(live_bytes(tuple(blocks), count), default=0) * ROOMY))
        there = place(blocks, count, roomy, SECONDS, alignment)
        for n, offset in zip(mine, there.offsets, strict=True):
            stays[n] = replace(stays[n], offset=offset)
        sizes[tier] = there.footprint
    return MemoryLayout(
        trace, schedule, machine, tuple(pieces), tuple(stays), placed.footprint, sizes[Tier.HOST], sizes[Tier.FLASH]
    )  # fmt: skip


def _block(start: int, end: int, size: int, count: int) -> Lifetime:
    return Lifetime(start % count, start % count + min(end - start, count), size)


def pieces_of(trace: MemoryTrace, schedule: SwapSchedule) -> Iterator[Piece]:
    """Every stretch of an iteration in which a tensor is on the device."""
    count = len(trace.operations)
    numbers = {each: n for n, each in enumerate(schedule.absences)}
    away = absences_by_tensor(schedule)
    for index, (tensor, life) in enumerate(zip(trace.tensors, trace.lifetimes(), strict=True)):
        absences = away.get(index, [])
        if not absences:
            yield Piece(index, life.start, life.end, None)
        elif tensor.is_global:
            for each, after in zip(absences, [*absences[1:], absences[0]], strict=True):
                last = after.leave + (count if after.leave <= each.leave else 0)
                turn = count if each.back >= count else 0
                yield Piece(index, each.back - turn, last + 1 - turn, numbers[each])
        else:
            yield from _made_pieces(index, life, [*_from_birth(absences, life, count)], numbers, count)


def _from_birth(absences: list[Absence], life: Lifetime, count: int) -> Iterator[tuple[int, int, Absence]]:
    """`(leave, back, absence)`, counted on from the iteration in which the tensor is made, in their order."""
    turned = [(each, count if each.leave < life.start else 0) for each in absences]
    yield from sorted((each.leave + turn, each.back + turn, each) for each, turn in turned)


def _made_pieces(
    index: int, life: Lifetime, absences: list[tuple[int, int, Absence]], numbers: dict[Absence, int], count: int
) -> Iterator[Piece]:
    start, fetched = life.start, None
    for leave, back, each in absences:
        yield _turned(Piece(index, start, leave + 1, fetched), count)
        start, fetched = back, numbers[each]
    yield _turned(Piece(index, start, life.end, fetched), count)


def _turned(piece: Piece, count: int) -> Piece:
    """The same, beginning in this iteration."""
    turn = count if piece.start >= count else 0
    return replace(piece, start=piece.start - turn, end=piece.end - turn)


def stays_of(schedule: SwapSchedule, count: int) -> Iterator[Stay]:
    """Every copy that a tier holds, from when it is made until the last absence that uses it ends."""
    numbers = {each: n for n, each in enumerate(schedule.absences)}
    for index, absences in absences_by_tensor(schedule).items():
        copied = [n for n, each in enumerate(absences) if each.copy is not None]
        if not copied:
            yield Stay(index, absences[0].tier, 0, count, tuple(numbers[each] for each in absences))
            continue
        turned = [(each, 0) for each in absences[copied[0] :]] + [(each, count) for each in absences[: copied[0]]]
        stay: Stay | None = None
        for each, turn in turned:
            if each.copy is not None:
                if stay is not None:
                    yield stay
                stay = Stay(index, each.tier, each.copy + turn, each.next + turn, (numbers[each],))
            elif stay is not None:
                stay = replace(stay, end=each.next + turn, absences=(*stay.absences, numbers[each]))
        if stay is not None:
            yield stay
