"""Which elements of a dimension accesses take: from where to where, and in which steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, SSAValue

from ..analysis.integer_sums import IntegerSum, integer_sum
from ..dialect import AccessOp, KernelOp, PositionOp, RangeOp, SizeOp
from .loops import Loop
from .visits import Sum


@dataclass(frozen=True)
class Elements:
    """Elements of a dimension: from the first to the last one, those of the first's remainder by `step`."""

    first: int
    last: int
    step: int = 1

    def meet(self, other: Elements) -> bool:
        """Whether the two may have an element in common."""
        step = gcd(self.step, other.step)
        apart = self.last < other.first or other.last < self.first
        return not apart and (step < 2 or (self.first - other.first) % step == 0)

    def lie_between(self, other: Elements) -> bool:
        """Whether some elements of the one are before the last and after the first of the other."""
        return self.first <= other.last and other.first <= self.last

    @property
    def count(self) -> int:
        return (self.last - self.first) // max(1, self.step) + 1


def index_sums(op: AccessOp) -> tuple[Sum | None, ...]:
    """The index of each dimension as a sum of positions and sizes; None where it is none."""
    return tuple(_index_sum(op, number) for number in range(len(op.index)))


def elements_taken(index: Sum | None, extents: Mapping[str, int], sizes: Mapping[str, int]) -> Elements | None:
    """The elements of a dimension that all positions together take; None if that is not known."""
    if index is None or any(name not in sizes for name, _ in index.sizes):
        return None
    first = last = index.constant + sum(factor * sizes[name] for name, factor in index.sizes)
    for axis, factor in index.positions:
        if axis not in extents:
            return None
        reach = factor * (max(1, extents[axis]) - 1)
        first, last = first + min(0, reach), last + max(0, reach)
    return Elements(first, last, gcd(*(abs(factor) for _, factor in index.positions)))


Region = tuple[str, int]
"""A tensor or a home, and the number of a part of it that no other access is between."""
_Index = tuple[Sum | None, ...]


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of a kernel's tensors. `numbers`: of each index, by tensor; where there is but one, none."""

    numbers: Mapping[str, Mapping[_Index, int]] = field(default_factory=dict)
    _of_loops: dict[Loop, tuple[Region, ...]] = field(default_factory=dict)

    def of(self, loop: Loop) -> tuple[Region, ...]:
        """What each access of a loop takes elements of."""
        if loop not in self._of_loops:
            self._of_loops[loop] = tuple(
                (touch.place, self.numbers.get(touch.place, {}).get(touch.index, 0)) for _, touch in loop.touches
            )
        return self._of_loops[loop]


def regions_of(kernel: KernelOp, extents: Mapping[str, int], sizes: Mapping[str, int]) -> Regions:
    """The regions of a kernel's tensors for the sizes of a call."""
    names = dict(zip(kernel.body.block.args, (p.data for p in kernel.parameters), strict=True))
    indices: dict[str, dict[_Index, None]] = {}
    for op in kernel.walk():
        if isinstance(op, AccessOp) and isinstance(op.base, BlockArgument) and op.base in names:
            indices.setdefault(names[op.base], {})[index_sums(op)] = None
    return Regions({name: _regions(list(each), extents, sizes) for name, each in indices.items() if len(each) > 1})


def _regions(indices: Sequence[_Index], extents: Mapping[str, int], sizes: Mapping[str, int]) -> dict[_Index, int]:
    """The region of a tensor that each index takes elements of, by number. Regions have no element between those of
    another in every dimension: lines that the one fetched hold nothing of the other."""
    found: dict[_Index, int] = {}
    taken = {index: [elements_taken(each, extents, sizes) for each in index] for index in dict.fromkeys(indices)}
    for index, mine in taken.items():
        beside = {number for other, number in found.items() if _lie_between(mine, taken[other])}
        joined = min(beside, default=len(found))
        found = {other: joined if number in beside else number for other, number in found.items()}
        found[index] = joined
    return found


def _lie_between(one: Sequence[Elements | None], other: Sequence[Elements | None]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(mine is None or theirs is None or mine.lie_between(theirs) for mine, theirs in pairs)


def _index_sum(op: AccessOp, number: int) -> Sum | None:
    offset = op.offset_of(number)
    if offset is not None and isinstance(offset.type, TensorType) and not _is_affine_tile(offset):
        return None
    total = _without_loops(IntegerSum() if offset is None else integer_sum(offset))
    if total is None:
        return None
    constant, positions, sizes = total
    for axis, factor in op.index.data[number].terms:
        positions[axis] = positions.get(axis, 0) + factor
    kept = tuple(sorted((axis, factor) for axis, factor in positions.items() if factor))
    return Sum(constant, kept, tuple(sorted(sizes.items())))


def _is_affine_tile(offset: SSAValue) -> bool:
    """Whether a tile of offsets is computed from positions alone."""
    return all(isinstance(unknown.value.owner, PositionOp | SizeOp) for unknown, _ in integer_sum(offset).unknowns)


def _without_loops(total: IntegerSum) -> tuple[int, dict[str, int], dict[str, int]] | None:
    """A sum's constant, its positions of axes and loops, and its sizes; None where there is anything else in it."""
    constant, positions, sizes = total.number, dict[str, int](), dict[str, int]()
    for unknown, factor in total.unknowns:
        value = unknown.value
        if isinstance(op := value.owner, SizeOp):
            sizes[op.size.data] = sizes.get(op.size.data, 0) + factor
        elif isinstance(op, PositionOp):
            positions[op.axis.data] = positions.get(op.axis.data, 0) + factor
        else:
            loop = value.block.parent_op() if isinstance(value, BlockArgument) else None
            if not isinstance(loop, RangeOp) or loop.is_ragged or loop.position is not value:
                return None
            start = _without_loops(integer_sum(loop.start))
            if start is None:
                return None
            positions[loop.axis.data] = positions.get(loop.axis.data, 0) + factor
            constant += factor * start[0]
            for name, times in start[1].items():
                positions[name] = positions.get(name, 0) + factor * times
            for name, times in start[2].items():
                sizes[name] = sizes.get(name, 0) + factor * times
    return constant, positions, sizes
