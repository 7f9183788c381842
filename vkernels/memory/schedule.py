"""Which tensors leave the device, when, where to, and when they come back: a decision, as data."""

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
    """

    tensor: Moment
    tier: Tier
    copy: Annotated[int, Meta(ge=-MAX_OPERATION, le=MAX_OPERATION)] | None
    leave: Moment
    back: Moment
    next: Moment


@dataclass(frozen=True)
class SwapSchedule:
    """All absences of an iteration, which repeats: what is away at its end is away at its start.

    `faults`: nothing was planned; memory that is missing is found out when it is touched, at `Machine.fault_seconds`.
    """

    absences: tuple[Absence, ...] = ()
    faults: bool = False

    def moved(self, trace: MemoryTrace) -> tuple[int, int]:
        """Bytes an iteration from the device, and to it."""
        sizes = [trace.tensors[each.tensor].size for each in self.absences]
        out = sum(size for each, size in zip(self.absences, sizes, strict=True) if each.copy is not None)
        return out, sum(sizes)


@dataclass(frozen=True, slots=True)
class Idle:
    """A tensor is not used after operation `last` and before `next`, which is beyond the last operation where the idle
    time reaches into the next iteration. `written`: the last operation that writes it before that; negative if that was
    in the iteration before; None where nothing ever writes it."""

    tensor: int
    size: int
    last: int
    next: int
    written: int | None

    def away(self, tier: Tier, copy: int | None) -> Absence:
        """The tensor away for all of this time."""
        return Absence(self.tensor, tier, copy, self.last, self.next, self.next)


def idle_times(trace: MemoryTrace) -> Iterator[Idle]:
    """All times in which some tensor lives and is not used by any operation, tensor by tensor, first ones first."""
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
                written = _last_written(writes, last - shift, count)
                yield Idle(index, tensor.size, last - shift, following - shift, written)


def _last_written(writes: list[int], at: int, count: int) -> int | None:
    if not writes:
        return None
    before = [each for each in writes if each <= at]
    return before[-1] if before else writes[-1] - count
