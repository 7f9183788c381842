"""Record one iteration of a torch program as a trace, by torch's dispatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from msgspec import structs

from vkernels.ir.errors import ArgumentError, TraceError

from .op_tracer import Iteration, Made, OpTracer, Storage, Watched
from .source_lines import SourceLines, named_storages
from .trace import MemoryTrace, Operation, TracedTensor

MAX_NAME = 500
"""Letters of a tensor's name."""


def record(step: Callable[[], object], name: str = "step", warm_up: int = 1) -> MemoryTrace:
    """Run `step` `warm_up` times, then twice while recording; return the trace of the last run.

    `step` is one whole iteration: forward, backward and optimiser, or any other program on torch's tensors, on the CPU
    or CUDA. Tensors are identified by their storage: a view needs no memory and is no operation. Tensors that exist
    before the recorded iterations are global; a tensor that is made in one and freed in the next lives across both.
    Memory that a kernel uses only while it runs is not recorded: `scratch` is 0. Operations have the lines of the
    program, and tensors the names of the parameters, buffers and optimiser states that the step's names hold.

    Raises `TraceError` if the two iterations differ, or a tensor has no storage; `ArgumentError` for a `warm_up` under
    0. Exceptions of `step` pass through.
    """
    if warm_up < 0:
        raise ArgumentError(f"warm_up: expected at least 0, got {warm_up}")
    for _ in range(warm_up):
        step()
    with OpTracer(SourceLines()) as tracer:
        for _ in range(2):
            step()
            tracer.set_names(named_storages(step))
            tracer.end_iteration()
    return recorded_of(tracer.watched, name).trace


@dataclass(frozen=True)
class Recorded:
    """A trace, and the tensors that each operation reads and writes, in torch's order.

    `tensors`: by the index of their storage, without those of the previous iteration. `outside`: seconds of the program
    before each operation, and after the last. `kinds`: of device, by tensor. `held_over`: tensors that outlive an
    iteration: from where its successor is made, the next number stands for one.
    """

    trace: MemoryTrace
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    tensors: dict[int, int]
    outside: tuple[float, ...]
    kinds: tuple[str, ...]
    held_over: frozenset[int]

    def trace_on(self, kind: str) -> MemoryTrace:
        """The trace as one kind of device sees it: tensors of other devices take one byte."""
        pairs = zip(self.trace.tensors, self.kinds, strict=True)
        tensors = (each if on == kind else structs.replace(each, size=1) for each, on in pairs)
        return replace(self.trace, tensors=tuple(tensors))


def recorded_of(watched: Watched, name: str) -> Recorded:
    """Return the last of two iterations. Raises `TraceError` if they differ."""
    before, last = watched.iterations
    _check_same(before, last, watched.storages)
    made = _Tensors(watched)
    reads: list[tuple[int, ...]] = []
    writes: list[tuple[int, ...]] = []
    operations = []
    for at, op in enumerate(last.operations):
        reads.append(tuple(made.number(n, at) for n in op.reads))
        writes.append(tuple(made.number(n, at) for n in op.writes))
        held_over = (n + 1 for n in writes[-1] if n in made.held_over and made.tensors[n].made == at)
        unique = tuple(dict.fromkeys(reads[-1])), tuple(dict.fromkeys((*writes[-1], *held_over)))
        operations.append(Operation(op.name, op.seconds, *unique, source=op.source))
    trace = MemoryTrace(name, tuple(made.tensors), tuple(operations))
    outside = (*(op.outside for op in last.operations), last.outside)
    return Recorded(
        trace, tuple(reads), tuple(writes), made.of_storages(), outside, tuple(made.kinds), frozenset(made.held_over)
    )  # fmt: skip


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
    """Numbers the tensors of the last iteration. A storage made by the previous iteration is the tensor that this one
    makes in its place. `held_over`: tensors that outlive an iteration; the next number stands for their end."""

    def __init__(self, watched: Watched):
        self.tensors: list[TracedTensor] = []
        self.kinds: list[str] = []
        self.held_over: set[int] = set()
        self._watched, self._operations = watched, watched.iterations[1].operations
        self._makers = {s.made: s for s in watched.storages if s.made is not None}
        self._used_before = {n for op in watched.iterations[0].operations for n in (*op.reads, *op.writes)}
        self._numbers: dict[int | tuple[int, int], int] = {}

    def of_storages(self) -> dict[int, int]:
        """The tensor of each storage that existed before, or that this iteration made."""
        storages = enumerate(self._watched.storages)
        keys = {n: self._key(n) for n, storage in storages if storage.made is None or storage.made.iteration == 1}
        return {n: self._numbers[key] for n, key in keys.items() if key in self._numbers}

    def number(self, index: int, at: int) -> int:
        """The tensor that a storage is at an operation of the last iteration."""
        key = self._key(index)
        if key not in self._numbers:
            self._numbers[key] = len(self.tensors)
            storage = self._watched.storages[index]
            if storage.made is None:
                self.tensors.append(self._found(index, storage))
            else:
                self._add_made(storage.made, storage)
            self.kinds += [storage.kind] * (len(self.tensors) - len(self.kinds))
        number, made = self._numbers[key], self._watched.storages[index].made
        is_old = made is not None and made.iteration == 0 and made.operation <= at and number in self.held_over
        return number + is_old

    def _key(self, index: int) -> int | tuple[int, int]:
        made = self._watched.storages[index].made
        return index if made is None else (made.operation, made.ordinal)

    def _found(self, index: int, storage: Storage) -> TracedTensor:
        """A tensor that no operation made: global, or an input that only this iteration has."""
        if storage.freed is None or storage.freed[0] == 0 or index in self._used_before:
            name = storage.name or f"global {len(self.tensors)}"
            return TracedTensor(name[:MAX_NAME], storage.size, is_global=True)
        first = next(at for at, op in enumerate(self._operations) if index in (*op.reads, *op.writes))
        return TracedTensor(f"input {len(self.tensors)}", storage.size, freed=storage.freed[1], made=first)

    def _add_made(self, made: Made, storage: Storage) -> None:
        at, count = made.operation, len(self._operations)
        name = storage.name[:MAX_NAME] or f"{self._operations[at].name} {at}"
        name += f".{made.ordinal}" if made.ordinal and not storage.name else ""
        last, before = (self._makers.get(Made(n, at, made.ordinal)) for n in (1, 0))
        freed = at + count  # if it is never freed: one more each iteration, of which one counts
        if last is not None and last.freed is not None:
            freed = last.freed[1]
        elif before is not None and before.freed is not None:
            freed = before.freed[0] * count + before.freed[1]
        self.tensors.append(TracedTensor(name, storage.size, freed=min(freed, at + count), made=at))
        if freed > at + count:
            self.held_over.add(len(self.tensors) - 1)
            self.tensors.append(TracedTensor(f"{name} held over", storage.size, freed=freed - count, made=at))
