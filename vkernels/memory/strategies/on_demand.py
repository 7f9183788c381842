"""Unified memory: nothing is planned. What is missing is fetched when an operation needs it; room is made by what was
used the longest time ago."""

from __future__ import annotations

from dataclasses import dataclass, field

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine, Tier
from ..schedule import Absence, SwapSchedule
from ..schedule_check import check_possible
from ..trace import MemoryTrace

SETTLED = 24
"""Iterations after which what is done repeats, or never will."""


def on_demand(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """What unified memory does once it repeats itself. Raises `MemoryPlanError` where nothing could do."""
    check_possible(trace, machine)
    memory = _Memory(trace, machine)
    before: list[Absence] | None = None
    for turn in range(SETTLED):
        for at in range(len(trace.operations)):
            memory.operate(turn * len(trace.operations) + at)
        found = memory.of_iteration(turn - 1)
        if found == before and found is not None:
            return SwapSchedule(tuple(found), faults=True)
        before = found
    raise MemoryPlanError("what unified memory does never repeats itself for this trace")


@dataclass
class _Memory:
    """Tensors on the device, those used the longest time ago first; moments count on through all iterations. What the
    program keeps without using it again (`done_with`) stays: it would never come back."""

    trace: MemoryTrace
    machine: MemoryMachine
    here: dict[int, int] = field(default_factory=dict)
    away: dict[int, tuple[Tier, int]] = field(default_factory=dict)
    done: list[Absence] = field(default_factory=list)
    done_with: set[int] = field(default_factory=set)
    used: int = 0
    held: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))

    def __post_init__(self) -> None:
        count = len(self.trace.operations)
        self.makes: list[list[int]] = [[] for _ in range(count)]
        self.drops: list[list[int]] = [[] for _ in range(count)]
        self.ends: list[list[int]] = [[] for _ in range(count)]
        for index, (tensor, life) in enumerate(zip(self.trace.tensors, self.trace.lifetimes(), strict=True)):
            if tensor.is_global or life.end > count:
                self._arrive(index, -1)
            if not tensor.is_global:
                self.makes[life.start].append(index)
                self.drops[(life.end - 1) % count].append(index)
                uses = self.trace.uses[index]
                self.ends[max(uses, key=lambda at: at if at >= life.start else at + count)].append(index)
            elif not self.trace.uses[index]:
                self.done_with.add(index)

    def operate(self, now: int) -> None:
        """One operation: what it lacks comes, what it makes is made, what nobody needs any more goes."""
        at = now % len(self.trace.operations)
        op = self.trace.operations[at]
        needed = {*op.reads, *op.writes}
        missing = [index for index in sorted(needed) if index not in self.here]
        if any(index not in self.away and index not in self.makes[at] for index in missing):
            raise MemoryPlanError(f"operation {at} ({op.name}) uses a tensor that is nowhere", at)
        self._make_room(op.scratch + sum(self.trace.tensors[index].size for index in missing), needed, now)
        for index in missing:
            self._fetch(index, now)
        for index in needed:
            self.here[index] = self.here.pop(index)
        self.done_with.update(self.ends[at])
        for index in self.drops[at]:
            self._forget(index)
            self.done_with.discard(index)

    def of_iteration(self, turn: int) -> list[Absence] | None:
        """The absences that began in one iteration; None where some have not ended yet."""
        count = len(self.trace.operations)
        begin = turn * count
        pending = any(begin <= since < begin + count for _, since in self.away.values())
        if turn < 0 or pending:
            return None
        mine = [each for each in self.done if begin <= each.leave < begin + count]
        return sorted((each.shifted(-begin) for each in mine), key=lambda each: (each.leave, each.next, each.tensor))

    def _make_room(self, need: int, needed: set[int], now: int) -> None:
        for index in list(self.here):
            if self.used + need <= self.machine.device_bytes:
                return
            size = self.trace.tensors[index].size
            if index in needed or index in self.done_with or not size:
                continue
            tier = self._tier(size)
            self.held[tier] += size
            del self.here[index]
            self.used -= size
            self.away[index] = (tier, now - 1)
        if self.used + need > self.machine.device_bytes:
            raise MemoryPlanError(f"operation {now % len(self.trace.operations)} does not fit")

    def _tier(self, size: int) -> Tier:
        if self.held[Tier.HOST] + size <= self.machine.host_bytes:
            return Tier.HOST
        if self.held[Tier.FLASH] + size <= self.machine.flash_bytes:
            return Tier.FLASH
        raise MemoryPlanError(f"{size} bytes have to leave the device, and host and flash are full")

    def _fetch(self, index: int, now: int) -> None:
        if index in self.away:
            tier, since = self.away.pop(index)
            self.held[tier] -= self.trace.tensors[index].size
            self.done.append(Absence(index, tier, since, since, now, now))
        self._arrive(index, now)

    def _arrive(self, index: int, now: int) -> None:
        self.here[index] = now
        self.used += self.trace.tensors[index].size

    def _forget(self, index: int) -> None:
        if self.here.pop(index, None) is not None:
            self.used -= self.trace.tensors[index].size
        elif index in self.away:
            tier, _ = self.away.pop(index)
            self.held[tier] -= self.trace.tensors[index].size
