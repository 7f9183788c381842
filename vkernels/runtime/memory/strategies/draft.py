"""A schedule while it is being made: which tensors are to be away and where, room and link time booked, and last when
each comes back. All strategies end here, so that all have the same care with what they chose."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from vkernels.ir.errors import MemoryPlanError

from ..links import Machine, Tier
from ..schedule import Absence, Idle, Schedule, idle_times
from ..schedule_check import check_possible
from ..schedule_rooms import Room
from ..trace import Trace


class Draft:
    """Idle times are chosen one by one; `schedule` turns them into absences. Raises `MemoryPlanError`, with the least
    memory, where no schedule could do."""

    def __init__(self, trace: Trace, machine: Machine):
        check_possible(trace, machine)
        self.trace, self.machine = trace, machine
        self.count = len(trace.operations)
        self.idle = list(idle_times(trace))
        self.device = Room(trace.live(), machine.device_bytes)
        self.host = Room([0] * self.count, machine.host_bytes)
        self.chosen: dict[Idle, Tier] = {}

    def tier(self, idle: Idle) -> Tier:
        """The host, as long as it has room, else flash."""
        return Tier.HOST if self.host.fits(idle.last, idle.next, idle.size) else Tier.FLASH

    def choose(self, idle: Idle, tier: Tier | None = None) -> None:
        """Have a tensor away for all of an idle time, on the host if there is room and nothing else is said."""
        where = self.tier(idle) if tier is None else tier
        self.chosen[idle] = where
        self.device.add(idle.last + 1, idle.next, -idle.size)
        if where is Tier.HOST:
            self.host.add(idle.last, idle.next, idle.size)

    def release(self, idle: Idle) -> None:
        """Take a choice back."""
        self.device.add(idle.last + 1, idle.next, idle.size)
        if self.chosen.pop(idle) is Tier.HOST:
            self.host.add(idle.last, idle.next, -idle.size)

    def cover(self) -> None:
        """Choose more until everything fits, whatever it costs: the longest idle times of the fullest moment first."""
        while True:
            excess = self.device.excess()
            at = int(excess.argmax())
            if not excess[at]:
                return
            over = int(excess[at])
            there = [each for each in self.idle if each not in self.chosen and covers(each, at, self.count)]
            if not there:
                raise MemoryPlanError(f"operation {at} ({self.trace.operations[at].name}) has {over} bytes too few", at)
            self.choose(max(there, key=lambda each: (min(each.size, over) * self.seconds(each) / each.size, -each.tensor)))

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

    @property
    def starts(self) -> list[float]:
        """When each operation starts if nothing waits, and when the last ends."""
        if not hasattr(self, "_starts"):
            self._starts = [0.0]
            for op in self.trace.operations:
                self._starts.append(self._starts[-1] + op.seconds)
        return self._starts

    def schedule(self, lead: float = 0.0, early: bool = False) -> Schedule:
        """The chosen, each fetched so early that its link can carry all in time, `lead` times as early again where there
        is room. `early`: copied as soon as it is written for the last time, while operations still read it."""
        absences = [each.away(tier) for each, tier in self.chosen.items()]
        if early:
            absences = [self._early(each, idle) for each, idle in zip(absences, self.chosen, strict=True)]
        return Schedule(tuple(self._fetched(absences, lead)))

    def _early(self, absence: Absence, idle: Idle) -> Absence:
        before = [each.next for each in self.chosen if each.tensor == idle.tensor and each is not idle]
        before += [each.next - self.count for each in self.chosen if each.tensor == idle.tensor]
        copy = max([idle.last - self.count + 1, *(each for each in before if each <= idle.last)])
        if idle.written is not None:
            copy = max(copy, idle.written)
        return replace(absence, copy=copy)

    def _fetched(self, absences: list[Absence], lead: float) -> list[Absence]:
        """`back` of each: booked from the last one backwards, no earlier than room allows."""
        starts, whole = self.starts, self.starts[-1]
        begins: dict[int, float] = {}
        for tier in Tier:
            mine = [at for at, each in enumerate(absences) if each.tier is tier]
            mine.sort(key=lambda at: (-absences[at].next, at))
            free = None
            for turn in (0, 1):  # a second time round, so that what wraps is known
                for at in mine:
                    turns, need = divmod(absences[at].next, self.count)
                    deadline = starts[need] + turns * whole
                    end = deadline if free is None else min(deadline, free)
                    work = self.machine.in_seconds(tier, self.trace.tensors[absences[at].tensor].size)
                    begins[at] = end - work
                    free = end - work
                if mine and free is not None:
                    free = free + whole
                del turn
        room = Room(self.device.used.tolist(), self.machine.device_bytes)
        result = list(absences)
        for at in sorted(begins, key=lambda at: (absences[at].next, at)):
            each = absences[at]
            size = self.trace.tensors[each.tensor].size
            turns, need = divmod(each.next, self.count)
            deadline = starts[need] + turns * whole
            wanted = self._operation_at(deadline - (deadline - begins[at]) * (1 + lead))
            back = room.earliest(min(max(wanted, each.leave + 1), each.next), each.next, size)
            room.add(back, each.next, size)
            result[at] = replace(each, back=back)
        return result

    def _operation_at(self, moment: float) -> int:
        """The last operation that starts no later than `moment`; moments may be in iterations before and after."""
        from bisect import bisect_right

        turns, rest = divmod(moment, self.starts[-1]) if self.starts[-1] else (0.0, 0.0)
        return int(turns) * self.count + min(bisect_right(self.starts, rest), self.count) - 1


def covers(idle: Idle, at: int, count: int) -> bool:
    """Whether operation `at` is within an idle time."""
    return idle.last < at < idle.next or idle.last < at + count < idle.next
