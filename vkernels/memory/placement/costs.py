"""The costs of each placement of one buffer: transfers and faults, accesses of each launch, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf

from ..calibration import AccessCosts, Managed
from .program import Buffer, BufferUse, HostCode, PlacedLaunch, PlacedProgram, Side, Step


class BufferPlacement(StrEnum):
    """How a kernel accesses a buffer: in a copy, in the host's pinned memory, or in managed memory."""

    COPY = "copy"
    ZERO_COPY = "zero-copy"
    MANAGED = "managed"


@dataclass(frozen=True)
class PlacementCost:
    """One placement of one buffer. Seconds and bytes.

    `memory`, `link`: of each launch's accesses, to the device's own memory and over the link to the host; they overlap
    with the rest of the launch. `moving`: copies and faults; `host`: accesses by the CPU; both overlap with nothing.
    `footprint`: bytes of the memory that the device works in; on an integrated one with the host's copy.
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
        """Seconds that overlap with nothing."""
        return self.moving + self.host


def costs_of(buffer: Buffer, program: PlacedProgram, access: AccessCosts) -> tuple[PlacementCost, ...]:
    """Return the placements that the device has, in the order copy, zero-copy, managed."""
    uses = [(step, use) for step in program.steps for use in step.uses if use.buffer == buffer.name]
    found = [_copied(buffer, program, uses, access), _mapped(buffer, program, uses, access)]
    if access.managed is not None:
        found.append(_managed(buffer, program, uses, access, access.managed))
    return tuple(found)


_Uses = list[tuple[Step, BufferUse]]


def _copied(buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts) -> PlacementCost:
    """Copy the whole buffer when a side needs what only the other has."""
    copies = dict.fromkeys(Side, 0)
    valid = {buffer.starts} if buffer.starts is not None else set()
    for step, use in uses:
        side = _side(step)
        if side not in valid and valid and not use.fresh:
            copies[side] += 1
            valid.add(side)
        if use.written or use.put:
            valid = {side}
    copies[Side.HOST] += buffer.wanted and valid == {Side.DEVICE}
    moving = copies[Side.DEVICE] * (access.copy_seconds + buffer.size / access.to_device)
    moving += copies[Side.HOST] * (access.copy_seconds + buffer.size / access.to_host)
    on_host = buffer.starts is Side.HOST or buffer.wanted or any(_side(step) is Side.HOST for step, _ in uses)
    phrases = ((copies[Side.DEVICE], "copied to the device"), (copies[Side.HOST], "copied back"))
    why = " and ".join(words + (f" {n} times" if n > 1 else "") for n, words in phrases if n)
    return PlacementCost(
        BufferPlacement.COPY, _accesses(program, uses, access, of_device=True), (0.0,) * len(program.launches), moving,
        _by_host(uses, access.host), buffer.size * (2 if access.integrated and on_host else 1), why or "never copied",
    )  # fmt: skip


def _mapped(buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts) -> PlacementCost:
    """Keep the buffer in the host's memory: nothing moves, and every access goes there."""
    seconds, nothing = _accesses(program, uses, access, of_device=False), (0.0,) * len(program.launches)
    again = sum(use.asked + use.put for step, use in uses if isinstance(step, PlacedLaunch))
    once = sum(use.read + use.written for step, use in uses if isinstance(step, PlacedLaunch))
    is_moved = buffer.starts is Side.DEVICE and not access.integrated
    uncached = "" if access.is_cached or again <= 1.01 * once else f", {again / max(1, once):.3g} times without caches"
    return PlacementCost(
        BufferPlacement.ZERO_COPY, seconds if access.integrated else nothing, nothing if access.integrated else seconds,
        access.copy_seconds + buffer.size / access.to_host if is_moved else 0.0, _by_host(uses, access.pinned_by_host),
        buffer.size if access.integrated else 0, f"accessed in place{uncached}",
    )  # fmt: skip


def _managed(
    buffer: Buffer, program: PlacedProgram, uses: _Uses, access: AccessCosts, managed: Managed
) -> PlacementCost:
    """Move pages to the side that accesses them: by faults, or by a prefetch if that is faster."""
    moving, moved, prefetched, at = 0.0, 0, False, buffer.starts
    for side, touched in _touches(buffer, uses):
        if at is side:
            continue
        rate = managed.to_device if side is Side.DEVICE else managed.to_host
        by_fault = managed.first_seconds + ceil(touched / managed.fault_bytes) * managed.fault_seconds
        by_fault += touched / rate if rate is not None and at is not None else 0.0
        by_prefetch = inf
        if managed.prefetch is not None:  # uninitialised pages are only mapped
            by_prefetch = managed.prefetch_seconds + (buffer.size / managed.prefetch if at is not None else 0.0)
        prefetched |= by_prefetch < by_fault
        moving += min(by_prefetch, by_fault)
        moved, at = moved + 1, side
    why = {0: "stays where it is", 1: "changes sides once"}.get(moved, f"changes sides {moved} times")
    return PlacementCost(
        BufferPlacement.MANAGED, _accesses(program, uses, access, of_device=True), (0.0,) * len(program.launches),
        moving, _by_host(uses, access.host), buffer.size, why + (", prefetched" if prefetched else ""), prefetched,
    )  # fmt: skip


def _touches(buffer: Buffer, uses: _Uses) -> Iterator[tuple[Side, float]]:
    """The sides that access the buffer, and how many bytes; at the end the host, if it wants the buffer."""
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
        use = by_step.get(id(launch), BufferUse(""))
        read, written = (use.read, use.written) if cached else (max(use.read, use.asked), max(use.written, use.put))
        reading = rates.scattered_read if use.scattered else rates.read
        writing = rates.scattered_write if use.scattered else rates.write
        found.append(read / reading + written / writing)
    return tuple(found)


def _by_host(uses: _Uses, rate: float) -> float:
    return sum((use.read + use.written) / rate for step, use in uses if isinstance(step, HostCode))


def _side(step: Step) -> Side:
    return Side.DEVICE if isinstance(step, PlacedLaunch) else Side.HOST
