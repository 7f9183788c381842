"""Which tensors leave the device, when, where to, and when they return: a schedule as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from .links import Tier
from .strict_json import Record
from .trace import MemoryTrace

MAX_OPERATION = 1 << 40
Moment = Annotated[int, Meta(ge=0, le=MAX_OPERATION)]


class Absence(Record, frozen=True):
    """One tensor is away once in each iteration. Moments are operations; those from the trace's count on are in the
    next iteration.

    `copy`: copying to `tier` begins after this operation; operations may read the tensor meanwhile. None: the tier
    still has a valid copy from the previous absence. Negative: in the previous iteration.
    `leave`: the last operation of this iteration that uses the tensor; its memory is freed after it, once the copy is
    complete.
    `back`: fetching begins after the operation before this one, once there is room.
    `next`: the operation that needs it again.
    `down`, `up`: between them the host's copy is on flash: it moves there after operation `down`, once it is complete,
    and back after the operation before `up`, once the host has room. None: it does not move.
    """

    tensor: Moment
    tier: Tier
    copy: Annotated[int, Meta(ge=-MAX_OPERATION, le=MAX_OPERATION)] | None
    leave: Moment
    back: Moment
    next: Moment
    down: Annotated[int, Meta(ge=-MAX_OPERATION, le=MAX_OPERATION)] | None = None
    up: Moment | None = None

    def shifted(self, by: int) -> Absence:
        """The absence `by` operations later."""
        copy, down, up = (None if each is None else each + by for each in (self.copy, self.down, self.up))
        return Absence(self.tensor, self.tier, copy, self.leave + by, self.back + by, self.next + by, down, up)


@dataclass(frozen=True)
class SwapSchedule:
    """All absences of an iteration, which repeats: what is away at its end is away at its start.

    `faults`: nothing was planned; missing memory is found when it is accessed, at `MemoryMachine.fault_seconds`.
    """

    absences: tuple[Absence, ...] = ()
    faults: bool = False

    @property
    def has_moves(self) -> bool:
        """Whether a tensor moves between host and flash."""
        return any(each.down is not None for each in self.absences)

    def moved(self, trace: MemoryTrace) -> tuple[int, int]:
        """Bytes an iteration from the device, and to it."""
        sizes = [(trace.tensors[each.tensor].size, each.copy is not None) for each in self.absences]
        return sum(size for size, is_copied in sizes if is_copied), sum(size for size, _ in sizes)

    def by_leave(self) -> list[tuple[int, Absence]]:
        """The absences with their numbers, in the order in which the tensors leave."""
        return sorted(enumerate(self.absences), key=lambda pair: (pair[1].leave, pair[0]))

    def by_tensor(self) -> dict[int, list[tuple[int, Absence]]]:
        """`by_leave` for each tensor that is ever away."""
        found: dict[int, list[tuple[int, Absence]]] = {}
        for number, each in self.by_leave():
            found.setdefault(each.tensor, []).append((number, each))
        return found


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor's copy on a tier, for some absences: from after operation `start` until after operation `end`.

    `moves`: the operations after which, and before which, it moves to flash and back; `tier` is the host then.
    """

    tensor: int
    tier: Tier
    start: int
    end: int
    absences: tuple[int, ...]
    offset: int = 0
    moves: tuple[int, int] | None = None


def stays_of(schedule: SwapSchedule, count: int) -> Iterator[Stay]:
    """Every copy on a tier, from its creation until the end of the last absence that uses it."""
    for tensor, absences in schedule.by_tensor().items():
        copied = [position for position, (_, each) in enumerate(absences) if each.copy is not None]
        if not copied:
            yield Stay(tensor, absences[0][1].tier, 0, count, tuple(number for number, _ in absences))
            continue
        turned = absences[copied[0] :] + [(number, each.shifted(count)) for number, each in absences[: copied[0]]]
        starts = [position for position, (_, each) in enumerate(turned) if each.copy is not None]
        for begin, end in pairwise([*starts, len(turned)]):
            copy, part = turned[begin][1].copy or 0, turned[begin:end]
            first, last = part[0][1], part[-1][1]
            moves = None if first.down is None or first.up is None else (first.down, first.up)
            yield Stay(tensor, first.tier, copy, last.next, tuple(number for number, _ in part), moves=moves)


@dataclass(frozen=True, slots=True)
class Idle:
    """A time in which a tensor is not used: after operation `last` and before `next`, which may be in the next
    iteration. `written`: the last operation before that writes it; negative in the previous iteration; None if nothing
    ever writes it."""

    tensor: int
    size: int
    last: int
    next: int
    written: int | None


def idle_times(trace: MemoryTrace) -> Iterator[Idle]:
    """All times in which a live tensor is not used by any operation, by tensor and then by time."""
    count = len(trace.operations)
    for index, (tensor, lifetime) in enumerate(zip(trace.tensors, trace.lifetimes(), strict=True)):
        uses = trace.uses[index]
        if not uses or not tensor.size:
            continue
        writes = [at for at in uses if index in trace.operations[at].writes]
        if tensor.is_global:
            turns = [*uses, uses[0] + count]
        else:
            turns = sorted(at if at >= lifetime.start else at + count for at in uses)
        for last, following in pairwise(turns):
            if following - last > 1:
                shift = count if last >= count else 0
                before = [*(at - count for at in writes), *(at for at in writes if at <= last - shift)]
                yield Idle(index, tensor.size, last - shift, following - shift, before[-1] if before else None)
