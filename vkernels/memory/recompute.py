"""Recompute tensors by the operation that made them, instead of keeping or swapping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from msgspec import structs

from .links import MemoryMachine
from .schedule import Idle, SwapSchedule, idle_times
from .simulate import SimulatedRun, simulate
from .strategies.search import GOOD, Strategy, search
from .trace import MemoryTrace, Operation, TracedTensor

Known = Callable[[Operation], bool]
"""Whether an operation may run again: it is deterministic, and has no effects but writing its tensors."""


@dataclass(frozen=True)
class Again:
    """`tensor` is dropped after operation `last`; operation `maker` runs again before operation `next`."""

    tensor: int
    maker: int
    last: int
    next: int


@dataclass(frozen=True)
class Recomputed:
    """The trace with operations run again, and its schedule. `run.ideal_seconds` is of the original trace."""

    trace: MemoryTrace
    again: tuple[Again, ...]
    schedule: SwapSchedule
    run: SimulatedRun


def can_recompute(trace: MemoryTrace, known: Known) -> Iterator[Again]:
    """Each idle time that recomputing can bridge.

    The operation that made the tensor is known and the only one that writes it, it writes no global tensor, and
    everything that it reads is still unchanged.
    """
    count, lifetimes = len(trace.operations), trace.lifetimes()
    writes: list[list[int]] = [[] for _ in trace.tensors]
    for at, op in enumerate(trace.operations):
        for index in op.writes:
            writes[index].append(at)
    for idle in idle_times(trace):
        maker = idle.written
        if maker is None or maker < 0 or idle.next >= count or trace.tensors[idle.tensor].is_global:
            continue
        op = trace.operations[maker]
        if lifetimes[idle.tensor].end > count or writes[idle.tensor] != [maker]:
            continue
        if _is_repeatable(trace, maker, idle, writes) and known(op):
            yield Again(idle.tensor, maker, idle.last, idle.next)


def _is_repeatable(trace: MemoryTrace, maker: int, idle: Idle, writes: list[list[int]]) -> bool:
    op, count = trace.operations[maker], len(trace.operations)
    for index in op.reads:
        lifetime = trace.lifetimes()[index]
        lives = lifetime.start <= maker < idle.next < min(lifetime.end, count)
        if index in op.writes or not (lives or trace.tensors[index].is_global):
            return False
        if any(maker <= at < idle.next for at in writes[index]):
            return False
    return not any(trace.tensors[index].is_global for index in op.writes)


def with_recomputed(trace: MemoryTrace, again: Sequence[Again]) -> MemoryTrace:
    """Return the trace in which each of these tensors is dropped and recomputed.

    They must come from `can_recompute`, with no tensor twice, and none may be read by another's operation.
    """
    count = len(trace.operations)
    added = [0] * count
    for each in again:
        added[each.next] += 1
    more = [0, *accumulate(added)]

    def moved(tensor: TracedTensor) -> TracedTensor:
        """The tensor with its moments in the new trace; it is freed before the operations added at that moment."""
        made = None if tensor.made is None else tensor.made + more[tensor.made + 1]
        if tensor.freed is None:
            return structs.replace(tensor, made=made)
        turns, at = divmod(tensor.freed, count)
        return structs.replace(tensor, made=made, freed=turns * (count + more[-1]) + at + more[at])

    tensors = [moved(tensor) for tensor in trace.tensors]
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
    operations: list[Operation] = []
    for at, op in enumerate(trace.operations):
        now = {index: made for index, (since, made) in renamed.items() if at >= since}
        reads, writes = (tuple(now.get(index, index) for index in used) for used in (op.reads, op.writes))
        operations += [*before[at], structs.replace(op, reads=reads, writes=writes)]
    return MemoryTrace(trace.name, tuple(tensors), tuple(operations))


def search_recomputing(trace: MemoryTrace, machine: MemoryMachine, known: Known) -> Recomputed:
    """Return the best schedule found with and without recomputing. Raises `MemoryPlanError` as `search` does.

    It recomputes the cheapest tensors by seconds a byte, twice as many each time, as long as that is faster; then the
    whole search runs for the best number of them and for none, so that the result is never worse than that of `search`.
    """
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
    if best.run.seconds <= trace.seconds * (1 + GOOD):
        return best
    whole = [_tried(trace, machine, again, search) for again in {(): None, best.again: None}]
    return min((*whole, best), key=lambda each: each.run.seconds)


def _cheapest(trace: MemoryTrace, known: Known) -> list[Again]:
    """Those that do not exclude each other, the least seconds a byte first."""

    def cost(each: Again) -> tuple[float, int, int]:
        return trace.operations[each.maker].seconds / trace.tensors[each.tensor].size, each.maker, each.next

    taken: dict[int, Again] = {}
    read: set[int] = set()
    for each in sorted(can_recompute(trace, known), key=cost):
        reads = trace.operations[each.maker].reads
        if each.tensor not in taken and each.tensor not in read and not any(index in taken for index in reads):
            taken[each.tensor] = each
            read.update(reads)
    return list(taken.values())


def _quickly(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    return search(trace, machine, rounds=0, trials=0, others=())


def _tried(
    trace: MemoryTrace, machine: MemoryMachine, again: tuple[Again, ...], strategy: Strategy = _quickly
) -> Recomputed:
    changed = with_recomputed(trace, again) if again else trace
    schedule = strategy(changed, machine)
    run = replace(simulate(changed, schedule, machine), ideal_seconds=trace.seconds)
    return Recomputed(changed, again, schedule, run)
