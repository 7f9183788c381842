"""Tensors that are made again by the operation that made them, instead of being kept or carried away and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from .links import Machine
from .schedule import Idle, Schedule, idle_times
from .simulate import Run, simulate
from .strategies.search import GOOD, search
from .trace import Operation, Tensor, Trace

Known = Callable[[Operation], bool]
"""Whether an operation may run again: it does the same each time, and nothing but write its tensors."""


@dataclass(frozen=True)
class Again:
    """`tensor` is dropped after operation `last`; operation `maker` runs once more before operation `next`."""

    tensor: int
    maker: int
    last: int
    next: int


@dataclass(frozen=True)
class Recomputed:
    """The trace with operations run again, and its schedule. `run.ideal_seconds` is of the trace before."""

    trace: Trace
    again: tuple[Again, ...]
    schedule: Schedule
    run: Run


def can_recompute(trace: Trace, known: Known) -> Iterator[Again]:
    """Each idle time that recomputing can bridge: the operation that made the tensor is known, wrote it alone or beside
    tensors that nobody keeps, and all that it reads is then still what it was."""
    lifetimes = trace.lifetimes()
    writes: list[list[int]] = [[] for _ in trace.tensors]
    for at, op in enumerate(trace.operations):
        for index in op.writes:
            writes[index].append(at)
    for idle in idle_times(trace):
        maker = idle.written
        if maker is None or maker < 0 or idle.next >= len(trace.operations) or trace.tensors[idle.tensor].is_global:
            continue
        op, lifetime = trace.operations[maker], lifetimes[idle.tensor]
        if lifetime.end > len(trace.operations) or trace.tensors[idle.tensor].freed is not None:
            continue
        if writes[idle.tensor] == [maker] and _repeatable(trace, op, idle, writes) and known(op):
            yield Again(idle.tensor, maker, idle.last, idle.next)


def _repeatable(trace: Trace, op: Operation, idle: Idle, writes: list[list[int]]) -> bool:
    maker, count = idle.written or 0, len(trace.operations)
    for index in op.reads:
        lifetime = trace.lifetimes()[index]
        there = trace.tensors[index].is_global or lifetime.start <= maker < idle.next < min(lifetime.end, count)
        if index in op.writes or not there or any(maker <= at < idle.next for at in writes[index]):
            return False
    return not any(trace.tensors[index].is_global for index in op.writes)


def with_recomputed(trace: Trace, again: Iterable[Again]) -> Trace:
    """The trace in which each of these is dropped and made again. They must come from `can_recompute`, no tensor twice,
    and none may be read by an operation that runs again for another."""
    tensors, count = list(trace.tensors), len(trace.operations)
    before: list[list[Operation]] = [[] for _ in range(count)]
    renamed: dict[int, list[tuple[int, int]]] = {}
    for each in again:
        op = trace.operations[each.maker]
        fresh: dict[int, int] = {}
        for index in op.writes:
            fresh[index] = len(tensors)
            old = trace.tensors[index]
            tensors.append(Tensor(f"{old.name} again", old.size))
        renamed.setdefault(each.tensor, []).append((each.next, fresh[each.tensor]))
        before[each.next].append(
            replace(op, name=f"{op.name} again", writes=tuple(fresh[index] for index in op.writes))
        )

    def now(index: int, at: int) -> int:
        made = [new for since, new in renamed.get(index, ()) if at >= since]
        return made[-1] if made else index

    operations = [
        [*before[at], replace(op, reads=_all(op.reads, at, now), writes=_all(op.writes, at, now))]
        for at, op in enumerate(trace.operations)
    ]
    return Trace(trace.name, tuple(tensors), tuple(chain.from_iterable(operations)))


def _all(indices: tuple[int, ...], at: int, now: Callable[[int, int], int]) -> tuple[int, ...]:
    return tuple(now(index, at) for index in indices)


def search_recomputing(trace: Trace, machine: Machine, known: Known) -> Recomputed:
    """The best found with and without recomputing: of all that can be made again, those of the least seconds a byte,
    twice as many each time, as long as that is faster. Raises `MemoryPlanError` as `search` does."""
    best = _tried(trace, machine, ())
    candidates = _cheapest(trace, known)
    number = 1
    while best.run.seconds > trace.seconds * (1 + GOOD) and number < 2 * len(candidates):
        tried = _tried(trace, machine, tuple(candidates[:number]))
        if tried.run.seconds < best.run.seconds:
            best = tried
        elif best.again and number >= 4 * len(best.again):
            break
        number *= 2
    return best


def _cheapest(trace: Trace, known: Known) -> list[Again]:
    """Those that can go together, the least seconds a byte first."""
    order = sorted(
        can_recompute(trace, known),
        key=lambda each: (
            trace.operations[each.maker].seconds / trace.tensors[each.tensor].size,
            each.maker,
            each.next,
        ),
    )
    taken: dict[int, Again] = {}
    read: set[int] = set()
    for each in order:
        reads = trace.operations[each.maker].reads
        if each.tensor not in taken and each.tensor not in read and not any(index in taken for index in reads):
            taken[each.tensor] = each
            read.update(reads)
    return list(taken.values())


def _tried(trace: Trace, machine: Machine, again: tuple[Again, ...]) -> Recomputed:
    changed = with_recomputed(trace, again) if again else trace
    schedule = search(changed, machine, rounds=0, trials=0, others=())
    run = replace(simulate(changed, schedule, machine), ideal_seconds=trace.seconds)
    return Recomputed(changed, again, schedule, run)
