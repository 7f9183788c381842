"""A layout by operation: the transfers and moves around each operation, computed before any of it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .layout import MemoryLayout, Piece
from .record import Recorded
from .residency import DEVICE, StorageResidency
from .schedule import Stay


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """One operation. `reads`, `writes`: tensors in torch's order; `writes` ends with those that it makes.

    Numbers of absences: `fetches` begin before the operation, `needs` must be back, `copies` begin after it. `makes`:
    memory for the tensors that it makes. `offsets`: of the tensors that it uses.
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
class OpSchedule:
    """An iteration. By absence: `tensors`, `back_to` (offsets on the device) and `stays`. `sizes`: of tensors, not
    aligned.

    `there`: tensors on the device at the start of an iteration, with their offsets. `starting`: absences whose copies
    are made then, because the program may have changed the tensors. `late`: absences that have not ended, and are not
    being fetched, at the end.
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


def op_schedule_of(recorded: Recorded, layout: MemoryLayout) -> OpSchedule:
    """Schedule a recorded iteration under a layout."""
    trace, absences = layout.trace, layout.schedule.absences
    count, lifetimes = len(trace.operations), layout.trace.lifetimes()
    pieces: defaultdict[int, list[Piece]] = defaultdict(list)
    for piece in layout.pieces:
        pieces[piece.tensor].append(piece)

    def pieces_at(at: int, tensors: Iterable[int]) -> dict[int, Piece]:
        """Where the tensors are during an operation."""
        return {n: piece for n in tensors for piece in pieces[n] if piece.holds(at, count)}

    fetches, needs, copies = (defaultdict[int, list[int]](list) for _ in range(3))
    for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
        fetches[each.back % count].append(number)
        needs[each.next % count].append(number)
    starting, seen = [], set()
    for number, each in layout.schedule.by_leave():
        is_new = each.copy is not None and each.copy >= 0
        copies[each.copy if is_new and each.copy is not None else each.leave].append(number)
        if not is_new and each.tensor not in seen:
            starting.append(number)
        seen.add(each.tensor)
    turns = []
    for at, op in enumerate(trace.operations):
        made = (n for n in op.writes if not trace.tensors[n].is_global and lifetimes[n].start == at)
        reads, writes = recorded.reads[at], recorded.writes[at]
        turns.append(
            ScheduledOp(
                op.name, reads, writes, tuple(fetches[at]), tuple(needs[at]), tuple(copies[at]),
                tuple(
                    StorageResidency(DEVICE, piece.offset, trace.tensors[n].size)
                    for n, piece in pieces_at(at, made).items()
                ),
                {n: piece.offset for n, piece in pieces_at(at, (*reads, *writes)).items()},
            )
        )  # fmt: skip
    there = (
        (n, piece.offset) for n, piece in pieces_at(0, range(len(trace.tensors))).items()
        if piece.end > count or (trace.tensors[n].is_global and piece.fetched is None)
    )  # fmt: skip
    back_to = {piece.fetched: piece.offset for piece in layout.pieces}
    stays = {number: stay for stay in layout.stays for number in stay.absences}
    numbers = range(len(absences))
    return OpSchedule(
        layout, tuple(turns), tuple(each.tensor for each in absences), tuple(back_to[n] for n in numbers),
        tuple(stays[n] for n in numbers), tuple(each.size for each in recorded.trace.tensors), tuple(there),
        tuple(starting), tuple(n for n in numbers if absences[n].back >= count),
    )  # fmt: skip
