"""A schedule while it is being made: which tensors are to be away and where, room and link time booked, and last when
each comes back. All strategies end here, so that all have the same care with what they chose."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from math import inf

from msgspec import structs

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine, Tier
from ..schedule import Absence, Idle, SwapSchedule, idle_times
from ..schedule_check import check_possible
from ..schedule_rooms import FreeBytes
from ..trace import MemoryTrace


class Draft:
    """Idle times are chosen one by one; `schedule` turns them into absences. Raises `MemoryPlanError`, with the least
    memory, where no schedule could do.

    `early`: a tensor is copied as soon as it is written for the last time, while operations still read it, and not
    again as long as the copy is right. Else it is copied each time when it leaves.
    """

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine, early: bool = False):
        check_possible(trace, machine)
        self.early = early
        self.trace, self.machine = trace, machine
        self.count = len(trace.operations)
        self.idle = list(idle_times(trace))
        self.device = FreeBytes(trace.live(), machine.device_bytes)
        limits = {Tier.HOST: machine.host_bytes, Tier.FLASH: machine.flash_bytes}
        self.rooms = {tier: FreeBytes([0] * self.count, limit) for tier, limit in limits.items()}
        self.chosen: dict[Idle, Tier] = {}

    def fits(self, idle: Idle, tier: Tier) -> bool:
        """Whether a tier has room for a tensor, from when it is copied until it is used again."""
        return self.rooms[tier].fits(self.copied_after(idle), idle.next, idle.size)

    def tier(self, idle: Idle) -> Tier | None:
        """The host, as long as it has room, else flash; None where both are full."""
        return next((tier for tier in (Tier.HOST, Tier.FLASH) if self.fits(idle, tier)), None)

    def copied_after(self, idle: Idle) -> int:
        """The operation after which the tensor is copied, if it was not away before that."""
        if not self.early:
            return idle.last
        if idle.written is not None:
            return idle.written
        start = self.trace.lifetimes()[idle.tensor].start
        if self.trace.tensors[idle.tensor].is_global:
            return idle.next - self.count
        return start if start <= idle.last else start - self.count

    def choose(self, idle: Idle, tier: Tier) -> None:
        """Have a tensor away for all of an idle time."""
        self.chosen[idle] = tier
        self.device.add(idle.last + 1, idle.next, -idle.size)
        self.rooms[tier].add(self.copied_after(idle), idle.next, idle.size)

    def release(self, idle: Idle) -> None:
        """Take a choice back."""
        self.device.add(idle.last + 1, idle.next, idle.size)
        self.rooms[self.chosen.pop(idle)].add(self.copied_after(idle), idle.next, -idle.size)

    def cover(self) -> None:
        """Choose more until everything fits, whatever it costs: the longest idle times of the fullest moment first."""
        while True:
            excess = self.device.excess()
            at = int(excess.argmax())
            if not excess[at]:
                return
            over = int(excess[at])
            there = [each for each in self.idle if each not in self.chosen and covers(each, at, self.count)]
            tiers = {each: tier for each in there if (tier := self.tier(each)) is not None}
            if not tiers:
                name = self.trace.operations[at].name
                raise MemoryPlanError(
                    f"operation {at} ({name}) has {over} bytes too few, and host and flash are full", at
                )
            best = max(tiers, key=lambda each: (min(each.size, over) * self.seconds(each) / each.size, -each.tensor))
            self.choose(best, tiers[best])

    def spare(self) -> None:
        """Let those stay that are not needed after all, largest first."""
        for each in sorted(self.chosen, key=lambda each: (-each.size, each.tensor, each.last)):
            if self.device.fits(each.last + 1, each.next, each.size):
                self.release(each)

    def seconds(self, idle: Idle) -> float:
        """How long the tensor is idle, if nothing waits."""
        starts = self.starts
        turns, at = divmod(idle.next, self.count)
        return starts[at] + turns * starts[-1] - starts[idle.last + 1]

    @cached_property
    def starts(self) -> list[float]:
        """When each operation starts if nothing waits, and when the last ends."""
        return list(accumulate((op.seconds for op in self.trace.operations), initial=0.0))

    def schedule(self, lead: float = 0.0, more: Mapping[tuple[int, int], float] | None = None) -> SwapSchedule:
        """The chosen, each fetched so early that its link can carry all in time, `lead` times as early again, and by
        the seconds in `more` (by tensor and operation that it leaves after), where there is room."""
        absences = [each.away(tier, copy) for each, tier, copy in self._copies()]
        return SwapSchedule(tuple(place_fetches(self, absences, lead, more or {})))

    def _copies(self) -> Iterator[tuple[Idle, Tier, int | None]]:
        """When each of the chosen is copied; None where the copy from the absence before is still right."""
        groups: dict[int, list[Idle]] = {}
        for each in sorted(self.chosen, key=lambda each: (each.tensor, each.last)):
            groups.setdefault(each.tensor, []).append(each)
        for group in groups.values():
            for each, before in zip(group, [group[-1], *group[:-1]], strict=True):
                tier, copy = self.chosen[each], self.copied_after(each)
                back = before.next - (self.count if before.last >= each.last else 0)
                left = before.last - (self.count if before.last >= each.last else 0)
                constant = each.written is None and self.trace.tensors[each.tensor].is_global
                right = self.early and self.chosen[before] is tier and (constant or (copy <= left and before != each))
                yield each, tier, None if right else max(copy, back)

    def operation_at(self, moment: float) -> int:
        """The last operation that starts no later than `moment`; moments may be in iterations before and after."""
        turns, rest = divmod(moment, self.starts[-1]) if self.starts[-1] else (0.0, 0.0)
        return int(turns) * self.count + min(bisect_right(self.starts, rest), self.count) - 1


def place_fetches(
    draft: Draft, absences: list[Absence], lead: float, more: Mapping[tuple[int, int], float]
) -> list[Absence]:
    """`back` of each: link time is booked backwards, what is needed last first; then no earlier than room allows."""
    count, whole = draft.count, draft.starts[-1]
    trace, machine = draft.trace, draft.machine
    slow = machine.in_share if any(each.tier is Tier.FLASH for each in absences) else 1.0
    wanted: dict[int, float] = {}
    for tier in Tier:
        mine = sorted((at for at, each in enumerate(absences) if each.tier is tier), key=lambda at: -absences[at].next)
        begin = inf
        for turn in (1, 0):  # first those of the iteration after, so that what wraps is known
            for at in mine:
                turns, need = divmod(absences[at].next, count)
                work = machine.in_seconds(tier, trace.tensors[absences[at].tensor].size)
                deadline = draft.starts[need] + (turns + turn) * whole
                begin = min(deadline, begin) - (work / slow if tier is Tier.HOST else work)
                wanted[at] = deadline - turn * whole - (deadline - begin) * (1 + lead)
    room = FreeBytes(draft.device.used.tolist(), machine.device_bytes)
    result = list(absences)
    for at in sorted(wanted, key=lambda at: (absences[at].next, at)):
        each = absences[at]
        size = trace.tensors[each.tensor].size
        moment = wanted[at] - more.get((each.tensor, each.leave), 0.0)
        earliest = min(max(draft.operation_at(moment), each.leave + 1), each.next)
        back = room.earliest(earliest, each.next, size)
        room.add(back, each.next, size)
        result[at] = structs.replace(each, back=back)
    return result


def covers(idle: Idle, at: int, count: int) -> bool:
    """Whether operation `at` is within an idle time."""
    return idle.last < at < idle.next or idle.last < at + count < idle.next
