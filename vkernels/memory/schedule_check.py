"""Whether a schedule can be kept at all: every use finds its tensor, and there is room for everything, in the
operations' order. What is checked here cannot get stuck, however long operations and transfers take (`simulate`)."""

from __future__ import annotations

from itertools import accumulate, pairwise

from vkernels.ir.errors import MemoryPlanError

from .links import MemoryMachine, Tier
from .schedule import Absence, SwapSchedule, idle_times
from .trace import MemoryTrace


def resident_bytes(trace: MemoryTrace, schedule: SwapSchedule) -> list[int]:
    """Bytes on the device during each operation, once all that was begun before it has ended."""
    count = len(trace.operations)
    steps = [0] * (count + 1)
    for each in schedule.absences:
        _add(steps, count, each.leave + 1, each.back, -trace.tensors[each.tensor].size)
    away = list(accumulate(steps[:count]))
    return [live + less for live, less in zip(trace.live(), away, strict=True)]


def held_bytes(trace: MemoryTrace, schedule: SwapSchedule, tier: Tier) -> list[int]:
    """Bytes that `tier` holds, or has promised, when each operation has ended. Room is promised when copying begins and
    given back when the tensor is used again, by which time fetching it has ended."""
    count = len(trace.operations)
    steps = [0] * (count + 1)
    for absences in absences_by_tensor(schedule).values():
        size = trace.tensors[absences[0].tensor].size
        if all(each.copy is None for each in absences):
            _add(steps, count, 0, count, size * (absences[0].tier is tier))
            continue
        for start, end, where in _stays(absences, count):
            _add(steps, count, start, end, size * (where is tier))
    return list(accumulate(steps[:count]))


def check(trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine) -> None:
    """Raises `MemoryPlanError` for a schedule that contradicts the trace, or that needs more memory than there is."""
    for absences in absences_by_tensor(schedule).values():
        _check_tensor(trace, absences)
    for at, size in enumerate(resident_bytes(trace, schedule)):
        if size > machine.device_bytes:
            raise MemoryPlanError(
                f"operation {at} ({trace.operations[at].name}) has {size} bytes on the device, which has "
                f"{machine.device_bytes}",
                at,
            )
    for tier, room in ((Tier.HOST, machine.host_bytes), (Tier.FLASH, machine.flash_bytes)):
        for at, size in enumerate(held_bytes(trace, schedule, tier)):
            if size > room:
                name = trace.operations[at].name
                raise MemoryPlanError(f"after operation {at} ({name}) {tier} holds {size} bytes, of {room}", at)


def least_bytes(trace: MemoryTrace) -> tuple[int, int]:
    """The least device memory with which the trace can run at all, and the operation that needs it: for what it uses,
    and for what the program keeps without using it again."""
    count = len(trace.operations)
    steps = [0] * (count + 1)
    for idle in idle_times(trace):
        _add(steps, count, idle.last + 1, idle.next, -idle.size)
    needs = [live + less for live, less in zip(trace.live(), accumulate(steps[:count]), strict=True)]
    most = max(needs)
    return most, needs.index(most)


def check_possible(trace: MemoryTrace, machine: MemoryMachine) -> None:
    """Raises `MemoryPlanError`, with the operation and the least memory, where no schedule could do."""
    least, at = least_bytes(trace)
    if least > machine.device_bytes:
        raise MemoryPlanError(
            f"operation {at} ({trace.operations[at].name}) has to have {least} bytes at once, and the device has "
            f"{machine.device_bytes}: at least {least} bytes are needed",
            at,
            least,
        )
    over = trace.peak - machine.device_bytes - machine.host_bytes - machine.flash_bytes
    if over > 0:
        live = trace.live()
        at = live.index(trace.peak)
        raise MemoryPlanError(
            f"at operation {at} ({trace.operations[at].name}) {live[at]} bytes live, {over} more than the device, the "
            f"host and flash hold together: the device needs at least {machine.device_bytes + int(over)} bytes",
            at,
            machine.device_bytes + int(over),
        )


def absences_by_tensor(schedule: SwapSchedule) -> dict[int, list[Absence]]:
    """The absences of each tensor that has any, in the order in which it leaves."""
    found: dict[int, list[Absence]] = {}
    for each in sorted(schedule.absences, key=lambda each: each.leave):
        found.setdefault(each.tensor, []).append(each)
    return found


def _check_tensor(trace: MemoryTrace, absences: list[Absence]) -> None:
    count, index = len(trace.operations), absences[0].tensor
    if not 0 <= index < len(trace.tensors):
        raise MemoryPlanError(f"there is no tensor {index}: there are {len(trace.tensors)}")
    name, uses = f"tensor {index} ({trace.tensors[index].name})", trace.uses[index]
    lifetime, cyclic = trace.lifetimes()[index], trace.tensors[index].is_global
    for each in absences:
        in_order = 0 <= each.leave < count and each.leave < each.back <= each.next <= each.leave + count
        if not in_order or (each.copy is not None and not -count <= each.copy <= each.leave):
            raise MemoryPlanError(f"{name}: {each} is in no order", each.leave)
        if each.next % count not in uses or _used_between(uses, count, each):
            raise MemoryPlanError(f"{name}: an operation uses it while {each}", each.leave)
        start = each.leave if each.leave >= lifetime.start else each.leave + count
        if not cyclic and start + each.next - each.leave >= lifetime.end:
            raise MemoryPlanError(f"{name} does not live as long as {each}", each.leave)
    for before, after in pairwise([*absences, _later(absences[0], count)]):
        if before.next > after.leave:
            raise MemoryPlanError(f"{name}: {after} begins before {before} ends", after.leave)
    _check_copies(trace, absences, name)


def _check_copies(trace: MemoryTrace, absences: list[Absence], name: str) -> None:
    """Each copy is made after the last write and after the absence before; a copy kept is still right."""
    count, index = len(trace.operations), absences[0].tensor
    writes = [at for at in trace.uses[index] if index in trace.operations[at].writes]
    before, kept = absences[-1], _copied_at(absences, count)
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


def _copied_at(absences: list[Absence], count: int) -> int | None:
    """When the copy was made that the first absence of an iteration finds."""
    made = [each.copy - count for each in absences if each.copy is not None]
    return made[-1] if made else None


def _stays(absences: list[Absence], count: int) -> list[tuple[int, int, Tier]]:
    """`(start, end, tier)` in which a tensor's copies are held: from each copy until the last absence that uses it."""
    first = next(at for at, each in enumerate(absences) if each.copy is not None)
    turned = [*absences[first:], *(_later(each, count) for each in absences[:first])]
    stays: list[tuple[int, int, Tier]] = []
    for each in turned:
        if each.copy is not None:
            stays.append((each.copy, each.next, each.tier))
        else:
            stays[-1] = (stays[-1][0], each.next, each.tier)
    return stays


def _later(each: Absence, count: int) -> Absence:
    copy = None if each.copy is None else each.copy + count
    return Absence(each.tensor, each.tier, copy, each.leave + count, each.back + count, each.next + count)


def _used_between(uses: tuple[int, ...], count: int, absence: Absence) -> bool:
    return any(absence.leave < at + turn < absence.next for at in uses for turn in (0, count))


def _add(steps: list[int], count: int, start: int, end: int, size: int) -> None:
    """Add `size` to the moments from `start` until before `end`, wherever they wrap."""
    if not size or end <= start:
        return
    start, end = start % count, start % count + min(end - start, count)
    steps[start] += size
    if end <= count:
        steps[end] -= size
    else:
        steps[0] += size
        steps[end - count] -= size
