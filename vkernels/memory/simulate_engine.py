"""The events of an iteration, in order of time; `simulate` documents the rules. Plain lists, for speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from vkernels.ir.errors import MemoryPlanError

from .exchanges import Exchange
from .links import MemoryMachine, Tier
from .schedule import SwapSchedule
from .schedule_check import held_bytes
from .trace import MemoryTrace

TO_HOST, TO_FLASH, FROM_HOST, FROM_FLASH = range(4)
LINKS = ("to host", "to flash", "from host", "from flash")


@dataclass(frozen=True, slots=True)
class Transfer:
    """The transfer of an absence, by number, on a link of `LINKS`. Seconds since the iteration began."""

    absence: int
    link: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The last iteration, in seconds since it began. A transfer that had begun before has a negative start. `memory`:
    bytes on the device from each moment on; `host`: on the host. `moves`: between host and flash, on flash's links."""

    starts: tuple[float, ...]
    memory: tuple[tuple[float, int], ...]
    host: tuple[tuple[float, int], ...]
    transfers: tuple[Transfer, ...]
    moves: tuple[Transfer, ...] = ()


@dataclass
class Log:
    """Events by the engine's clock."""

    begin: float = 0.0
    starts: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    host: list[tuple[float, int]] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    moves: list[Transfer] = field(default_factory=list)

    def timeline(self) -> Timeline:
        begin = self.begin
        memory, host = (tuple((at - begin, size) for at, size in sizes) for sizes in (self.memory, self.host))
        transfers, moves = (
            tuple(Transfer(each.absence, each.link, each.start - begin, each.end - begin) for each in logged)
            for logged in (self.transfers, self.moves)
        )
        return Timeline(tuple(at - begin for at in self.starts), memory, host, transfers, moves)


class SimulationInput:
    """A trace on a machine, as lists by operation, with what two devices exchange.

    `makes`: bytes that each operation needs before it starts; `drops`: bytes that it frees at its end. `resident`:
    bytes on the device before the first, with nothing away.
    """

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine, exchanges: Sequence[Exchange] = ()):
        self.trace, self.machine, self.exchanges = trace, machine, exchanges
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
    """A device with its links, from one iteration to the next; `iterate` runs one.

    By operation, numbers of absences: `copies`, `leaves` and `fetches` begin at its end, `waits` end before it.
    By absence, and then by exchange, whose bytes take no room: `sizes`; `out_work`, `in_work`, seconds on an unshared
    link; `kept`, whether the tier keeps its copy for the next absence; `copied`, `left`, `arrived`, its state.
    By link: `queues`, the `current` transfer and when it
    `ends`, and for a shared link its remaining `work` at the time `since` and its `speed`.
    """

    def __init__(self, prepared: SimulationInput, schedule: SwapSchedule, seconds: list[float]):
        machine, absences, count = prepared.machine, schedule.absences, len(seconds)
        self.prepared, self.seconds = prepared, seconds
        self.log: Log | None = None
        self.now, self.events = 0.0, 0
        self.copies, self.leaves, self.fetches, self.waits = ([list[int]() for _ in range(count)] for _ in range(4))
        for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
            self.fetches[(each.back - 1) % count].append(number)
            self.waits[each.next % count].append(number)
            if each.copy is not None:
                self.copies[each.copy % count].append(number)
        for number, each in enumerate(absences):
            self.leaves[each.leave].append(number)
        self.clean = [each.copy is None for each in absences]
        self.on_flash = [each.tier is Tier.FLASH for each in absences]
        self.sizes = [prepared.trace.tensors[each.tensor].size for each in absences]
        fault = machine.fault_seconds if schedule.faults else 0.0
        pairs = list(zip(absences, self.sizes, strict=True))
        self.out_work = [machine.out_seconds(each.tier, size) for each, size in pairs]
        self.in_work = [
            machine.in_seconds(each.tier, size) + fault * -(-size // machine.fault_bytes) for each, size in pairs
        ]
        self.slow_out, self.slow_in = machine.out_share, machine.in_share
        self.kept = [False] * len(absences)
        for group in schedule.by_tensor().values():
            for (number, _), (_, following) in zip(group, [*group[1:], group[0]], strict=True):
                self.kept[number] = following.copy is None
        # Before the first iteration all copies are complete, and pending fetches have not begun.
        self.copied = [each.copy is None or each.copy < 0 or each.next >= count for each in absences]
        self.left = [each.next >= count for each in absences]
        self.arrived = [False] * len(absences)
        self.free = machine.device_bytes - prepared.resident
        self.free += sum(size for size, away in zip(self.sizes, self.left, strict=True) if away)
        self.least_free = self.free
        self.host = held_bytes(prepared.trace, schedule, Tier.HOST)[-1]
        self.queues: tuple[deque[int], ...] = tuple(deque() for _ in range(4))
        self.current, self.ends, self.begun = [-1] * 4, [inf] * 4, [0.0] * 4
        self.work, self.since, self.speed = [0.0] * 4, [0.0] * 4, [1.0] * 4
        self.absences = len(absences)
        self._add_exchanges(prepared.exchanges)
        waiting = [(each.back, each.next, at) for at, each in enumerate(absences) if each.back <= count <= each.next]
        for _, _, number in sorted(waiting):
            self.queues[FROM_FLASH if self.on_flash[number] else FROM_HOST].append(number)

    def _add_exchanges(self, exchanges: Sequence[Exchange]) -> None:
        trace, machine = self.prepared.trace, self.prepared.machine
        for number, each in enumerate(exchanges, self.absences):
            size = trace.tensors[each.tensor].size
            self.copies[each.ready].append(number)
            self.leaves[each.ready].append(number)
            self.waits[each.next].append(number)
            self.out_work.append(machine.out_seconds(Tier.HOST, size))
            self.in_work.append(machine.in_seconds(Tier.HOST, size))
        more = len(exchanges)
        self.sizes += [0] * more
        self.kept += [True] * more
        for flags in (self.clean, self.on_flash, self.copied, self.left, self.arrived):
            flags += [False] * more

    def iterate(self) -> tuple[float, list[float]]:
        """Run one iteration; return its seconds, and the seconds that each operation waited."""
        begin = now = self.now
        makes, seconds, waits, arrived, ends = self.prepared.makes, self.seconds, self.waits, self.arrived, self.ends
        queues, log, begin_ins, finish = self.queues, self.log, self._begin_ins, self._finish
        stalls = []
        if log is not None:
            log.begin = now
        self._note(now)
        for at in range(len(seconds)):
            asked, need = now, makes[at]
            while self.free < need:
                now = finish(min(ends), at)
            if need:
                self._take(need, now)
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
            self._end(at, now)
        self.now = now
        self.events += 2 * len(seconds)
        return now - begin, stalls

    def _end(self, at: int, now: float) -> None:
        """End an operation: free what it drops, and queue the transfers that begin then."""
        self.free += self.prepared.drops[at]
        for number in self.leaves[at]:
            self.left[number] = True
            if self.copied[number]:
                self.free += self.sizes[number]
        for number in self.copies[at]:
            link = 1 if self.on_flash[number] else 0
            self.queues[link].append(number)
            if self.ends[link] == inf:
                self._begin_out(link, now)
        for number in self.fetches[at]:
            self.queues[3 if self.on_flash[number] else 2].append(number)
        self._note(now)

    def _finish(self, now: float, at: int) -> float:
        """End the transfer that ends `now`, and begin the next one to the same tier."""
        if now == inf:
            raise MemoryPlanError(f"operation {at} waits for ever", at)
        link = self.ends.index(now)
        number, self.ends[link] = self.current[link], inf
        self.events += 2
        if self.log is not None and number < self.absences:
            self.log.transfers.append(Transfer(number, link, self.begun[link], now))
        if link & 1:
            self._share(link - 1, 1.0, now)
        if link < 2:
            self.copied[number] = True
            if self.left[number]:
                self.free += self.sizes[number]
            if number >= self.absences and link == TO_HOST:
                self.queues[FROM_HOST].append(number)
            if self.queues[link]:
                self._begin_out(link, now)
        else:
            self.arrived[number], self.left[number], self.copied[number] = True, False, self.clean[number]
            if not link & 1 and not self.kept[number]:
                self.host -= self.sizes[number]
        self._note(now)
        return now

    def _begin_out(self, link: int, now: float) -> None:
        number = self.queues[link].popleft()
        if not link & 1:
            self.host += self.sizes[number]
        self._begin(link, number, self.out_work[number], self.slow_out, now)

    def _begin_ins(self, now: float) -> None:
        """Begin the first fetch of each queue, if its link is free and there is room."""
        for link in (2, 3):
            queue = self.queues[link]
            if queue and self.ends[link] == inf:
                number = queue[0]
                if self.sizes[number] <= self.free and self.copied[number] and self.left[number]:
                    queue.popleft()
                    self._begin(link, number, self.in_work[number], self.slow_in, now)
                    self._take(self.sizes[number], now)

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
        if self.ends[link] == inf or self.speed[link] == speed:
            return
        self.work[link] -= (now - self.since[link]) * self.speed[link]
        self.since[link], self.speed[link] = now, speed
        self.ends[link] = max(now, now + self.work[link] / speed)

    def _take(self, size: int, now: float) -> None:
        self.free -= size
        self.least_free = min(self.least_free, self.free)
        self._note(now)

    def _note(self, now: float) -> None:
        if self.log is not None:
            self.log.memory.append((now, self.prepared.machine.device_bytes - self.free))
            self.log.host.append((now, self.host))
