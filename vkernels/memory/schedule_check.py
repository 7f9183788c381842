"""Check that a schedule can be followed: every use finds its tensor, and everything fits, in the operations' order.

A schedule that passes cannot deadlock, however long operations and transfers take (`simulate`).
"""

from __future__ import annotations

from itertools import pairwise

from vkernels.ir.errors import MemoryPlanError

from .links import MemoryMachine, Tier
from .schedule import Absence, Stay, SwapSchedule, idle_times, stays_of
from .sizes import sized
from .trace import MemoryTrace, live_bytes, wrapped


def resident_bytes(trace: MemoryTrace, schedule: SwapSchedule) -> list[int]:
    """Bytes on the device during each operation, once all transfers begun before it have ended."""
    count = len(trace.operations)
    away = (wrapped(each.leave + 1, each.back, -trace.tensors[each.tensor].size, count) for each in schedule.absences)
    return live_bytes((*trace.blocks(), *away), count)


def held_bytes(trace: MemoryTrace, schedule: SwapSchedule, tier: Tier) -> list[int]:
    """Bytes reserved on `tier` at the end of each operation: from when copying begins until the tensor is used again,
    by which time fetching has ended. What moves to flash has room there until it is used again, and none on the host
    from the operation after `down` on, until it is to come back."""
    count = len(trace.operations)
    spans = (
        (*span, trace.tensors[each.tensor].size) for each in stays_of(schedule, count) for span in _held(each, tier)
    )
    return live_bytes((wrapped(start, end, size, count) for start, end, size in spans), count)


def _held(stay: Stay, tier: Tier) -> list[tuple[int, int]]:
    """The operations at whose ends a copy has room on a tier."""
    if stay.moves is None:
        return [(stay.start, stay.end)] if stay.tier is tier else []
    down, up = stay.moves
    if tier is Tier.FLASH:
        return [(down, stay.end)]
    return [(stay.start, down + 1), (up - 1, stay.end)]


def check(trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine) -> None:
    """Raise `MemoryPlanError` for a schedule that contradicts the trace, or that needs more memory than there is."""
    if schedule.has_moves and not machine.has_moves:
        raise MemoryPlanError("the schedule moves tensors between host and flash, which the machine does not")
    for absences in schedule.by_tensor().values():
        _check_tensor(trace, [each for _, each in absences])
    for at, size in enumerate(resident_bytes(trace, schedule)):
        if size > machine.device_bytes:
            raise MemoryPlanError(
                f"operation {at} ({trace.operations[at].name}) has {sized(size)} on the device, which has "
                f"{sized(machine.device_bytes)}",
                at,
            )
    for tier, room in ((Tier.HOST, machine.host_bytes), (Tier.FLASH, machine.flash_bytes)):
        for at, size in enumerate(held_bytes(trace, schedule, tier)):
            if size > room:
                name = trace.operations[at].name
                raise MemoryPlanError(f"after operation {at} ({name}) {tier} holds {sized(size)}, of {sized(room)}", at)


def least_bytes(trace: MemoryTrace) -> tuple[int, int]:
    """The minimum device memory of any schedule, and the operation that needs it.

    It counts the tensors in use, and those that the program keeps without using them again.
    """
    count = len(trace.operations)
    idle = (wrapped(each.last + 1, each.next, -each.size, count) for each in idle_times(trace))
    needs = live_bytes((*trace.blocks(), *idle), count)
    return max(needs), needs.index(max(needs))


def needed_at_once(trace: MemoryTrace) -> tuple[int, int]:
    """The most bytes that an operation has to have on the device while it runs, all others on the host, and which one
    does: no plan is possible with so few, but calls on demand are."""
    sizes, found = [each.size for each in trace.tensors], []
    for at, op in enumerate(trace.operations):
        used = {*op.reads, *op.writes} - {each for each in op.writes if _is_held_over(trace, each, at)}
        found.append(sum(sizes[each] for each in used) + op.scratch)
    return max(found), found.index(max(found))


def check_runs(trace: MemoryTrace, machine: MemoryMachine) -> None:
    """Raise `MemoryPlanError`, with the operation and the minimum memory, if an operation needs more than the device
    has, or all memory together is too small."""
    least, at = needed_at_once(trace)
    if least > machine.device_bytes:
        raise _too_few(trace, machine, least, at)
    _check_all(trace, machine)


def check_possible(trace: MemoryTrace, machine: MemoryMachine) -> None:
    """Raise `MemoryPlanError`, with the operation and the minimum memory, if no schedule is possible."""
    least, at = least_bytes(trace)
    if least > machine.device_bytes:
        raise _too_few(trace, machine, least, at)
    _check_all(trace, machine)


def _is_held_over(trace: MemoryTrace, index: int, at: int) -> bool:
    """Whether an operation makes the successor of a tensor that outlives an iteration, which it need not have itself:
    the number before stands for the successor."""
    one, before = trace.tensors[index], trace.tensors[index - 1]
    is_next = index > 0 and index - 1 in trace.operations[at].writes and one.made == before.made == at
    return is_next and before.freed == at + len(trace.operations) and index not in trace.operations[at].reads


def _too_few(trace: MemoryTrace, machine: MemoryMachine, least: int, at: int) -> MemoryPlanError:
    return MemoryPlanError(
        f"operation {at} ({trace.operations[at].name}) has to have {sized(least)} at once, and the "
        f"device has {sized(machine.device_bytes)}: at least {sized(least)} are needed",
        at,
        least,
    )


def _check_all(trace: MemoryTrace, machine: MemoryMachine) -> None:
    over = trace.peak - machine.device_bytes - machine.host_bytes - machine.flash_bytes
    if over > 0:
        at, least = trace.live().index(trace.peak), machine.device_bytes + int(over)
        raise MemoryPlanError(
            f"at operation {at} ({trace.operations[at].name}) {sized(trace.peak)} are live, {sized(over)} "
            f"more than the device, the host and flash hold together: the device needs at least {sized(least)}",
            at,
            least,
        )


def _check_tensor(trace: MemoryTrace, absences: list[Absence]) -> None:
    count, index = len(trace.operations), absences[0].tensor
    if not 0 <= index < len(trace.tensors):
        raise MemoryPlanError(f"there is no tensor {index}: there are {len(trace.tensors)}")
    name, uses = f"tensor {index} ({trace.tensors[index].name})", trace.uses[index]
    lifetime, is_global = trace.lifetimes()[index], trace.tensors[index].is_global
    for each in absences:
        in_order = 0 <= each.leave < count and each.leave < each.back <= each.next <= each.leave + count
        if not in_order or (each.copy is not None and not -count <= each.copy <= each.leave):
            raise MemoryPlanError(f"{name}: the moments of {each} are out of order", each.leave)
        is_used = any(each.leave < at + turn < each.next for at in uses for turn in (0, count))
        if is_used or each.next % count not in uses:
            raise MemoryPlanError(f"{name}: an operation uses it while {each}", each.leave)
        start = each.leave if each.leave >= lifetime.start else each.leave + count
        if not is_global and start + each.next - each.leave >= lifetime.end:
            raise MemoryPlanError(f"{name} does not live as long as {each}", each.leave)
    for before, after in pairwise([*absences, absences[0].shifted(count)]):
        if before.next > after.leave:
            raise MemoryPlanError(f"{name}: {after} begins before {before} ends", after.leave)
    _check_copies(trace, absences, name)
    for each, after in pairwise([*absences, absences[0]]):
        _check_moves(each, after, name)


def _check_copies(trace: MemoryTrace, absences: list[Absence], name: str) -> None:
    """Check that each copy is made after the last write and the previous absence, and that reused copies are valid."""
    count, index = len(trace.operations), absences[0].tensor
    writes = [at for at in trace.uses[index] if index in trace.operations[at].writes]
    copies = [each.copy - count for each in absences if each.copy is not None]
    before, kept = absences[-1], copies[-1] if copies else None
    for each in absences:
        returned = before.next - (count if before.leave >= each.leave else 0)
        if each.copy is None:
            if each.tier is not before.tier or (kept is None and writes):
                raise MemoryPlanError(f"{name}: there is no copy for {each}", each.leave)
        else:
            kept = each.copy
            if kept < returned:
                raise MemoryPlanError(f"{name}: {each} copies it while it is away", each.leave)
        if kept is not None and any(kept < at + turn <= each.leave for at in writes for turn in (-count, 0)):
            raise MemoryPlanError(f"{name}: the copy of {each} is from before it was written", each.leave)
        before = each


def _check_moves(absence: Absence, after: Absence, name: str) -> None:
    """Check that a copy moves to flash when it is made, back before it is fetched, and is for one absence alone."""
    copy, down, up = absence.copy, absence.down, absence.up
    if down is None and up is None:
        return
    in_order = (copy is not None and down is not None and up is not None
                and copy <= down < up - 2 and absence.leave < up <= absence.back)  # fmt: skip
    if absence.tier is not Tier.HOST or not in_order:
        raise MemoryPlanError(f"{name}: the moments of {absence} are out of order", absence.leave)
    if after.copy is None:
        raise MemoryPlanError(f"{name}: {after} needs a copy that {absence} moves", absence.leave)
