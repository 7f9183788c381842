"""What one iteration of a program does with memory: its operations in order, and the tensors they read and write.

All sizes are bytes, all times seconds. Tensors are named by their index in `MemoryTrace.tensors`, moments by the
index of an operation in `MemoryTrace.operations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from math import isfinite

from vkernels.ir.errors import TraceError

from .strict_json import Name, Number, Record, Whole

MAX_SIZE = 1 << 60
"""Bytes that a tensor, or all together, may have."""


class TracedTensor(Record, frozen=True, rename={"is_global": "global"}):
    """A piece of memory that operations read and write: a storage, whatever views there are of it.

    `is_global`: exists before and after the iteration (weights, optimiser state, buffers); else made in it.
    `freed`: the operation before which the program frees it; a number beyond the last operation is in the next
    iteration (`count + 2`: before operation 2 of that). None: right after its last use.
    `made`: the operation that makes it; uses before that are of the previous iteration's tensor. None: the first
    operation that writes it, or the first that uses it if none writes it (an input).
    """

    name: Name
    size: Whole
    is_global: bool = False
    freed: Whole | None = None
    made: Whole | None = None


class Operation(Record, frozen=True):
    """One step of the program. `scratch`: temporary bytes while it runs."""

    name: Name
    seconds: Number
    reads: tuple[Whole, ...]
    writes: tuple[Whole, ...]
    scratch: Whole = 0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a tensor takes room: from operation `start` until before operation `end`.

    An `end` beyond the number of operations wraps: the tensor lives into the next iteration, and at the same time the
    one of the iteration before lives in this. It never takes room twice: `end - start` is at most a whole iteration.
    """

    start: int
    end: int
    size: int

    def spans(self, count: int) -> tuple[tuple[int, int], ...]:
        """The pieces, `(start, end)`, of one iteration of `count` operations in which it takes room."""
        if self.end <= count:
            return ((self.start, self.end),)
        return ((0, self.end - count), (self.start, count))


@dataclass(frozen=True)
class MemoryTrace:
    """One iteration, which repeats. Raises `TraceError` where tensors and operations contradict each other.

    A tensor that is not global, and is read before it is made, was made by the iteration before.
    """

    name: str
    tensors: tuple[TracedTensor, ...]
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        _ = self._lifetimes  # looks at everything

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """When each tensor takes room, in the tensors' order."""
        return self._lifetimes

    def blocks(self) -> tuple[Lifetime, ...]:
        """All that takes room: the tensors' lifetimes, and after them one for each operation's scratch."""
        scratch = (Lifetime(at, at + 1, op.scratch) for at, op in enumerate(self.operations) if op.scratch)
        return (*self._lifetimes, *scratch)

    def live(self) -> list[int]:
        """Bytes that are live during each operation, its scratch included."""
        return live_bytes(self.blocks(), len(self.operations))

    @cached_property
    def peak(self) -> int:
        """The most bytes live at once: no pool can be smaller."""
        return max(self.live())

    @property
    def seconds(self) -> float:
        """What the operations take one after another: the time with memory enough."""
        return sum(op.seconds for op in self.operations)

    @cached_property
    def uses(self) -> tuple[tuple[int, ...], ...]:
        """The operations that read or write each tensor, ascending."""
        found: list[list[int]] = [[] for _ in self.tensors]
        for at, op in enumerate(self.operations):
            for index in {*op.reads, *op.writes}:
                found[index].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def _lifetimes(self) -> tuple[Lifetime, ...]:
        check_tensors(self.tensors)
        check_operations(self.operations, len(self.tensors))
        writes: list[int | None] = [None] * len(self.tensors)
        for at, op in enumerate(self.operations):
            for index in op.writes:
                if writes[index] is None:
                    writes[index] = at
        return tuple(map(self._lifetime, range(len(self.tensors)), writes))

    def _lifetime(self, index: int, written: int | None) -> Lifetime:
        """Of a tensor that operation `written` is the first to write."""
        tensor, uses, count = self.tensors[index], self.uses[index], len(self.operations)
        if tensor.is_global:
            return Lifetime(0, count, tensor.size)
        if not uses:
            raise TraceError("no operation uses it, and it is not global", ("tensors", index))
        start = self._made(index, written)
        before = [at for at in uses if at < start]
        end = 1 + (count + before[-1] if before else uses[-1])
        freed = end if tensor.freed is None else tensor.freed
        if freed < end:
            raise TraceError(f"it is freed before operation {freed}, and used after that", ("tensors", index, "freed"))
        if freed > start + count:
            raise TraceError("it lives longer than a whole iteration", ("tensors", index, "freed"))
        return Lifetime(start, freed, tensor.size)

    def _made(self, index: int, written: int | None) -> int:
        made, first = self.tensors[index].made, self.uses[index][0]
        if made is not None:
            _expect(made in self.uses[index], f"operation {made} does not use it", ("tensors", index, "made"))
            return made
        if written is None:
            return first
        unclear = first < written and index in self.operations[written].reads
        _expect(not unclear, f"whether operation {written} makes it or only changes it is unclear", ("tensors", index))
        return written


def live_bytes(lifetimes: tuple[Lifetime, ...], count: int) -> list[int]:
    """Bytes live during each of `count` operations."""
    steps = [0] * (count + 1)
    for each in lifetimes:
        for start, end in each.spans(count):
            steps[start] += each.size
            steps[end] -= each.size
    return list(accumulate(steps[:-1]))


def check_tensors(tensors: tuple[TracedTensor, ...]) -> None:
    """Raises `TraceError` for a tensor that none can be."""
    total = 0
    for index, tensor in enumerate(tensors):
        at = ("tensors", index)
        _expect(0 <= tensor.size <= MAX_SIZE, "a size is from 0 to 2**60 bytes", (*at, "size"))
        for field, value in (("made", tensor.made), ("freed", tensor.freed)):
            _expect(value is None or not tensor.is_global, f"what is global is never {field}", (*at, field))
        total += tensor.size
    _expect(total <= MAX_SIZE, "all tensors together are larger than 2**60 bytes", ("tensors",))


def check_operations(operations: tuple[Operation, ...], tensors: int) -> None:
    """Raises `TraceError` for an operation that none can be, or that uses a tensor that is not there."""
    _expect(bool(operations), "there are no operations", ("operations",))
    for index, op in enumerate(operations):
        at = ("operations", index)
        _expect(isfinite(op.seconds) and op.seconds >= 0, "seconds are from 0, and finite", (*at, "seconds"))
        _expect(0 <= op.scratch <= MAX_SIZE, "scratch is from 0 to 2**60 bytes", (*at, "scratch"))
        for field, used in (("reads", op.reads), ("writes", op.writes)):
            _expect(len(set(used)) == len(used), "a tensor stands twice", (*at, field))
        for field, tensor in _uses(op):
            _expect(0 <= tensor < tensors, f"there is no tensor {tensor}: there are {tensors}", (*at, field))


def _uses(op: Operation) -> Iterator[tuple[str, int]]:
    return chain((("reads", each) for each in op.reads), (("writes", each) for each in op.writes))


def _expect(holds: bool, message: str, at: tuple[str | int, ...]) -> None:
    if not holds:
        raise TraceError(message, at)
