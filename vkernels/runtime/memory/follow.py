"""A program's iteration under a layout: around each operation, what the schedule says is done with real bytes.

The plan is followed as long as operations and tensors are those that were recorded. Where they are not, nothing more is
moved in this iteration, and the program runs on with its tensors where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vkernels.ir.errors import TraceError

from .layout import Layout, Piece, Stay
from .record import Recorded
from .watching import Call, gives_only_views
from .whereabouts import DEVICE, Held, Place, Whereabouts

RESIZING = ("resize", "set_")
"""How operations begin that give a storage other memory, which only memory of its own can have."""


@dataclass(frozen=True)
class Agenda:
    """A layout, by operation: absences whose copying begins after each, that are fetched before it, that it needs; and
    tensors that it makes. `starting`: those that are copied before the first, for what they held may have changed.
    `late`: those that are away when an iteration ends,
    and not on their way back. `back_to`: offsets, and `stays`, by absence."""

    recorded: Recorded
    layout: Layout
    copies: tuple[tuple[int, ...], ...]
    fetches: tuple[tuple[int, ...], ...]
    needs: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]
    starting: tuple[int, ...]
    late: tuple[int, ...]
    back_to: tuple[int, ...]
    stays: tuple[Stay, ...]
    pieces: dict[int, tuple[Piece, ...]]


def agenda_of(recorded: Recorded, layout: Layout) -> Agenda:
    """What is to be done when."""
    count, absences = len(layout.trace.operations), layout.schedule.absences
    fetches, needs = _lists(count), _lists(count)
    for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
        fetches[each.back % count].append(number)
        needs[each.next % count].append(number)
    copies, starting = _copies(layout)
    pieces: dict[int, tuple[Piece, ...]] = {}
    back_to = [0] * len(absences)
    for piece in layout.pieces:
        pieces[piece.tensor] = (*pieces.get(piece.tensor, ()), piece)
        if piece.fetched is not None:
            back_to[piece.fetched] = piece.offset
    stays = {number: stay for stay in layout.stays for number in stay.absences}
    late = tuple(n for n, each in enumerate(absences) if each.back >= count)
    return Agenda(
        recorded, layout, _frozen(copies), _frozen(fetches), _frozen(needs), _frozen(_makes(layout)), tuple(starting),
        late, tuple(back_to), tuple(stays[n] for n in range(len(absences))), pieces,
    )  # fmt: skip


def _copies(layout: Layout) -> tuple[list[list[int]], list[int]]:
    """Absences by the operation after which they are copied, and those that are copied when an iteration begins.

    Where a copy should be there from before, it is looked for when the tensor leaves: nothing is done if it is.
    """
    copies, starting, seen = _lists(len(layout.trace.operations)), [], set()
    for number, each in sorted(enumerate(layout.schedule.absences), key=lambda pair: (pair[1].leave, pair[0])):
        is_new = each.copy is not None and each.copy >= 0
        copies[each.copy if each.copy is not None and is_new else each.leave].append(number)
        if not is_new and each.tensor not in seen:
            starting.append(number)
        seen.add(each.tensor)
    return copies, starting


def _makes(layout: Layout) -> list[list[int]]:
    """By operation, the tensors that it makes."""
    trace, makes = layout.trace, _lists(len(layout.trace.operations))
    for at, op in enumerate(trace.operations):
        makes[at] += [n for n in op.writes if not trace.tensors[n].is_global and trace.lifetimes()[n].start == at]
    return makes


def _lists(count: int) -> list[list[int]]:
    return [[] for _ in range(count)]


def _frozen(lists: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, lists))


class Follow(TorchDispatchMode):
    """Entered for one iteration after another; `begin` and `end` stand around each. `changed`: why it left
    the plan."""

    def __init__(self, agenda: Agenda, there: Whereabouts):
        super().__init__()
        self.agenda, self.there = agenda, there
        self.changed = ""
        self.strays = 0
        """Uses of a tensor that was not on the device."""
        self._at = 0
        self._count = len(agenda.layout.trace.operations)
        self._bound: dict[int, Held] = {}
        self._numbers: dict[int, int] = {}
        """Tensors by the address of their storage in torch."""
        self._seen: set[int] = set()
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
        for tensor, held in self._bound.items():
            piece = self._piece(tensor, 0)
            if piece is not None and self._lives(piece):
                self.there.bring(held, piece.offset)
        self._copy(self.agenda.starting)
        self._due += self.agenda.fetches[0]

    def end(self) -> None:
        """After an iteration; the program's tensors are all in memory."""
        if not self.changed and self._at < self._count:
            self.changed = f"the iteration ended before operation {self._at}"
        if not self.changed:
            for number in self.agenda.late:
                held = self._bound.get(self.agenda.layout.schedule.absences[number].tensor)
                if held is not None:
                    self.there.leave(held)
        self.there.settle()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.changed or gives_only_views(func):
            return func(*args, **kwargs)
        try:
            call = Call(func, args, kwargs)
        except TraceError as error:
            self._leave_plan(str(error))
            return func(*args, **kwargs)
        if call.name.startswith(RESIZING):
            self._leave_plan(f"{call.name} gives a tensor other memory")
            for key in call.given:
                if (known := self._held(key)) is not None:
                    self.there.release(known)
            return func(*args, **kwargs)
        self._prepare(call)
        out = func(*args, **kwargs)
        call.end(out)
        if not call.is_view:
            self._follow(call)
        return out

    def _prepare(self, call: Call) -> None:
        """What the operation needs is here, and there is room for what it makes, if it is the one that is next."""
        at, absences = self._at, self.agenda.layout.schedule.absences
        if at < self._count and call.name == self.agenda.layout.trace.operations[at].name:
            self._fetch()
            self._meet(call)
            for number in self.agenda.needs[at]:
                held = self._bound.get(absences[number].tensor)
                if held is not None:
                    self.there.fetch(held, self.agenda.back_to[number], wait=True)
                    self.there.arrive(held)
            for tensor in self.agenda.makes[at]:
                piece = self._piece(tensor, at)
                if piece is not None:
                    self.there.make_room(Place(DEVICE, piece.offset, self.agenda.layout.trace.tensors[tensor].size))
        for key in call.given:
            if (known := self._held(key)) is not None:
                self.there.make_readable(known)
                if key in call.written:
                    self.there.will_change(known)

    def _meet(self, call: Call) -> None:
        """Tensors that come from outside: other storages than in the iteration before may take their part."""
        recorded = self.agenda.recorded
        if len(recorded.reads[self._at]) != len(call.reads):
            return
        expected = (*recorded.reads[self._at], *recorded.writes[self._at])
        for tensor, key in zip(expected, (*call.reads, *call.written), strict=False):
            known = self._bound.get(tensor)
            if tensor in self._seen or key in self._numbers or key not in call.given:
                continue
            storage = call.given[key].untyped_storage()
            if known is None or storage.nbytes() == known.size:
                held, piece = self.bind(tensor, storage), self._piece(tensor, self._at)
                if piece is not None and storage.nbytes() <= self.agenda.layout.trace.tensors[tensor].size:
                    self.there.bring(held, piece.offset)

    def _follow(self, call: Call) -> None:
        """The operation has run: if it was the expected one, what it made moves in, and the next begins."""
        different = self._difference(call)
        if different:
            self._leave_plan(different)
            return
        at, recorded = self._at, self.agenda.recorded
        for tensor, key in zip(recorded.writes[at], call.writes, strict=True):
            if key in call.made:
                held, piece = self.bind(tensor, call.made[key].untyped_storage()), self._piece(tensor, at)
                if piece is not None:
                    self.there.bring(held, piece.offset)
        self._seen.update(recorded.reads[at], recorded.writes[at])
        self.strays += sum(self._is_astray(key) for key in call.given)
        self._copy(self.agenda.copies[at])
        self._at += 1
        if self._at < self._count:
            self._due += self.agenda.fetches[self._at]
        if self.there.failed is not None:
            self._leave_plan(str(self.there.failed))

    def _difference(self, call: Call) -> str:
        """What is not as it was recorded; nothing where all is."""
        at, recorded = self._at, self.agenda.recorded
        if at >= self._count:
            return f"there is an operation {at}, {call.name}, after the last"
        name = self.agenda.layout.trace.operations[at].name
        if call.name != name:
            return f"operation {at} was {name}, and is {call.name}"
        for tensors, keys in ((recorded.reads[at], call.reads), (recorded.writes[at], call.writes)):
            if len(tensors) != len(keys):
                return f"operation {at}, {name}, has other tensors"
            for tensor, key in zip(tensors, keys, strict=True):
                made = call.made.get(key)
                size = (call.given[key] if made is None else made).untyped_storage().nbytes()
                if recorded.trace.tensors[tensor].size != size:
                    return f"operation {at}, {name}, has tensors of other sizes"
                if made is None and self._numbers.get(key) != tensor:
                    return f"operation {at}, {name}, has other tensors"
        return ""

    def _leave_plan(self, why: str) -> None:
        self.changed = why
        self.there.settle()

    def _copy(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            held = self._bound.get(self.agenda.layout.schedule.absences[number].tensor)
            if held is not None:
                stay = self.agenda.stays[number]
                self.there.copy_out(held, stay.tier, stay.offset)

    def _fetch(self) -> None:
        """Begin the fetches that are due; those that find no room yet are tried again before the next operation."""
        due, self._due = self._due, []
        for number in due:
            held = self._bound.get(self.agenda.layout.schedule.absences[number].tensor)
            if held is not None and not self.there.fetch(held, self.agenda.back_to[number], wait=False):
                self._due.append(number)

    def _piece(self, tensor: int, moment: int) -> Piece | None:
        """The stretch on the device that holds a moment."""
        return next((each for each in self.agenda.pieces.get(tensor, ()) if each.holds(moment, self._count)), None)

    def _lives(self, piece: Piece) -> bool:
        """Whether at the start of an iteration the tensor of a piece is there already, and not made or fetched then."""
        is_global = self.agenda.layout.trace.tensors[piece.tensor].is_global
        return piece.end > self._count or (is_global and piece.fetched is None)

    def _held(self, key: int) -> Held | None:
        tensor = self._numbers.get(key)
        return None if tensor is None else self._bound.get(tensor)

    def _is_astray(self, key: int) -> bool:
        held = self._held(key)
        return held is not None and held.moves and (held.place is None or held.place.memory != DEVICE)
