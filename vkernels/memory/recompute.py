"""Tensors that are made again by the operation that made them, instead of being kept or carried away and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from msgspec import structs

from .links import MemoryMachine
from .schedule import Idle, SwapSchedule, idle_times
from .simulate import SimulatedRun, simulate
from .strategies.search import GOOD, search
from .trace import MemoryTrace, Operation, TracedTensor

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

    trace: MemoryTrace
    again: tuple[Again, ...]
    schedule: SwapSchedule
    run: SimulatedRun


def can_recompute(trace: MemoryTrace, known: Known) -> Iterator[Again]:
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
        if lifetime.end > len(trace.operations):
            continue
        if writes[idle.tensor] == [maker] and _repeatable(trace, op, idle, writes) and known(op):
            yield Again(idle.tensor, maker, idle.last, idle.next)


def _repeatable(trace: MemoryTrace, op: Operation, idle: Idle, writes: list[list[int]]) -> bool:
    maker, count = idle.written or 0, len(trace.operations)
    for index in op.reads:
        lifetime = trace.lifetimes()[index]
        there = trace.tensors[index].is_global or lifetime.start <= maker < idle.next < min(lifetime.end, count)
        if index in op.writes or not there or any(maker <= at < idle.next for at in writes[index]):
            return False
    return not any(trace.tensors[index].is_global for index in op.writes)


def with_recomputed(trace: MemoryTrace, again: Sequence[Again]) -> MemoryTrace:
    """The trace in which each of these is dropped and made again. They must come from `can_recompute`, no tensor twice,
    and none may be read by an operation that runs again for another."""
    count = len(trace.operations)
    added = [0] * count
    for each in again:
        added[each.next] += 1
    moments = _Moments(added)
    tensors = [moments.moved(tensor) for tensor in trace.tensors]
    before: list[list[Operation]] = [[] for _ in range(count)]
    renamed: dict[int, tuple[int, int]] = {}
    for each in again:
        op, fresh = trace.operations[each.maker], dict[int, int]()
        for index in op.writes:
            fresh[index] = len(tensors)
            tensors.append(TracedTensor(f"{trace.tensors[index].name} again", trace.tensors[index].size))
        made = fresh[each.tensor]
        tensors[made] = structs.replace(tensors[made], freed=tensors[each.tensor].freed)
        tensors[each.tensor] = structs.replace(tensors[each.tensor], freed=None)
        renamed[each.tensor] = (each.next, made)
        before[each.next].append(structs.replace(op, name=f"{op.name} again", writes=tuple(fresh.values())))

    def now(index: int, at: int) -> int:
        since, made = renamed.get(index, (count, index))
        return made if at >= since else index

    operations = [
        [*before[at], structs.replace(op, reads=_all(op.reads, at, now), writes=_all(op.writes, at, now))]
        for at, op in enumerate(trace.operations)
    ]
    return MemoryTrace(trace.name, tuple(tensors), tuple(chain.from_iterable(operations)))


class _Moments:
    """Where operations stand when others have been added before some of them."""

    def __init__(self, added: list[int]):
        self.added, self.count = added, len(added)
        self.more = [0, *accumulate(added)]

    def moved(self, tensor: TracedTensor) -> TracedTensor:
        made = None if tensor.made is None else tensor.made + self.more[tensor.made + 1]
        return structs.replace(tensor, made=made, freed=None if tensor.freed is None else self._freed(tensor.freed))

    def _freed(self, moment: int) -> int:
        """Given back before what was added in front of the operation: nothing that was added reads it."""
        turns, at = divmod(moment, self.count)
        return turns * (self.count + self.more[-1]) + at + self.more[at]


def _all(indices: tuple[int, ...], at: int, now: Callable[[int, int], int]) -> tuple[int, ...]:
    return tuple(now(index, at) for index in indices)


def search_recomputing(trace: MemoryTrace, machine: MemoryMachine, known: Known) -> Recomputed:
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


def _cheapest(trace: MemoryTrace, known: Known) -> list[Again]:
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


def _tried(trace: MemoryTrace, machine: MemoryMachine, again: tuple[Again, ...]) -> Recomputed:
    changed = with_recomputed(trace, again) if again else trace
    schedule = search(changed, machine, rounds=0, trials=0, others=())
    run = replace(simulate(changed, schedule, machine), ideal_seconds=trace.seconds)
    return Recomputed(changed, again, schedule, run)
