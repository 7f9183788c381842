"""A program's iteration under a layout: around each operation, what the schedule says is done with real bytes.

The plan is followed as long as operations and tensors are those that were recorded. Where they are not, nothing more is
moved in this iteration, and the program runs on with its tensors where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vkernels.ir.errors import TraceError

from .device import MemoryDevice
from .op_schedule import OpSchedule, ScheduledOp
from .op_storages import OpCall, kind_of
from .residency import DEVICE, Held, StorageResidency, Whereabouts


class Follow(TorchDispatchMode):
    """Entered for one iteration after another; `begin` and `end` stand around each. `changed`: why it left
    the plan."""

    def __init__(self, schedule: OpSchedule, there: Whereabouts, on: MemoryDevice):
        super().__init__()
        self.schedule, self.there, self.on = schedule, there, on
        self.clock: Callable[[], float] = time.perf_counter
        """By which operations are timed; a benchmark may take one that knows what others do to the machine."""
        self.changed = ""
        self.strays = 0
        """Uses of a tensor that was not on the device."""
        self._count = len(schedule.turns)
        self.took = [0.0] * self._count
        self.outside = [0.0] * (self._count + 1)
        """Seconds of this iteration's operations, and of the program before each and after the last."""
        self._left = 0.0
        self._at = 0
        self._bound: dict[int, Held] = {}
        self._numbers: dict[int, int] = {}
        """Tensors by the address of their storage in torch."""
        self._seen: set[int] = set()
        """Tensors from outside that operations have met in this iteration."""
        self._due: list[int] = []
        """Absences whose fetches are to begin: with the next operation, when what the last one used is given back."""

    def bind(self, tensor: int, storage: torch.UntypedStorage) -> Held:
        """From now on a tensor of the plan is this storage."""
        old = self._bound.get(tensor)
        if old is not None and self._numbers.get(old.key) == tensor:
            del self._numbers[old.key]
        held = self.there.meet(storage)
        self._bound[tensor], self._numbers[held.key] = held, tensor
        return held

    def begin(self) -> None:
        """Before an iteration: what is to be on the device comes there."""
        self._at, self.changed = 0, ""
        self._seen.clear()
        self._due.clear()
        for tensor, offset in self.schedule.there:
            held = self._bound.get(tensor)
            if held is not None:
                self.there.bring(held, offset)
        self._copy(self.schedule.starting)
        self._due += self.schedule.turns[0].fetches
        self._left = self.clock()

    def end(self) -> None:
        """After an iteration; the program's tensors are all in memory."""
        self.outside[-1] = self.clock() - self._left
        if not self.changed and self._at < self._count:
            self.changed = f"the iteration ended before operation {self._at}"
        if not self.changed:
            for number in self.schedule.late:
                held = self._bound.get(self.schedule.tensors[number])
                if held is not None:
                    self.there.leave(held)
        self.there.settle()

    def own(self) -> tuple[float, ...]:
        """Of the iteration that has ended: each operation with the program before it, the rest before the first."""
        before = [self.outside[0] + self.outside[-1], *self.outside[1:-1]]
        return tuple(map(sum, zip(self.took, before, strict=True)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        entered = self.clock()
        kwargs = kwargs or {}
        kind = kind_of(func)
        if kind.only_views:
            return func(*args, **kwargs)
        self.on.turn()
        if self.changed:
            return func(*args, **kwargs)
        try:
            call = OpCall(func, args, kwargs)
        except TraceError as error:
            self._leave_plan(str(error))
            return func(*args, **kwargs)
        if kind.resizes:
            self._leave_plan(f"{kind.name} gives a tensor other memory")
            for key in call.given:
                if (known := self._held(key)) is not None:
                    self.there.release(known)
            return func(*args, **kwargs)
        turn = self.schedule.turns[self._at] if self._at < self._count else None
        if turn is not None and kind.name == turn.name:
            self._prepare(turn, call)
        strays = self._use(call)
        begun = self.clock()
        out = func(*args, **kwargs)
        took = self.clock() - begun
        call.end(out)
        if not call.is_view:
            self.strays += strays
            self._follow(turn, call, took, entered - self._left)
            self._left = self.clock()
        return out

    def _prepare(self, turn: ScheduledOp, call: OpCall) -> None:
        """For the operation that is next: what it needs is there, and room for what it makes."""
        if self._due:
            self._fetch()
        get, written = self._numbers.get, len(call.written)
        here = tuple(map(get, call.reads)), tuple(map(get, call.written))
        if here != (turn.reads, turn.writes[:written]):
            self._meet(turn, call)
        for number in turn.needs:
            held = self._bound.get(self.schedule.tensors[number])
            if held is not None:
                self.there.fetch(held, self.schedule.back_to[number], wait=True)
                self.there.arrive(held)
        for place in turn.makes:
            self.there.make_room(place)

    def _meet(self, turn: ScheduledOp, call: OpCall) -> None:
        """Tensors that come from outside: other storages than in the iteration before may take their part."""
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
        """Have what any operation is given where it can be used; how much of that is not on the device."""
        strays, numbers, bound = 0, self._numbers, self._bound
        for key in call.given:
            tensor = numbers.get(key)
            if tensor is None:
                continue
            held = bound[tensor]
            if held.coming is not None or held.place is None or held.place.memory != DEVICE:
                self.there.make_readable(held)
                strays += held.moves and (held.place is None or held.place.memory != DEVICE)
            if held.copy is not None and key in call.written:
                self.there.will_change(held)
        return strays

    def _follow(self, turn: ScheduledOp | None, call: OpCall, took: float, outside: float) -> None:
        """The operation has run: if it was the expected one, what it made moves in, and the next begins."""
        different = self._difference(turn, call)
        if turn is None or different:
            self._leave_plan(different)
            return
        at = self._at
        self.took[at], self.outside[at] = took, outside
        for tensor, storage in zip(turn.writes[len(call.written) :], call.made.values(), strict=True):
            held, offset = self.bind(tensor, storage), turn.offsets.get(tensor)
            if offset is not None:
                self.there.put(held, storage, StorageResidency(DEVICE, offset, held.size))
        self._seen.update(turn.reads, turn.writes)
        if turn.copies:
            self._copy(turn.copies)
        self._at = at = at + 1
        if at < self._count:
            self._due += self.schedule.turns[at].fetches
        if self.there.failed is not None:
            self._leave_plan(str(self.there.failed))

    def _difference(self, turn: ScheduledOp | None, call: OpCall) -> str:
        """What is not as it was recorded; nothing where all is."""
        if turn is None:
            return f"there is an operation {self._at}, {call.kind.name}, after the last"
        if call.kind.name != turn.name:
            return f"operation {self._at} was {turn.name}, and is {call.kind.name}"
        writes, sizes = call.writes, self.schedule.sizes
        if len(call.reads) != len(turn.reads) or len(writes) != len(turn.writes):
            return f"operation {self._at}, {turn.name}, has other tensors"
        is_same = True
        for tensors, keys in ((turn.reads, call.reads), (turn.writes, writes)):
            for tensor, key in zip(tensors, keys, strict=True):
                given = call.given.get(key)
                if sizes[tensor] != (call.made[key] if given is None else given).nbytes():
                    return f"operation {self._at}, {turn.name}, has tensors of other sizes"
                is_same = is_same and (given is None or self._numbers.get(key) == tensor)
        return "" if is_same else f"operation {self._at}, {turn.name}, has other tensors"

    def _leave_plan(self, why: str) -> None:
        self.changed = why
        self.there.settle()

    def _copy(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            held = self._bound.get(self.schedule.tensors[number])
            if held is not None:
                stay = self.schedule.stays[number]
                self.there.copy_out(held, stay.tier, stay.offset)

    def _fetch(self) -> None:
        """Begin the fetches that are due; those that wait for flash are tried again before the next operation."""
        due, self._due = self._due, []
        for number in due:
            held = self._bound.get(self.schedule.tensors[number])
            if held is not None and not self.there.fetch(held, self.schedule.back_to[number], wait=False):
                self._due.append(number)

    def _held(self, key: int) -> Held | None:
        tensor = self._numbers.get(key)
        return None if tensor is None else self._bound.get(tensor)
