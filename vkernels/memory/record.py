"""One iteration of a torch program as a trace: run as it is, and watched through torch's dispatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from vkernels.ir.errors import ArgumentError, TraceError

from .recorded import Iteration, Made, Storage, Watched
from .trace import MemoryTrace, Operation, TracedTensor


def record(step: Callable[[], object], name: str = "step", warm_up: int = 1) -> MemoryTrace:
    """Runs `step` `warm_up` times, and twice more under watch; the trace is of the last.

    `step` is one whole iteration: forward, backward and optimiser, or any other program on torch's tensors, on the CPU
    or CUDA. Tensors are told apart by their storage: a view takes no room and is no operation. What was there before
    the watched iterations is global; what is made in one and freed in the next lives across both. Memory that a kernel
    takes only while it runs is not seen: `scratch` is 0.

    Raises `TraceError` where the two iterations differ, or a tensor has no storage to tell it by; `ArgumentError` for
    a `warm_up` under 0. What `step` raises goes through.
    """
    from .op_tracer import Watch

    if warm_up < 0:
        raise ArgumentError(f"warm_up: expected at least 0, got {warm_up}")
    for _ in range(warm_up):
        step()
    with Watch() as watch:
        for _ in range(2):
            step()
            watch.end_iteration()
    return trace_of(watch.watched, name)


@dataclass(frozen=True)
class Recorded:
    """A trace, and of each operation the tensors that it reads and writes, in the order in which torch named them.

    `tensors`: of storages, by their index in what was watched; those of the iteration before are left out. `outside`:
    what the program itself took before each operation, and after the last, in seconds. `kinds`: of device, by tensor.
    """

    trace: MemoryTrace
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    tensors: dict[int, int]
    outside: tuple[float, ...]
    kinds: tuple[str, ...]

    def trace_on(self, kind: str) -> MemoryTrace:
        """The trace as one kind of device sees it: tensors of other devices take one byte."""
        pairs = zip(self.trace.tensors, self.kinds, strict=True)
        tensors = (each if on == kind else structs.replace(each, size=1) for each, on in pairs)
        return replace(self.trace, tensors=tuple(tensors))


def trace_of(watched: Watched, name: str) -> MemoryTrace:
    """The trace of the last of two iterations. Raises `TraceError` where they differ."""
    return recorded_of(watched, name).trace


def recorded_of(watched: Watched, name: str) -> Recorded:
    """The last of two iterations. Raises `TraceError` where they differ."""
    before, last = watched.iterations
    _check_same(before, last, watched.storages)
    made = _Tensors(watched, len(last.operations))
    all_reads, all_writes, operations = [], [], []
    for at, op in enumerate(last.operations):
        reads, writes = made.numbers(op.reads), made.numbers(op.writes)
        all_reads.append(tuple(reads))
        all_writes.append(tuple(writes))
        writes += [made.held_over[n] for n in writes if n in made.held_over and made.tensors[n].made == at]
        operations.append(Operation(op.name, op.seconds, tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))))
    trace = MemoryTrace(name, tuple(made.tensors), tuple(operations))
    outside = (*(op.outside for op in last.operations), last.outside)
    return Recorded(trace, tuple(all_reads), tuple(all_writes), made.of_storages(), outside, tuple(made.kinds))


def _check_same(before: Iteration, last: Iteration, storages: list[Storage]) -> None:
    for at, (one, other) in enumerate(zip(before.operations, last.operations, strict=False)):
        if one.name != other.name:
            raise TraceError(f"iterations differ: operation {at} was {one.name}, then {other.name}")
        sizes = [[storages[n].size for n in (*op.reads, *op.writes)] for op in (one, other)]
        if sizes[0] != sizes[1]:
            raise TraceError(f"iterations differ: operation {at}, {one.name}, had tensors of other sizes")
    counts = len(before.operations), len(last.operations)
    if counts[0] != counts[1]:
        raise TraceError(f"iterations differ: {counts[0]} operations, then {counts[1]}")
    if not counts[0]:
        raise TraceError("there was no operation on a tensor")


class _Tensors:
    """Numbers the tensors of the last iteration. A storage that the iteration before made is the tensor that this one
    makes in its place."""

    def __init__(self, watched: Watched, count: int):
        self.tensors: list[TracedTensor] = []
        self.kinds: list[str] = []
        self.held_over: dict[int, int] = {}
        """For a tensor that lives longer than an iteration, the one that stands for its end."""
        self._watched, self._count = watched, count
        self._makers = {s.made: s for s in watched.storages if s.made is not None}
        self._used_before = {n for op in watched.iterations[0].operations for n in (*op.reads, *op.writes)}
        self._numbers: dict[Any, int] = {}

    def numbers(self, storages: tuple[int, ...]) -> list[int]:
        """The tensors of storages."""
        return [self._number(n) for n in storages]

    def of_storages(self) -> dict[int, int]:
        """The tensor of each storage that was there before, or that this iteration made."""
        found = {}
        for index, storage in enumerate(self._watched.storages):
            made = storage.made
            key = index if made is None else (made.operation, made.ordinal)
            if key in self._numbers and (made is None or made.iteration == 1):
                found[index] = self._numbers[key]
        return found

    def _number(self, index: int) -> int:
        storage = self._watched.storages[index]
        key = index if storage.made is None else (storage.made.operation, storage.made.ordinal)
        if key not in self._numbers:
            self._numbers[key] = len(self.tensors)
            if storage.made is None:
                self.tensors.append(self._found(index, storage))
            else:
                self._add_made(storage.made, storage)
            self.kinds += [storage.kind] * (len(self.tensors) - len(self.kinds))
        return self._numbers[key]

    def _found(self, index: int, storage: Storage) -> TracedTensor:
        """A tensor that no operation made: global, or an input that only this iteration has."""
        if storage.freed is None or storage.freed[0] == 0 or index in self._used_before:
            return TracedTensor(f"global {len(self.tensors)}", storage.size, is_global=True)
        operations = self._watched.iterations[1].operations
        first = next(at for at, op in enumerate(operations) if index in (*op.reads, *op.writes))
        return TracedTensor(f"input {len(self.tensors)}", storage.size, freed=storage.freed[1], made=first)

    def _add_made(self, made: Made, storage: Storage) -> None:
        at, number = made.operation, len(self.tensors)
        maker = self._watched.iterations[1].operations[at].name
        freed = self._freed(made)
        name = f"{maker} {at}" + (f".{made.ordinal}" if made.ordinal else "")
        self.tensors.append(TracedTensor(name, storage.size, freed=min(freed, at + self._count), made=at))
        if freed > at + self._count:
            self.held_over[number] = number + 1
            self.tensors.append(TracedTensor(f"{name} held over", storage.size, freed=freed - self._count, made=at))

    def _freed(self, made: Made) -> int:
        """Before which operation, counted from the beginning of the iteration that makes it."""
        last = self._makers.get(Made(1, made.operation, made.ordinal))
        if last is not None and last.freed is not None:
            return last.freed[1]
        before = self._makers.get(Made(0, made.operation, made.ordinal))
        if before is None or before.freed is None:
            return made.operation + self._count  # kept for good: one more each iteration, of which one counts
        return before.freed[0] * self._count + before.freed[1]
