"""Run a program's iteration under a layout: the moves of each operation's schedule, on real bytes.

The plan is followed as long as operations and tensors are those that were recorded. After a difference the rest of the
iteration runs on demand, within the same limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vkernels.ir.errors import SetupError, TraceError

from .cpu_device import CpuDevice
from .cuda_device import CudaDevice
from .demand_executor import DemandExecutor
from .device import MemoryDevice
from .following import running_ahead, with_program
from .layout import lay_out
from .links import MemoryMachine
from .op_schedule import CallPart, OpSchedule, ScheduledOp, op_schedule_of
from .op_storages import OpCall, kind_of
from .op_tracer import OpTracer
from .periods import joined, part_begins
from .record import recorded_of
from .residency import DEVICE, Held, Residency, StorageResidency
from .tiers import storage_of


def executor_for(
    tracer: OpTracer, period: int, name: str, machine: MemoryMachine, folder: Path, demand: DemandExecutor
) -> ScheduleExecutor:
    """Plan a step from its last traced calls, and allocate its arenas. `folder`: for flash. An iteration is of `period`
    calls, and the last two are compared.

    On a GPU all tensors move to the host first, to make room for the arena.

    Raises `TraceError` if the iterations differ, and the errors of `limit`.
    """
    watched = tracer.watched
    recorded = recorded_of(joined(watched, period), name)
    alive = {n: storage_of(reference) for n, reference in tracer.alive.items() if n in recorded.tensors}
    storages = {recorded.tensors[n]: storage for n, storage in alive.items() if storage is not None}
    device = device_of(storages.values())
    trace = recorded.trace_on(device.kind)
    if device.in_step:
        trace = with_program(trace, recorded.outside)
    layout = lay_out(trace, machine if device.in_step else running_ahead(machine), device.alignment)
    schedule = op_schedule_of(recorded, layout, part_begins(watched.iterations[-period:]))
    if not device.in_step:
        demand.evict_all()
    residency = Residency(device, layout.device_bytes, layout.host_bytes, layout.flash_bytes, folder, demand.heap)
    executor = ScheduleExecutor(schedule, residency, device, demand)
    for tensor, storage in storages.items():
        executor.bind(tensor, storage)
    return executor


def device_of(storages: Iterable[torch.UntypedStorage]) -> MemoryDevice:
    """Return the device of a program's tensors: the GPU if some are on one (those on the CPU stay there), else the CPU.

    Raises `SetupError` for tensors on several GPUs, on an absent one, or on a device without arenas.
    """
    others = {storage.device for storage in storages} - {torch.device("cpu")}
    if not others:
        return CpuDevice()
    device, *more = sorted(others, key=str)
    if more:
        raise SetupError(f"memory on {device} and on {more[0]} cannot be limited together: only that of one device can")
    if device.type != "cuda":
        raise SetupError(f"memory on {device} cannot be limited yet: only that of the CPU and of GPUs can")
    return CudaDevice(device)


class ScheduleExecutor(TorchDispatchMode):
    """Entered for one call after another; `begin` and `end` are called around each. An iteration has one or more.

    `changed`: why the call left the plan. `strays`: uses of tensors that were not on the device. `clock`: times
    operations; a benchmark may replace it. `took`, `outside`: seconds of the iteration's operations, and of the program
    before each and after the last.
    """

    def __init__(self, schedule: OpSchedule, there: Residency, on: MemoryDevice, demand: DemandExecutor):
        super().__init__()
        self.schedule, self.there, self.on, self._demand = schedule, there, on, demand
        self._sizes = demand.sizes
        demand.moved, demand.arena = there.disown, there.device
        self.clock: Callable[[], float] = time.perf_counter
        self.changed = ""
        self.strays = 0
        self._count = len(schedule.turns)
        self.took = [0.0] * self._count
        self.outside = [0.0] * (self._count + 1)
        self._left = self._tail = 0.0
        """When the program was left last, and seconds of it at the end of the last call."""
        self._at = self._part = self._end = 0
        self._bound: dict[int, Held] = {}
        self._numbers: dict[int, int] = {}
        """Tensors by the address of their storage in torch."""
        self._seen: set[int] = set()
        """Tensors from outside that operations of this iteration have used."""
        self._is_disturbed = True
        """Whether tensors may be on the device in memory of their own."""
        self._due: list[int] = []
        """Absences to fetch with the next operation, when the memory of the last one's tensors is free."""

    def bind(self, tensor: int, storage: torch.UntypedStorage) -> Held:
        """Let a storage be a tensor of the plan from now on."""
        old = self._bound.get(tensor)
        if old is not None and self._numbers.get(old.key) == tensor:
            del self._numbers[old.key]
        held = self.there.meet(storage)
        self._bound[tensor], self._numbers[held.key] = held, tensor
        return held

    def begin(self) -> None:
        """Before a call: move the tensors that start on the device there, and others off it."""
        part = self.part
        if self._is_disturbed and self.schedule.layout.schedule.absences:
            starting = (self._bound.get(tensor) for tensor, _ in part.there)
            self._demand.evict_all({held.key for held in starting if held is not None})
        self._at, self._end, self.changed, self._is_disturbed = part.start, part.end, "", False
        self._seen.clear()
        for tensor, offset in part.there:
            held = self._bound.get(tensor)
            if held is not None:
                self.there.bring(held, offset)
        self._copy(part.starting)
        self._due = [*self.schedule.turns[part.start].fetches] if part.start < part.end else []
        self._left = self.clock() - self._tail

    def end(self) -> None:
        """After a call: all of the program's tensors are in memory."""
        part, self._tail = self.part, self.clock() - self._left
        self._part = (self._part + 1) % len(self.schedule.parts)
        if not self._part:
            self.outside[-1], self._tail = self._tail, 0.0
        if not self.changed and self._at < part.end:
            self.changed = f"the iteration ended before operation {self._at}"
        if not self.changed:
            for number in part.late:
                held = self._absent(number)
                if held is not None:
                    self.there.leave(held)
        self.there.settle()
        self._demand.end()

    @property
    def is_whole(self) -> bool:
        """Whether the last call was the last of an iteration."""
        return self._part == 0

    @property
    def part(self) -> CallPart:
        """The part of the iteration that the next call, or this one, is."""
        return self.schedule.parts[self._part]

    def close(self) -> None:
        """Free the arenas: the tensors are in the heap of the host then, and known to be there."""
        counts, more = self._demand.counts, self.there.counts
        counts.out_bytes, counts.back_bytes = counts.out_bytes + more.out_bytes, counts.back_bytes + more.back_bytes
        living = [*self.there.living()]
        self.there.close(to_heap=True)
        self._demand.moved = self._demand.arena = None
        for storage in living:
            self._demand.adopt(storage, not self.on_host(storage.data_ptr()))

    def own(self) -> tuple[float, ...]:
        """Seconds of each operation of the last iteration with the program before it; the rest is before the first."""
        before = [self.outside[0] + self.outside[-1], *self.outside[1:-1]]
        return tuple(map(sum, zip(self.took, before, strict=True)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        entered = self.clock()
        kwargs = kwargs or {}
        kind = kind_of(func)
        if kind.decomposes:
            with self:
                return func.decompose(*args, **kwargs)
        if kind.only_views:
            return func(*args, **kwargs)
        self.on.turn()
        if self.changed:
            return self._run_on_demand(func, args, kwargs)
        try:
            call = OpCall(func, args, kwargs)
        except TraceError as error:
            self._leave_plan(str(error))
            return func(*args, **kwargs)
        turn = self.schedule.turns[self._at] if self._at < self._end else None
        different = self._prepare(turn, call, func, args, kwargs)
        if different:
            self._leave_plan(different)
            return self._run_on_demand(func, args, kwargs)
        strays = self._use(call)
        begun = self.clock()
        out = func(*args, **kwargs)
        took = self.clock() - begun
        call.end(out)
        if not call.is_view:
            self.strays += strays
            self._advance(turn, call, took, entered - self._left)
            self._left = self.clock()
        return out

    def _prepare(self, turn: ScheduledOp | None, call: OpCall, func: Any, args: Any, kwargs: Any) -> str:
        """Fetch what the expected operation needs, and make room for its results; return what differs, if anything."""
        if call.kind.resizes:
            return f"{call.kind.name} gives a tensor other memory"
        if turn is None or call.kind.name != turn.name:
            is_view = call.kind.gives_tensors and not call.written and not self._sizes.predict(func, call, args, kwargs)
            return "" if is_view or not (call.given or call.kind.makes) else self._other_operation(turn, call)
        if self._due:
            self._fetch()
        for tensor, later, offset in turn.succeeds:
            self._succeed(tensor, later, offset)
        get, written = self._numbers.get, len(call.written)
        here = tuple(map(get, call.reads)), tuple(map(get, call.written))
        if here != (turn.reads, turn.writes[:written]):
            self._bind_inputs(turn, call)
        made = sum([self.schedule.sizes[tensor] for tensor in turn.writes[written:]])
        different = self._difference(turn, call, (*call.reads, *call.written), (*turn.reads, *turn.writes[:written]))
        predicted = self._sizes.predict(func, call, args, kwargs)
        is_known = predicted is not None and call.kind.name not in self._sizes.dynamic
        if different or (is_known and predicted != made):
            return different or f"operation {self._at}, {turn.name}, has tensors of other sizes"
        for number in turn.needs:
            held = self._absent(number)
            if held is not None:
                self.there.fetch(held, self.schedule.back_to[number], wait=True)
                self.there.arrive(held)
        for place in turn.makes:
            self.there.make_room(place)
        return ""

    def _succeed(self, tensor: int, later: int, offset: int) -> None:
        """Let a tensor of the previous iteration make room for its successor."""
        old = self._bound.get(tensor)
        storage = None if old is None else old.storage
        if storage is not None:
            self.there.bring(self.bind(later, storage), offset)

    def _bind_inputs(self, turn: ScheduledOp, call: OpCall) -> None:
        """Bind new storages from outside, such as a new batch, to the tensors whose place they take."""
        if len(turn.reads) != len(call.reads):
            return
        expected = (*turn.reads, *turn.writes)
        for tensor, key in zip(expected, (*call.reads, *call.written), strict=False):
            known = self._bound.get(tensor)
            if tensor in self._seen or key in self._numbers or key not in call.given:
                continue
            storage = call.given[key]
            if known is None or storage.nbytes() == known.size:
                held, offset = self.bind(tensor, storage), turn.offsets.get(tensor)
                if offset is not None and storage.nbytes() <= self.schedule.layout.trace.tensors[tensor].size:
                    self.there.bring(held, offset)

    def _use(self, call: OpCall) -> int:
        """Make the arguments of any operation accessible; return how many are not on the device."""
        strays, numbers, bound = 0, self._numbers, self._bound
        for key in call.given:
            tensor = numbers.get(key)
            if tensor is None:
                continue
            held = bound[tensor]
            if held.coming is not None or not held.is_on(DEVICE):
                self.there.make_readable(held)
                strays += held.moves and not held.is_on(DEVICE)
            if held.copy is not None and key in call.written:
                self.there.will_change(held)
        return strays

    def _advance(self, turn: ScheduledOp | None, call: OpCall, took: float, outside: float) -> None:
        """After an operation: if it was the expected one, move its results to their places and go on."""
        made = call.made.values()
        if turn is None or len(call.writes) != len(turn.writes):
            different = self._other_operation(turn, call)
        else:
            different = self._difference(turn, call, (*call.reads, *call.writes), (*turn.reads, *turn.writes))
        if turn is None or different:
            self._leave_plan(different)
            for storage in (*call.given.values(), *made):
                self._demand.adopt(storage, not self.on_host(storage.data_ptr()))
            return
        at = self._at
        self.took[at], self.outside[at] = took, outside
        for tensor, storage in zip(turn.writes[len(call.written) :], made, strict=True):
            held, offset = self.bind(tensor, storage), turn.offsets.get(tensor)
            if offset is not None:
                self.there.put(held, storage, StorageResidency(DEVICE, offset, held.size))
        self._seen.update(turn.reads, turn.writes)
        if turn.copies:
            self._copy(turn.copies)
        self._at = at = at + 1
        if at < self._end:
            self._due += self.schedule.turns[at].fetches
        if self.there.failed is not None:
            self._leave_plan(str(self.there.failed))

    def _other_operation(self, turn: ScheduledOp | None, call: OpCall) -> str:
        if turn is None:
            return f"there is an operation {self._at}, {call.kind.name}, after the last"
        if call.kind.name != turn.name:
            return f"operation {self._at} was {turn.name}, and is {call.kind.name}"
        return f"operation {self._at}, {turn.name}, has other tensors"

    def _difference(self, turn: ScheduledOp, call: OpCall, keys: tuple[int, ...], tensors: tuple[int, ...]) -> str:
        """What differs in storages from the expected tensors; empty if nothing does."""
        if len(keys) != len(tensors):
            return self._other_operation(turn, call)
        sizes, is_same = self.schedule.sizes, True
        for tensor, key in zip(tensors, keys, strict=True):
            given = call.given.get(key)
            if sizes[tensor] != (call.made[key] if given is None else given).nbytes():
                return f"operation {self._at}, {turn.name}, has tensors of other sizes"
            is_same = is_same and (given is None or self._numbers.get(key) == tensor)
        return "" if is_same else self._other_operation(turn, call)

    def on_host(self, address: int) -> bool:
        """Whether an address is in a memory of the host that tensors are moved to."""
        return self.there.holds(address) or self._demand.heap.holds(address)

    def _leave_plan(self, why: str) -> None:
        """Continue on demand, with all tensors where they are."""
        self.changed, self._is_disturbed = why, True
        self.there.settle()
        for storage in self.there.living():
            self._demand.adopt(storage, not self.on_host(storage.data_ptr()))

    def _run_on_demand(self, func: Any, args: Any, kwargs: Any) -> Any:
        if kind_of(func).resizes:  # memory of the arena cannot be resized
            for key in OpCall(func, args, kwargs).given:
                held = self.there.held(key)
                if held is not None and held.is_on(DEVICE):
                    self.there.release(held)
        return self._demand.run(func, args, kwargs)

    def _copy(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            held, stay = self._absent(number), self.schedule.stays[number]
            if held is not None:
                self.there.copy_out(held, stay.tier, stay.offset)

    def _fetch(self) -> None:
        """Begin the fetches that are due; those that wait for flash are retried at the next operation."""
        due, self._due = self._due, []
        for number in due:
            held = self._absent(number)
            if held is not None and not self.there.fetch(held, self.schedule.back_to[number], wait=False):
                self._due.append(number)

    def _absent(self, number: int) -> Held | None:
        return self._bound.get(self.schedule.tensors[number])
