"""A schedule under construction: which tensors will be away and where, memory and link time booked, and when each is
fetched. All strategies use it, so that they differ only in their choices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine, Tier
from ..schedule import Absence, Idle, SwapSchedule, idle_times
from ..schedule_check import check_possible
from ..sizes import sized
from ..trace import MemoryTrace

Numbers: TypeAlias = "NDArray[np.float64]"
Sizes: TypeAlias = "NDArray[np.int64]"


class FreeBytes:
    """Bytes used at each moment of a repeating iteration; ranges may wrap into the next."""

    def __init__(self, used: Sequence[int], limit: float):
        self.used: Sizes = np.array(used, dtype=np.int64)
        self.limit = limit

    def add(self, start: int, end: int, size: int) -> None:
        """Use `size` more bytes from `start` until before `end`; fewer if negative."""
        for part in self.parts(start, end):
            self.used[part] += size

    def fits(self, start: int, end: int, size: int) -> bool:
        """Whether `size` more bytes stay within the limit."""
        return all(self.used[part].max(initial=0) + size <= self.limit for part in self.parts(start, end))

    def earliest(self, start: int, end: int, size: int) -> int:
        """The first moment from `start` on, from which `size` more bytes fit until before `end`."""
        for part in reversed(self.parts(start, end)):
            over = np.flatnonzero(self.used[part] + size > self.limit)
            if len(over):
                return end - int(part.stop - 1 - part.start - over[-1])
            end -= part.stop - part.start
        return start

    def excess(self) -> Sizes:
        """Bytes over the limit, at each moment."""
        over: Sizes = np.maximum(self.used - np.int64(min(self.limit, 1 << 62)), 0)
        return over

    def parts(self, start: int, end: int) -> list[slice]:
        """The moments from `start` until before `end`, in order, as slices of one iteration."""
        count = len(self.used)
        if end <= start:
            return []
        begin = start % count
        length = min(end - start, count)
        if begin + length <= count:
            return [slice(begin, begin + length)]
        return [slice(begin, count), slice(0, begin + length - count)]


class LinkTime:
    """Free seconds of one link and direction during each operation, if all operations run on time."""

    def __init__(self, seconds: Sequence[float]):
        self.left = list(seconds)

    def end(self, moments: range, work: float) -> int | None:
        """The operation of `moments` in which a transfer of `work` seconds ends; None if none is late enough."""
        for at in moments:
            work -= self.left[at % len(self.left)]
            if work <= 0:
                return at
        return None

    def take(self, moments: range, work: float) -> None:
        """Book `work` seconds of the link, in the order of `moments`."""
        count = len(self.left)
        for at in moments:
            part = min(work, self.left[at % count])
            self.left[at % count] -= part
            work -= part
            if work <= 0:
                return


class Draft:
    """Idle times are chosen one by one; `schedule` turns them into absences. Raises `MemoryPlanError`, with the minimum
    memory, if no schedule is possible.

    `early`: a tensor is copied right after its last write, while operations still read it, and not again while the copy
    is valid. Else it is copied each time it leaves.
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
        self.is_spared = False

    def fork(self) -> Draft:
        """Return a draft with the same choices, which changes by itself."""
        other = copy(self)
        other.chosen = dict(self.chosen)
        other.device = FreeBytes(self.device.used.tolist(), self.device.limit)
        other.rooms = {tier: FreeBytes(room.used.tolist(), room.limit) for tier, room in self.rooms.items()}
        return other

    def fits(self, idle: Idle, tier: Tier) -> bool:
        """Whether a tier has room for a tensor, from when it is copied until it is used again."""
        return self.rooms[tier].fits(self.copied_after(idle), idle.next, idle.size)

    def tier(self, idle: Idle) -> Tier | None:
        """The host if it has room, else flash; None if both are full."""
        return next((tier for tier in (Tier.HOST, Tier.FLASH) if self.fits(idle, tier)), None)

    def copied_after(self, idle: Idle) -> int:
        """The operation after which the tensor is copied, if it was not away before."""
        if not self.early:
            return idle.last
        if idle.written is not None:
            return idle.written
        start = self.trace.lifetimes()[idle.tensor].start
        if self.trace.tensors[idle.tensor].is_global:
            return idle.next - self.count
        return start if start <= idle.last else start - self.count

    def choose(self, idle: Idle, tier: Tier) -> None:
        """Keep a tensor away for all of an idle time."""
        self.chosen[idle] = tier
        self.device.add(idle.last + 1, idle.next, -idle.size)
        self.rooms[tier].add(self.copied_after(idle), idle.next, idle.size)

    def choose_if_possible(self, idle: Idle) -> None:
        """Choose an idle time, if a tier has room."""
        tier = self.tier(idle)
        if tier is not None:
            self.choose(idle, tier)

    def release(self, idle: Idle) -> None:
        """Undo a choice."""
        self.device.add(idle.last + 1, idle.next, idle.size)
        self.rooms[self.chosen.pop(idle)].add(self.copied_after(idle), idle.next, -idle.size)

    def cover(self) -> None:
        """Choose more until everything fits, at any cost: the longest idle times of the fullest moment first."""
        while True:
            excess = self.device.excess()
            at = int(excess.argmax())
            if not excess[at]:
                return
            over = int(excess[at])
            covering = (each for each in self.idle if any(each.last < at + n < each.next for n in (0, self.count)))
            there = [each for each in covering if each not in self.chosen]
            tiers = {each: tier for each in there if (tier := self.tier(each)) is not None}
            if not tiers:
                name = self.trace.operations[at].name
                raise MemoryPlanError(
                    f"operation {at} ({name}) has {sized(over)} too few, and host and flash are full", at
                )
            best = max(tiers, key=lambda each: (min(each.size, over) * self.seconds(each) / each.size, -each.tensor))
            self.choose(best, tiers[best])

    def spare(self) -> None:
        """Release choices that are not needed after all, largest first."""
        self.is_spared = True
        for each in sorted(self.chosen, key=lambda each: (-each.size, each.tensor, each.last)):
            if self.device.fits(each.last + 1, each.next, each.size):
                self.release(each)

    def seconds(self, idle: Idle) -> float:
        """How long the tensor is idle, if nothing waits."""
        turns, at = divmod(idle.next, self.count)
        return self.starts[at] + turns * self.starts[-1] - self.starts[idle.last + 1]

    @cached_property
    def starts(self) -> list[float]:
        """When each operation starts if nothing waits, and when the last ends."""
        return list(accumulate((op.seconds for op in self.trace.operations), initial=0.0))

    def schedule(self, lead: float = 0.0, more: Mapping[tuple[int, int], float] | None = None) -> SwapSchedule:
        """The schedule of the chosen idle times, where tensors are fetched early enough for their links.

        Where there is room, they are fetched earlier: by `lead` times the time on the link, and by the seconds in
        `more`, whose keys are a tensor and the operation after which it leaves.
        """
        return SwapSchedule(tuple(_place_fetches(self, [*self._absences()], lead, more or {})))

    def _absences(self) -> Iterator[Absence]:
        """The chosen absences, with the time of their copies but not of their fetches."""
        groups: dict[int, list[Idle]] = {}
        for each in sorted(self.chosen, key=lambda each: (each.tensor, each.last)):
            groups.setdefault(each.tensor, []).append(each)
        for group in groups.values():
            for each, before in zip(group, [group[-1], *group[:-1]], strict=True):
                tier, copy = self.chosen[each], self.copied_after(each)
                shift = self.count if before.last >= each.last else 0
                is_constant = each.written is None and self.trace.tensors[each.tensor].is_global
                is_unchanged = is_constant or (copy <= before.last - shift and before != each)
                keeps_copy = self.early and self.chosen[before] is tier and is_unchanged
                copied = None if keeps_copy else max(copy, before.next - shift)
                yield Absence(each.tensor, tier, copied, each.last, each.next, each.next)

    def operation_at(self, moment: float) -> int:
        """The last operation that starts at or before a time, which may be in another iteration."""
        turns, rest = divmod(moment, self.starts[-1]) if self.starts[-1] else (0.0, 0.0)
        return int(turns) * self.count + min(bisect_right(self.starts, rest), self.count) - 1


def _place_fetches(
    draft: Draft, absences: list[Absence], lead: float, more: Mapping[tuple[int, int], float]
) -> list[Absence]:
    """Set `back` of each: book link time backwards, starting with the last need; then delay until there is room."""
    count, whole = draft.count, draft.starts[-1]
    trace, machine = draft.trace, draft.machine
    slow = machine.in_share if any(each.tier is Tier.FLASH for each in absences) else 1.0
    wanted: dict[int, float] = {}
    for tier in Tier:
        mine = sorted((at for at, each in enumerate(absences) if each.tier is tier), key=lambda at: -absences[at].next)
        begin = inf
        for turn in (1, 0):  # first those of the next iteration, for fetches that wrap
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


class BookedDraft:
    """A draft whose transfers are booked on the links, to choose what they can carry in time."""

    def __init__(self, draft: Draft):
        self.draft = draft
        seconds = [op.seconds for op in draft.trace.operations]
        self.seconds = np.array(seconds)
        self.away = FreeBytes(draft.trace.live(), draft.machine.device_bytes)
        self.out = {tier: LinkTime(seconds) for tier in Tier}
        self.back = {tier: LinkTime(seconds) for tier in Tier}

    def window(self, idle: Idle, tier: Tier) -> tuple[int, int] | None:
        """When the tensor can be away: after operation `gone` and before operation `back`; None: at no time."""
        machine, size = self.draft.machine, idle.size
        out = range(self.draft.copied_after(idle) + 1, idle.next)
        gone = self.out[tier].end(out, machine.out_seconds(tier, size))
        back = self.back[tier].end(range(idle.next - 1, idle.last, -1), machine.in_seconds(tier, size))
        if gone is None or back is None or back <= max(gone, idle.last) + 1:
            return None
        return max(gone, idle.last), back

    def book(self, idle: Idle, tier: Tier, gone: int, back: int) -> None:
        """Choose an idle time, and book its transfers."""
        machine, size = self.draft.machine, idle.size
        self.out[tier].take(range(self.draft.copied_after(idle) + 1, gone + 1), machine.out_seconds(tier, size))
        self.back[tier].take(range(idle.next - 1, back - 1, -1), machine.in_seconds(tier, size))
        self.away.add(gone + 1, back, -size)
        self.draft.choose(idle, tier)
