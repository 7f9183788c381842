"""The events of an iteration, in time's order: `simulate` says what they mean. Plain lists, for speed."""

from __future__ import annotations

from collections import deque
from math import inf

from vkernels.ir.errors import MemoryPlanError

from .links import MemoryMachine, Tier
from .schedule import SwapSchedule
from .schedule_check import held_bytes
from .simulate_log import Log, Transfer
from .trace import MemoryTrace

TO_HOST, TO_FLASH, FROM_HOST, FROM_FLASH = range(4)


class SimulationInput:
    """A trace on a machine, prepared: lists by operation. Bytes that each makes room for before it starts (`makes`) and
    gives back when it has ended (`drops`); `resident`: those that are there before the first, with nothing away."""

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine):
        self.trace, self.machine = trace, machine
        self.seconds = [op.seconds for op in trace.operations]
        self.makes = [op.scratch for op in trace.operations]
        self.drops = list(self.makes)
        self.resident = 0
        count = len(trace.operations)
        for tensor, lifetime in zip(trace.tensors, trace.lifetimes(), strict=True):
            if not tensor.is_global:
                self.makes[lifetime.start] += tensor.size
                self.drops[(lifetime.end - 1) % count] += tensor.size
            if tensor.is_global or lifetime.end > count:
                self.resident += tensor.size


class Engine:
    """One device with its links, from one iteration to the next. `iterate` runs one."""

    def __init__(self, prepared: SimulationInput, schedule: SwapSchedule, seconds: list[float]):
        self.prepared, self.seconds = prepared, seconds
        self.log: Log | None = None
        self.now, self.events = 0.0, 0
        self._lists(schedule, len(seconds))
        self._rates(schedule, prepared.machine)
        self._start(schedule, len(seconds))

    def _lists(self, schedule: SwapSchedule, count: int) -> None:
        """What begins when each operation has ended, and what each waits for: numbers of absences."""
        absences = schedule.absences
        self.copies: list[list[int]] = [[] for _ in range(count)]
        self.leaves: list[list[int]] = [[] for _ in range(count)]
        self.fetches: list[list[int]] = [[] for _ in range(count)]
        self.waits: list[list[int]] = [[] for _ in range(count)]
        self.clean = [each.copy is None for each in absences]
        for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
            self.fetches[(each.back - 1) % count].append(number)
            self.waits[each.next % count].append(number)
            if each.copy is not None:
                self.copies[each.copy % count].append(number)
        for number, each in enumerate(absences):
            self.leaves[each.leave].append(number)

    def _rates(self, schedule: SwapSchedule, machine: MemoryMachine) -> None:
        sizes = [self.prepared.trace.tensors[each.tensor].size for each in schedule.absences]
        fault = machine.fault_seconds if schedule.faults else 0.0
        late = [fault * -(-size // machine.fault_bytes) for size in sizes]
        pairs = list(zip(schedule.absences, sizes, strict=True))
        self.sizes = sizes
        self.out_work = [machine.out_seconds(each.tier, size) for each, size in pairs]
        self.in_work = [
            machine.in_seconds(each.tier, size) + more for (each, size), more in zip(pairs, late, strict=True)
        ]
        self.on_flash = [each.tier is Tier.FLASH for each in schedule.absences]
        self.slow_out, self.slow_in = machine.out_share, machine.in_share

    def _start(self, schedule: SwapSchedule, count: int) -> None:
        """Before the first iteration all copies are complete, and fetches that were asked for have not begun."""
        self.copied = [each.copy is None or each.copy < 0 or each.next >= count for each in schedule.absences]
        self.left = [each.next >= count for each in schedule.absences]
        self.arrived = [False] * len(schedule.absences)
        self.free = self.prepared.machine.device_bytes - self.prepared.resident
        self.free += sum(size for size, away in zip(self.sizes, self.left, strict=True) if away)
        self.least_free = self.free
        self.queues: tuple[deque[int], ...] = tuple(deque() for _ in range(4))
        self.current, self.ends = [-1] * 4, [inf] * 4
        self.begun = [0.0] * 4
        self.work, self.since, self.speed = [0.0] * 4, [0.0] * 4, [1.0] * 4
        waiting = [
            (each.back, each.next, at) for at, each in enumerate(schedule.absences) if each.back <= count <= each.next
        ]
        for _, _, number in sorted(waiting):
            self.queues[FROM_FLASH if self.on_flash[number] else FROM_HOST].append(number)
        self.host = held_bytes(self.prepared.trace, schedule, Tier.HOST)[-1]
        self.kept = _kept(schedule)

    def iterate(self) -> tuple[float, list[float]]:
        """Run one iteration; its seconds, and what each operation waited."""
        begin = now = self.now
        makes, drops, seconds, sizes = self.prepared.makes, self.prepared.drops, self.seconds, self.sizes
        copies, leaves, fetches, waits = self.copies, self.leaves, self.fetches, self.waits
        copied, left, arrived, on_flash, ends = self.copied, self.left, self.arrived, self.on_flash, self.ends
        queues, log, begin_ins, finish, begin_out = (
            self.queues,
            self.log,
            self._begin_ins,
            self._finish,
            self._begin_out,
        )
        stalls = []
        if log is not None:
            log.begin = now
            self._note(now)
        for at in range(len(seconds)):
            asked, need = now, makes[at]
            while self.free < need:
                now = finish(min(ends), at)
            if need:
                self.free -= need
                if self.free < self.least_free:
                    self.least_free = self.free
                if log is not None:
                    self._note(now)
            if queues[2] or queues[3]:
                begin_ins(now)
            for number in waits[at]:
                while not arrived[number]:
                    now = finish(min(ends), at)
                    begin_ins(now)
                arrived[number] = False
            stalls.append(now - asked)
            if log is not None:
                log.starts.append(now)
            now += seconds[at]
            first = min(ends)
            while first <= now:
                finish(first, at)
                if queues[2] or queues[3]:
                    begin_ins(first)
                first = min(ends)
            self.free += drops[at]
            for number in leaves[at]:
                left[number] = True
                if copied[number]:
                    self.free += sizes[number]
            for number in copies[at]:
                link = 1 if on_flash[number] else 0
                queues[link].append(number)
                if ends[link] == inf:
                    begin_out(link, now)
            for number in fetches[at]:
                queues[3 if on_flash[number] else 2].append(number)
            if log is not None:
                self._note(now)
        self.now = now
        self.events += 2 * len(seconds)
        return now - begin, stalls

    def _finish(self, now: float, at: int) -> float:
        """End the transfer that ends `now`; the next one to the same tier begins."""
        if now == inf:
            raise MemoryPlanError(f"operation {at}: waits for ever", at)
        link = self.ends.index(now)
        number, self.ends[link] = self.current[link], inf
        self.events += 2
        if self.log is not None:
            self.log.transfers.append(Transfer(number, link, self.begun[link], now))
        if link & 1:
            self._share(link - 1, 1.0, now)
        if link < 2:
            self.copied[number] = True
            if self.left[number]:
                self.free += self.sizes[number]
            if self.queues[link]:
                self._begin_out(link, now)
        else:
            self.arrived[number], self.left[number], self.copied[number] = True, False, self.clean[number]
            if not link & 1 and not self.kept[number]:
                self.host -= self.sizes[number]
        if self.log is not None:
            self._note(now)
        return now

    def _begin_out(self, link: int, now: float) -> None:
        number = self.queues[link].popleft()
        if not link & 1:
            self.host += self.sizes[number]
        self._begin(link, number, self.out_work[number], self.slow_out, now)

    def _begin_ins(self, now: float) -> None:
        """Begin the fetches that are first in their queue, where the link is free and there is room."""
        for link in (2, 3):
            queue = self.queues[link]
            if queue and self.ends[link] == inf:
                number = queue[0]
                if self.sizes[number] <= self.free and self.copied[number] and self.left[number]:
                    queue.popleft()
                    self.free -= self.sizes[number]
                    if self.free < self.least_free:
                        self.least_free = self.free
                    self._begin(link, number, self.in_work[number], self.slow_in, now)
                    if self.log is not None:
                        self._note(now)

    def _begin(self, link: int, number: int, work: float, slow: float, now: float) -> None:
        self.current[link], self.begun[link] = number, now
        if link & 1:
            self.ends[link] = now + work
            self._share(link - 1, slow, now)
            return
        speed = slow if self.ends[link + 1] < inf else 1.0
        self.work[link], self.since[link], self.speed[link] = work, now, speed
        self.ends[link] = now + work / speed

    def _share(self, link: int, speed: float, now: float) -> None:
        """From `now` on the host's link has another share of the device's."""
        if self.ends[link] == inf or self.speed[link] == speed:
            return
        self.work[link] -= (now - self.since[link]) * self.speed[link]
        self.since[link], self.speed[link] = now, speed
        self.ends[link] = max(now, now + self.work[link] / speed)

    def _note(self, now: float) -> None:
        assert self.log is not None
        self.log.memory.append((now, self.prepared.machine.device_bytes - self.free))
        self.log.host.append((now, self.host))


def _kept(schedule: SwapSchedule) -> list[bool]:
    """Whether the tier still holds its copy after each absence has been fetched: the tensor's next one needs no new."""
    kept = [False] * len(schedule.absences)
    for absences in schedule.by_tensor().values():
        for (number, _), (_, following) in zip(absences, [*absences[1:], absences[0]], strict=True):
            kept[number] = following.copy is None
    return kept
