"""The memory use of one iteration of a program: its operations in order, and the tensors they read and write.

Sizes are in bytes, times in seconds. A tensor is an index in `MemoryTrace.tensors`, a moment an index in
`MemoryTrace.operations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import isfinite

from vkernels.ir.errors import TraceError

from .strict_json import Name, Number, Record, Whole

MAX_SIZE = 1 << 60
"""Maximum bytes of a tensor, and of all tensors together."""


class TracedTensor(Record, frozen=True, rename={"is_global": "global"}):
    """A piece of memory that operations read and write: a storage, shared by all of its views.

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
    """One step of the program. `scratch`: temporary bytes while it runs. `source`: the line of the program, such as
    `model.py:12 in forward`, if known; of a backward operation, that of its forward operation."""

    name: Name
    seconds: Number
    reads: tuple[Whole, ...]
    writes: tuple[Whole, ...]
    scratch: Whole = 0
    source: Name = ""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a tensor occupies memory: from operation `start` until before operation `end`.

    An `end` beyond the number of operations wraps: the tensor lives into the next iteration, while that of the previous
    iteration lives in this one. `end - start` is at most a whole iteration.
    """

    start: int
    end: int
    size: int

    def spans(self, count: int) -> tuple[tuple[int, int], ...]:
        """The parts, `(start, end)`, of an iteration of `count` operations in which it occupies memory."""
        if self.end <= count:
            return ((self.start, self.end),)
        return ((0, self.end - count), (self.start, count))


@dataclass(frozen=True)
class MemoryTrace:
    """One iteration, which repeats. Raises `TraceError` where tensors and operations contradict each other.

    A tensor that is not global, and is read before it is made, was made by the previous iteration.
    """

    name: str
    tensors: tuple[TracedTensor, ...]
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        _ = self._lifetimes  # checks everything

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """When each tensor occupies memory, in the tensors' order."""
        return self._lifetimes

    def blocks(self) -> tuple[Lifetime, ...]:
        """The lifetimes of all tensors, then of each operation's scratch."""
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
        """The operations' total time: an iteration with enough memory."""
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
        _check(self)
        first_writes: dict[int, int] = {}
        for at, op in enumerate(self.operations):
            for index in op.writes:
                first_writes.setdefault(index, at)
        return tuple(self._lifetime(index, first_writes.get(index)) for index in range(len(self.tensors)))

    def _lifetime(self, index: int, written: int | None) -> Lifetime:
        """The lifetime of a tensor that operation `written` is the first to write."""
        tensor, uses, count = self.tensors[index], self.uses[index], len(self.operations)
        if tensor.is_global:
            return Lifetime(0, count, tensor.size)
        at = ("tensors", index)
        _expect(bool(uses), "no operation uses it, and it is not global", at)
        start = uses[0] if written is None else written
        if tensor.made is not None:
            start = tensor.made
            _expect(start in uses, f"operation {start} does not use it", (*at, "made"))
        elif uses[0] < start and index in self.operations[start].reads:
            raise TraceError(f"whether operation {start} makes it or only changes it is unclear", at)
        before = [use for use in uses if use < start]
        end = 1 + (count + before[-1] if before else uses[-1])
        freed = end if tensor.freed is None else tensor.freed
        _expect(freed >= end, f"it is freed before operation {freed}, and used after that", (*at, "freed"))
        _expect(freed <= start + count, "it lives longer than a whole iteration", (*at, "freed"))
        return Lifetime(start, freed, tensor.size)


def wrapped(start: int, end: int, size: int, count: int) -> Lifetime:
    """A lifetime between any two moments, as one that starts within an iteration of `count` operations."""
    return Lifetime(start % count, start % count + min(end - start, count), size)


def live_bytes(lifetimes: Iterable[Lifetime], count: int) -> list[int]:
    """Bytes live during each of `count` operations."""
    steps = [0] * (count + 1)
    for each in lifetimes:
        for start, end in each.spans(count):
            steps[start] += each.size
            steps[end] -= each.size
    return list(accumulate(steps[:-1]))


def _check(trace: MemoryTrace) -> None:
    for index, tensor in enumerate(trace.tensors):
        _expect(0 <= tensor.size <= MAX_SIZE, "a size is from 0 to 2**60 bytes", ("tensors", index, "size"))
        for field in ("made", "freed"):
            is_given = getattr(tensor, field) is not None
            _expect(not (is_given and tensor.is_global), f"a global tensor is never {field}", ("tensors", index, field))
    total = sum(tensor.size for tensor in trace.tensors)
    _expect(total <= MAX_SIZE, "all tensors together are larger than 2**60 bytes", ("tensors",))
    _expect(bool(trace.operations), "there are no operations", ("operations",))
    count = len(trace.tensors)
    for index, op in enumerate(trace.operations):
        at = ("operations", index)
        _expect(isfinite(op.seconds) and op.seconds >= 0, "seconds are from 0, and finite", (*at, "seconds"))
        _expect(0 <= op.scratch <= MAX_SIZE, "scratch is from 0 to 2**60 bytes", (*at, "scratch"))
        for field, used in (("reads", op.reads), ("writes", op.writes)):
            _expect(len(set(used)) == len(used), "a tensor stands twice", (*at, field))
            for each in used:
                _expect(0 <= each < count, f"there is no tensor {each}: there are {count}", (*at, field))


def _expect(holds: bool, message: str, at: tuple[str | int, ...]) -> None:
    if not holds:
        raise TraceError(message, at)
