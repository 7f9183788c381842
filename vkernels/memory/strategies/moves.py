"""Schedules for machines that move tensors between host and flash.

A tensor that goes to flash by the host leaves the device faster, and takes less of the device's link.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

from msgspec import structs

from ..links import MemoryMachine, Tier
from ..schedule import Absence, SwapSchedule
from ..schedule_check import held_bytes
from ..simulate import run
from ..simulate_engine import SimulationInput
from ..trace import MemoryTrace
from .draft import FreeBytes, LinkTime, Sizes

LEADS = (1.0, 1.5, 3.0)
"""How much of the time on the links to plan for the way back, until operations do not wait for it."""
HALVINGS = 6
"""How often to halve the tensors that are to go to flash by the host together, while that is no faster."""


def with_moves(trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule) -> Iterator[SwapSchedule]:
    """Yield schedules, ever better, in which tensors on flash go there by the host, as many as it has room for."""
    prepared = SimulationInput(trace, machine)
    for lead in LEADS:
        moving = _Moving(trace, machine, schedule, lead)
        least = run(prepared, moving.schedule).seconds
        for part in _parts(moving.direct()):
            saved = moving.saved()
            if not sum([moving.send_by_host(number) for number in part]):
                continue
            seconds = run(prepared, moving.schedule).seconds
            if seconds > least:
                moving.restore(saved)
            else:
                least = seconds
                yield moving.schedule


def _parts(numbers: list[int]) -> Iterator[list[int]]:
    """All, then both halves, then all four quarters, and so on."""
    for depth in range(HALVINGS):
        bounds = [len(numbers) * at // 2**depth for at in range(2**depth + 1)]
        yield from (numbers[start:end] for start, end in pairwise(bounds) if start < end)


_Booked: TypeAlias = "dict[int, list[tuple[LinkTime, int, float]]]"
_Saved: TypeAlias = "tuple[list[Absence], _Booked, tuple[Sizes, Sizes], tuple[list[float], list[float]]]"


class _Moving:
    """A schedule, tensors of which come to go to flash by the host, with the room left on both and flash's time."""

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule, lead: float):
        self.trace, self.machine, self.lead = trace, machine, lead
        self.absences = list(schedule.absences)
        self.host = FreeBytes(held_bytes(trace, schedule, Tier.HOST), machine.host_bytes)
        self.flash = FreeBytes(held_bytes(trace, schedule, Tier.FLASH), machine.flash_bytes)
        seconds = [op.seconds for op in trace.operations]
        self.out, self.back = LinkTime(seconds), LinkTime(seconds)
        groups = schedule.by_tensor().values()
        kept = {before for group in groups for (before, _), (_, each) in zip(group, [*group[1:], group[0]], strict=True)
                if each.copy is None}  # fmt: skip
        self.single = {number for number, each in enumerate(self.absences) if each.copy is not None} - kept
        self.booked: _Booked = {}
        for number in range(len(self.absences)):
            self._book(number)

    def _book(self, number: int) -> None:
        """Take flash's time for an absence, as late as it can be on the way back."""
        each, machine = self.absences[number], self.machine
        size = self.trace.tensors[each.tensor].size
        if each.tier is Tier.FLASH:
            if each.copy is not None:
                self._take(number, self.out, range(each.copy + 1, each.next), machine.out_seconds(Tier.FLASH, size))
            self._take(number, self.back, range(each.next - 1, each.leave, -1), machine.in_seconds(Tier.FLASH, size))
        elif each.down is not None and each.up is not None:
            self._take(number, self.out, range(each.down + 1, each.next), machine.down_seconds(size))
            self._take(number, self.back, range(each.back - 1, each.leave, -1), machine.up_seconds(size))

    def _take(self, number: int, link: LinkTime, moments: range, work: float) -> None:
        for at in moments:
            at %= len(link.left)
            part = min(work, link.left[at])
            link.left[at] -= part
            self.booked.setdefault(number, []).append((link, at, part))
            work -= part
            if work <= 0:
                return

    @property
    def schedule(self) -> SwapSchedule:
        """The schedule as it is now."""
        return SwapSchedule(tuple(self.absences))

    def direct(self) -> list[int]:
        """The absences on flash, in the order of their next uses."""
        found = (number for number, each in enumerate(self.absences) if each.tier is Tier.FLASH)
        return sorted(found, key=lambda number: (self.absences[number].next, number))

    def saved(self) -> _Saved:
        """What `restore` needs to undo changes."""
        booked = {number: list(each) for number, each in self.booked.items()}
        used, left = (self.host.used.copy(), self.flash.used.copy()), (list(self.out.left), list(self.back.left))
        return list(self.absences), booked, used, left

    def restore(self, saved: _Saved) -> None:
        """Undo all changes since."""
        self.absences, self.booked, (self.host.used, self.flash.used), (self.out.left, self.back.left) = saved

    def send_by_host(self, number: int) -> bool:
        """Let a tensor go to flash by the host, if there is room at both ends; return whether."""
        each = self.absences[number]
        if number not in self.single or each.copy is None or each.tier is not Tier.FLASH:
            return False
        size = self.trace.tensors[each.tensor].size
        for link, at, part in self.booked.pop(number, []):
            link.left[at] += part
        self.absences[number] = structs.replace(each, tier=Tier.HOST)
        self.flash.add(each.copy, each.next, -size)
        moves = self._moves(number)
        fits = moves is not None and all(
            self.host.fits(start, end, size) for start, end in ((each.copy, moves[0] + 1), (moves[1] - 1, each.next))
        )
        if moves is not None and fits:
            self.host.add(each.copy, each.next, size)
            self._move(number, *moves)
            return True
        self.flash.add(each.copy, each.next, size)
        self.absences[number] = each
        self._book(number)
        return False

    def _moves(self, number: int) -> tuple[int, int] | None:
        """When a copy can move down, and up again in time: the widest that the links allow."""
        each = self.absences[number]
        if each.tier is Tier.FLASH or each.down is not None or each.copy is None:
            return None
        size = self.trace.tensors[each.tensor].size
        down, least = each.copy, max(each.copy, each.leave)
        out, back = range(down + 1, each.back), range(each.back - 1, least, -1)
        gone = self.out.end(out, self.machine.down_seconds(size))
        work = self.machine.up_seconds(size) + self.machine.in_seconds(Tier.HOST, size)
        up = self.back.end(back, work * self.lead)
        if gone is None or up is None or up <= max(gone + 1, down + 3):
            return None
        return (down, up) if self.flash.fits(down, each.next, size) else None

    def _move(self, number: int, down: int, up: int) -> None:
        each = self.absences[number]
        self.absences[number] = structs.replace(each, down=down, up=up)
        size = self.trace.tensors[each.tensor].size
        self.host.add(down + 1, up - 1, -size)
        self.flash.add(down, each.next, size)
        self._book(number)
