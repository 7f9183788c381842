"""Unified memory: nothing is planned. Missing tensors are fetched when an operation needs them, and the least recently
used ones are evicted."""

from __future__ import annotations

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine, Tier
from ..schedule import Absence, SwapSchedule
from ..schedule_check import check_possible
from ..sizes import sized
from ..trace import MemoryTrace

MAX_ITERATIONS = 24
"""If the evictions do not repeat by then, they never will."""


def on_demand(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """The steady state of unified memory. Raises `MemoryPlanError` if no schedule is possible."""
    check_possible(trace, machine)
    memory = _Memory(trace, machine)
    before: list[Absence] | None = None
    for turn in range(MAX_ITERATIONS):
        for at in range(len(trace.operations)):
            memory.operate(turn * len(trace.operations) + at)
        found = memory.of_iteration(turn - 1)
        if found == before and found is not None:
            return SwapSchedule(tuple(found), faults=True)
        before = found
    raise MemoryPlanError("the evictions of unified memory never repeat for this trace")


class _Memory:
    """The device's memory. Moments are operations, counted on through all iterations.

    `here`: tensors on the device, least recently used first. `away`: where each other tensor is, and the last operation
    before it left. `done_with`: tensors that the program keeps without using them again; they stay, because they would
    never be fetched back.
    """

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine):
        self.trace, self.machine = trace, machine
        self.sizes = [tensor.size for tensor in trace.tensors]
        self.here: dict[int, None] = {}
        self.away: dict[int, tuple[Tier, int]] = {}
        self.done: list[Absence] = []
        self.done_with: set[int] = set()
        self.used = 0
        self.held = dict.fromkeys(Tier, 0)
        count = len(trace.operations)
        self.makes, self.drops, self.ends = ([list[int]() for _ in range(count)] for _ in range(3))
        for index, (tensor, life) in enumerate(zip(trace.tensors, trace.lifetimes(), strict=True)):
            uses = trace.uses[index]
            if tensor.is_global or life.end > count:
                self._arrive(index)
            if not tensor.is_global:
                self.makes[life.start].append(index)
                self.drops[(life.end - 1) % count].append(index)
                self.ends[max(uses, key=lambda at: at if at >= life.start else at + count)].append(index)
            elif not uses:
                self.done_with.add(index)

    def operate(self, now: int) -> None:
        """Run one operation: fetch and make its tensors, and free those that are no longer needed."""
        at = now % len(self.trace.operations)
        op = self.trace.operations[at]
        needed = {*op.reads, *op.writes}
        missing = [index for index in sorted(needed) if index not in self.here]
        if any(index not in self.away and index not in self.makes[at] for index in missing):
            raise MemoryPlanError(f"operation {at} ({op.name}) uses a tensor that is nowhere", at)
        self._make_room(op.scratch + sum(self.sizes[index] for index in missing), needed, now)
        for index in missing:
            if index in self.away:
                tier, since = self._return(index)
                self.done.append(Absence(index, tier, since, since, now, now))
            self._arrive(index)
        for index in needed:
            del self.here[index]
            self.here[index] = None
        self.done_with.update(self.ends[at])
        for index in self.drops[at]:
            if index in self.here:
                self._leave(index)
            elif index in self.away:
                self._return(index)
            self.done_with.discard(index)

    def of_iteration(self, turn: int) -> list[Absence] | None:
        """The absences that began in one iteration; None if some have not ended yet."""
        count = len(self.trace.operations)
        begin = turn * count
        if turn < 0 or any(begin <= since < begin + count for _, since in self.away.values()):
            return None
        mine = [each for each in self.done if begin <= each.leave < begin + count]
        return sorted((each.shifted(-begin) for each in mine), key=lambda each: (each.leave, each.next, each.tensor))

    def _make_room(self, need: int, needed: set[int], now: int) -> None:
        for index in list(self.here):
            if self.used + need <= self.machine.device_bytes:
                return
            size = self.sizes[index]
            if index in needed or index in self.done_with or not size:
                continue
            tier = Tier.HOST if self.held[Tier.HOST] + size <= self.machine.host_bytes else Tier.FLASH
            if tier is Tier.FLASH and self.held[tier] + size > self.machine.flash_bytes:
                raise MemoryPlanError(f"{sized(size)} have to leave the device, and host and flash are full")
            self.held[tier] += size
            self._leave(index)
            self.away[index] = (tier, now - 1)
        if self.used + need > self.machine.device_bytes:
            raise MemoryPlanError(f"operation {now % len(self.trace.operations)} does not fit")

    def _arrive(self, index: int) -> None:
        self.here[index] = None
        self.used += self.sizes[index]

    def _leave(self, index: int) -> None:
        del self.here[index]
        self.used -= self.sizes[index]

    def _return(self, index: int) -> tuple[Tier, int]:
        tier, since = self.away.pop(index)
        self.held[tier] -= self.sizes[index]
        return tier, since
