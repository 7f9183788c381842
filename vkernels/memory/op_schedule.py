"""A layout by operation: the transfers and moves around each operation, computed before any of it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .layout import MemoryLayout, Piece
from .record import Recorded
from .residency import DEVICE, StorageResidency
from .schedule import Stay, SwapSchedule


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """One operation. `reads`, `writes`: tensors in torch's order; `writes` ends with those that it makes.

    Numbers of absences: `fetches` begin before the operation, `needs` must be back, `copies` begin after it. `makes`:
    memory for the tensors that it makes. `offsets`: of the tensors that it uses. `succeeds`: tensors of the previous
    iteration whose successors it makes, and that are used again: the numbers that they have from now on, and offsets.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    fetches: tuple[int, ...]
    needs: tuple[int, ...]
    copies: tuple[int, ...]
    makes: tuple[StorageResidency, ...]
    offsets: dict[int, int]
    succeeds: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class CallPart:
    """One call of an iteration: from operation `start` until before `end`.

    `there`: tensors on the device at its start, with their offsets. `starting`: absences whose copies are made then,
    because the program may have changed the tensors. `late`: absences that have not ended, and are not being fetched,
    at its end.
    """

    start: int
    end: int
    there: tuple[tuple[int, int], ...]
    starting: tuple[int, ...]
    late: tuple[int, ...]


@dataclass(frozen=True)
class OpSchedule:
    """An iteration of one call or more. By absence: `tensors`, `back_to` (offsets on the device) and `stays`. `sizes`:
    of tensors, not aligned.
    """

    layout: MemoryLayout
    turns: tuple[ScheduledOp, ...]
    tensors: tuple[int, ...]
    back_to: tuple[int, ...]
    stays: tuple[Stay, ...]
    sizes: tuple[int, ...]
    parts: tuple[CallPart, ...]


def op_schedule_of(recorded: Recorded, layout: MemoryLayout, begins: Sequence[int] = (0,)) -> OpSchedule:
    """Schedule a recorded iteration under a layout. `begins`: the first operation of each call of it."""
    trace, absences = layout.trace, layout.schedule.absences
    count, lifetimes = len(trace.operations), layout.trace.lifetimes()
    pieces: defaultdict[int, list[Piece]] = defaultdict(list)
    for piece in layout.pieces:
        pieces[piece.tensor].append(piece)

    def pieces_at(at: int, tensors: Iterable[int]) -> dict[int, Piece]:
        """Where the tensors are during an operation."""
        return {n: piece for n in tensors for piece in pieces[n] if piece.holds(at, count)}

    def there_at(start: int) -> Iterable[tuple[int, int]]:
        """Where the tensors are that are on the device at the start of a call."""
        for n, piece in pieces_at(start, range(len(trace.tensors))).items():
            is_always = trace.tensors[n].is_global and piece.fetched is None
            if piece.start != start or is_always or piece.end > start + count:
                yield n, piece.offset

    fetches, needs, copies = (defaultdict[int, list[int]](list) for _ in range(3))
    for number, each in sorted(enumerate(absences), key=lambda pair: (pair[1].next, pair[0])):
        fetches[each.back % count].append(number)
        needs[each.next % count].append(number)
    for number, each in layout.schedule.by_leave():
        copies[each.leave if each.copy is None or each.copy < 0 else each.copy].append(number)
    turns = []
    for at, op in enumerate(trace.operations):
        made = [n for n in op.writes if not trace.tensors[n].is_global and lifetimes[n].start == at]
        old = [n + 1 for n in made if n in recorded.held_over]
        reads, writes = recorded.reads[at], recorded.writes[at]
        turns.append(
            ScheduledOp(
                op.name, reads, writes, tuple(fetches[at]), tuple(needs[at]), tuple(copies[at]),
                tuple(
                    StorageResidency(DEVICE, piece.offset, trace.tensors[n].size)
                    for n, piece in pieces_at(at, made).items() if n not in old
                ),
                {n: piece.offset for n, piece in pieces_at(at, (*reads, *writes)).items()},
                tuple((n - 1, n, piece.offset) for n, piece in pieces_at(at, old).items()),
            )
        )  # fmt: skip
    back_to = {piece.fetched: piece.offset for piece in layout.pieces}
    stays = {number: stay for stay in layout.stays for number in stay.absences}
    numbers = range(len(absences))
    parts = (
        CallPart(start, end, tuple(there_at(start % count)), tuple(_starting(layout.schedule, start)), tuple(
            number for number, each in enumerate(absences)
            if each.leave < end <= each.back or each.leave < end + count <= each.back))
        for start, end in pairwise((*begins, count))
    )  # fmt: skip
    return OpSchedule(
        layout, tuple(turns), tuple(each.tensor for each in absences), tuple(back_to[n] for n in numbers),
        tuple(stays[n] for n in numbers), tuple(each.size for each in recorded.trace.tensors), tuple(parts),
    )  # fmt: skip


def _starting(schedule: SwapSchedule, start: int) -> Iterable[int]:
    """Absences of a call whose copies exist before it."""
    seen = set()
    for number, each in schedule.by_leave():
        if each.leave >= start and each.tensor not in seen:
            seen.add(each.tensor)
            if each.copy is None or each.copy < start:
                yield number
