"""What each placement of one buffer costs: transfers and faults, accesses of each launch, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from ..calibration import AccessCosts, Managed
from .program import Buffer, BufferUse, HostCode, PlacedLaunch, PlacedProgram, Side, Step


class BufferPlacement(StrEnum):
    """How a kernel reaches a buffer: a copy of its own, the host's pinned memory mapped, or managed memory."""

    COPY = "copy"
    ZERO_COPY = "zero-copy"
    MANAGED = "managed"


@dataclass(frozen=True)
class PlacementCost:
    """One placement of one buffer. Seconds and bytes.

    `memory`, `link`: of each launch's accesses, to the device's own memory and over the link to the host's: they run
    beside the rest of the launch. `moving`: copies and faults, `host`: accesses by the CPU; both stand alone.
    `footprint`: bytes of the memory that the device works in: on an integrated one the host's copy counts too.
    """

    placement: BufferPlacement
    memory: tuple[float, ...]
    link: tuple[float, ...]
    moving: float
    host: float
    footprint: int
    why: str
    prefetched: bool = False

    @property
    def alone(self) -> float:
        """Seconds that nothing runs beside."""
        return self.moving + self.host


def costs_of(buffer: Buffer, program: PlacedProgram, access: AccessCosts) -> tuple[PlacementCost, ...]:
    """The placements that the device has, in the order copy, zero-copy, managed."""
    uses = [(step, use) for step in program.steps for use in step.uses if use.buffer == buffer.name]
    found = [_copied(buffer, program, uses, access), _mapped(buffer, program, uses, access)]
    if access.managed is not None:
        found.append(_managed(buffer, program, uses, access, access.managed))
    return tuple(found)


_Uses = list[tuple[Step, BufferUse]]


def _copied(buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts) -> PlacementCost:
    """Whole buffers are copied, when a side needs what only the other has."""
    to_device = to_host = 0
    valid = {buffer.starts} if buffer.starts is not None else set()
    reached_by_host = buffer.starts is Side.HOST or buffer.wanted
    for step, use in uses:
        side = _side(step)
        reached_by_host |= side is Side.HOST
        if side not in valid and valid and not use.fresh:
            to_device, to_host = (to_device + 1, to_host) if side is Side.DEVICE else (to_device, to_host + 1)
            valid.add(side)
        if use.written or use.put:
            valid = {side}
    if buffer.wanted and valid == {Side.DEVICE}:
        to_host += 1
    moving = to_device * (access.copy_seconds + buffer.size / access.to_device)
    moving += to_host * (access.copy_seconds + buffer.size / access.to_host)
    twice = access.integrated and reached_by_host
    return PlacementCost(
        BufferPlacement.COPY,
        _accesses(program, uses, access, of_device=True),
        _nothing(program),
        moving,
        _by_host(uses, access.host),
        buffer.size * (2 if twice else 1),
        _words(to_device, "copied to the device", to_host, "copied back", "never copied"),
    )


def _mapped(buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts) -> PlacementCost:
    """One memory, the host's: nothing moves, and every access goes there."""
    seconds = _accesses(program, uses, access, of_device=False)
    again = sum(use.asked + use.put for step, use in uses if isinstance(step, PlacedLaunch))
    once = sum(use.read + use.written for step, use in uses if isinstance(step, PlacedLaunch))
    is_moved = buffer.starts is Side.DEVICE and not access.integrated
    held = "" if access.is_cached or again <= 1.01 * once else f", {again / max(1, once):.3g} times for want of caches"
    return PlacementCost(
        BufferPlacement.ZERO_COPY,
        seconds if access.integrated else _nothing(program),
        _nothing(program) if access.integrated else seconds,
        access.copy_seconds + buffer.size / access.to_host if is_moved else 0.0,
        _by_host(uses, access.pinned_by_host),
        buffer.size if access.integrated else 0,
        f"reached where it is{held}",
    )


def _managed(
    buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts, managed: Managed
) -> PlacementCost:
    """Pages go to who touches them: by faults, or asked for beforehand where that is faster."""
    moving, moved, prefetched, at = 0.0, 0, False, buffer.starts
    for side, touched in _touches(buffer, uses):
        if at is side:
            continue
        rate = managed.to_device if side is Side.DEVICE else managed.to_host
        faults = managed.first_seconds + ceil(touched / managed.fault_bytes) * managed.fault_seconds
        by_fault = faults + (touched / rate if rate is not None and at is not None else 0.0)
        asked = None
        if managed.prefetch is not None:  # pages that nobody has filled are only mapped
            asked = managed.prefetch_seconds + (buffer.size / managed.prefetch if at is not None else 0.0)
        prefetched |= asked is not None and asked < by_fault
        moving += by_fault if asked is None else min(asked, by_fault)
        moved, at = moved + 1, side
    return PlacementCost(
        BufferPlacement.MANAGED,
        _accesses(program, uses, access, of_device=True),
        _nothing(program),
        moving,
        _by_host(uses, access.host),
        buffer.size,
        f"{_sides(moved)}{', asked for beforehand' if prefetched else ''}",
        prefetched,
    )


def _touches(buffer: Buffer, uses: _Uses) -> Iterator[tuple[Side, float]]:
    """Who touches the buffer, and how many bytes of it; the host at the end if it wants it."""
    for step, use in uses:
        touched = min(buffer.size, max(use.read, use.written, use.asked, use.put))
        if touched:
            yield _side(step), touched
    if buffer.wanted:
        yield Side.HOST, buffer.size


def _accesses(program: PlacedProgram, uses: _Uses, access: AccessCosts, of_device: bool) -> tuple[float, ...]:
    """Seconds of each launch's accesses to the buffer, in the device's memory or mapped."""
    rates, cached = (access.device, True) if of_device else (access.mapped, access.is_cached)
    found = []
    by_step = {id(step): use for step, use in uses}
    for launch in program.launches:
        use = by_step.get(id(launch))
        if use is None:
            found.append(0.0)
            continue
        read, written = (use.read, use.written) if cached else (max(use.read, use.asked), max(use.written, use.put))
        reading = rates.scattered_read if use.scattered else rates.read
        writing = rates.scattered_write if use.scattered else rates.write
        found.append(read / reading + written / writing)
    return tuple(found)


def _by_host(uses: _Uses, rate: float) -> float:
    return sum((use.read + use.written) / rate for step, use in uses if isinstance(step, HostCode))


def _nothing(program: PlacedProgram) -> tuple[float, ...]:
    return (0.0,) * len(program.launches)


def _side(step: Step) -> Side:
    return Side.DEVICE if isinstance(step, PlacedLaunch) else Side.HOST


def _sides(moved: int) -> str:
    return {0: "stays where it is", 1: "changes sides once"}.get(moved, f"changes sides {moved} times")


def _words(first: int, what: str, second: int, other: str, none: str) -> str:
    said = [f"{words}{f' {n} times' if n > 1 else ''}" for n, words in ((first, what), (second, other)) if n]
    return " and ".join(said) or none
