"""A layout by operation: what is to be done with bytes around each, worked out before any of it is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .layout import MemoryLayout, Piece, Stay
from .record import Recorded
from .residency import DEVICE, StorageResidency
from .schedule import Absence


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """One operation. `reads` and `writes`: tensors as torch names them, `writes` with those that it makes last.

    Absences: `fetches` are asked for before it, `needs` have to be back, `copies` begin after it. `makes`: room that it
    needs, `offsets`: where tensors that it uses lie.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    fetches: tuple[int, ...]
    needs: tuple[int, ...]
    copies: tuple[int, ...]
    makes: tuple[StorageResidency, ...]
    offsets: dict[int, int]


@dataclass(frozen=True)
class Agenda:
    """An iteration. By absence: `tensors`, `back_to` (offsets on the device) and `stays`. `sizes`: of tensors, not
    aligned.

    `there`: tensors that lie on the device when an iteration begins, and their offsets. `starting`: absences that are
    copied then, for what they held may have changed. `late`: those that are away when it ends, and not on their way
    back.
    """

    layout: MemoryLayout
    turns: tuple[ScheduledOp, ...]
    tensors: tuple[int, ...]
    back_to: tuple[int, ...]
    stays: tuple[Stay, ...]
    sizes: tuple[int, ...]
    there: tuple[tuple[int, int], ...]
    starting: tuple[int, ...]
    late: tuple[int, ...]


def agenda_of(recorded: Recorded, layout: MemoryLayout) -> Agenda:
    """What is to be done when."""
    count, absences = len(layout.trace.operations), layout.schedule.absences
    pieces: dict[int, tuple[Piece, ...]] = {}
    back_to = [0] * len(absences)
    for piece in layout.pieces:
        pieces[piece.tensor] = (*pieces.get(piece.tensor, ()), piece)
        if piece.fetched is not None:
            back_to[piece.fetched] = piece.offset
    stays = {number: stay for stay in layout.stays for number in stay.absences}
    return Agenda(
        layout, tuple(_turns(recorded, layout, pieces)), tuple(each.tensor for each in absences), tuple(back_to),
        tuple(stays[n] for n in range(len(absences))), tuple(each.size for each in recorded.trace.tensors),
        tuple(_there(layout, pieces)), tuple(_starting(layout)),
        tuple(n for n, each in enumerate(absences) if each.back >= count),
    )  # fmt: skip


def _turns(recorded: Recorded, layout: MemoryLayout, pieces: dict[int, tuple[Piece, ...]]) -> Iterator[ScheduledOp]:
    trace = layout.trace
    count, absences = len(trace.operations), layout.schedule.absences
    fetches, needs = _lists(count), _lists(count)
    for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
        fetches[each.back % count].append(number)
        needs[each.next % count].append(number)
    copies, makes = _copies(layout), _makes(layout)

    def offsets(at: int, tensors: tuple[int, ...]) -> dict[int, int]:
        found = {tensor: _piece(pieces, tensor, at, count) for tensor in tensors}
        return {tensor: piece.offset for tensor, piece in found.items() if piece is not None}

    for at, op in enumerate(trace.operations):
        reads, writes = recorded.reads[at], recorded.writes[at]
        room = offsets(at, tuple(makes[at]))
        yield ScheduledOp(
            op.name, reads, writes, tuple(fetches[at]), tuple(needs[at]), tuple(copies[at]),
            tuple(StorageResidency(DEVICE, offset, trace.tensors[n].size) for n, offset in room.items()),
            offsets(at, (*reads, *writes)),
        )  # fmt: skip


def _copies(layout: MemoryLayout) -> list[list[int]]:
    """Absences by the operation after which they are copied. Where a copy should be there from before, it is looked for
    when the tensor leaves: nothing is done if it is."""
    copies = _lists(len(layout.trace.operations))
    for number, each in _in_order(layout):
        copies[each.copy if each.copy is not None and each.copy >= 0 else each.leave].append(number)
    return copies


def _starting(layout: MemoryLayout) -> Iterator[int]:
    seen = set()
    for number, each in _in_order(layout):
        if (each.copy is None or each.copy < 0) and each.tensor not in seen:
            yield number
        seen.add(each.tensor)


def _in_order(layout: MemoryLayout) -> list[tuple[int, Absence]]:
    return sorted(enumerate(layout.schedule.absences), key=lambda pair: (pair[1].leave, pair[0]))


def _makes(layout: MemoryLayout) -> list[list[int]]:
    """By operation, the tensors that it makes."""
    trace, makes = layout.trace, _lists(len(layout.trace.operations))
    lifetimes = trace.lifetimes()
    for at, op in enumerate(trace.operations):
        makes[at] += [n for n in op.writes if not trace.tensors[n].is_global and lifetimes[n].start == at]
    return makes


def _there(layout: MemoryLayout, pieces: dict[int, tuple[Piece, ...]]) -> Iterator[tuple[int, int]]:
    count = len(layout.trace.operations)
    for tensor, known in enumerate(layout.trace.tensors):
        piece = _piece(pieces, tensor, 0, count)
        if piece is not None and (piece.end > count or (known.is_global and piece.fetched is None)):
            yield tensor, piece.offset


def _piece(pieces: dict[int, tuple[Piece, ...]], tensor: int, moment: int, count: int) -> Piece | None:
    """The stretch on the device that holds a moment."""
    return next((each for each in pieces.get(tensor, ()) if each.holds(moment, count)), None)


def _lists(count: int) -> list[list[int]]:
    return [[] for _ in range(count)]
