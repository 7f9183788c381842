"""Accesses that are guarded along the lanes though few chunks are out of range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Operation, SSAValue

from ...dialect import AccessOp, LoadOp, MappedOp, SizeOp, StoreOp, sizes_of
from .candidate import Candidate, Version
from .scalars import Scalar, Scalars, Truth


@dataclass(frozen=True, eq=False)
class GuardedAccess(Candidate):
    """A load or store whose lanes are not neighbours in order: masks of these need more than a comparison.

    `sizes`: the size of each guarded dimension.
    """

    sizes: dict[int, SSAValue | int]

    @property
    def scalars(self) -> Sequence[SSAValue]:
        values = [*self.op.bounds.values(), *self.sizes.values(), *(self.op.offset_of(d) for d in self.sizes)]
        return [value for value in values if isinstance(value, SSAValue)]

    def version(self, scalars: Scalars) -> Version:
        inside: Truth = True
        for dimension, size in self.sizes.items():
            low, high = self._range(dimension, scalars)
            known = size if isinstance(size, int) else scalars.known(size)
            inside = scalars.both(inside, scalars.is_at_least(low, 0))
            inside = scalars.both(inside, scalars.is_at_least(scalars.subtract(known, 1), high))
        return _Unguarded(self.op, inside, None)

    def _range(self, dimension: int, scalars: Scalars) -> tuple[Scalar, Scalar]:
        """The least and the greatest index of active positions."""
        offset = self.op.offset_of(dimension)
        low: Scalar = 0 if offset is None else scalars.known(offset)
        high = low
        for axis, factor in self.op.index.data[dimension].terms:
            size, bound = sizes_of(self.op.tile)[axis], self.op.bounds.get(axis)
            count = size if bound is None else scalars.least(scalars.known(bound), size)
            moved = scalars.times(scalars.subtract(count, 1), factor)
            low, high = (scalars.add(low, moved), high) if factor < 0 else (low, scalars.add(high, moved))
        return low, high


@dataclass(frozen=True, eq=False)
class _Unguarded(Version):
    def make_straight(self, op: AccessOp, scalars: Scalars) -> None:
        op.guarded = DenseArrayBase.from_list(i64, [])


def guarded_access(op: Operation, lanes: str, mapped: MappedOp) -> GuardedAccess | None:
    """An access that can have versions; None for others."""
    if not isinstance(op, LoadOp | StoreOp) or (isinstance(op, StoreOp) and op.atomic is not None):
        return None
    factors = [dict(op.index.data[d].terms).get(lanes, 0) for d in op.guarded_dimensions]
    if all(factor in (0, 1) for factor in factors):
        return None
    sizes: dict[int, SSAValue | int] = {}
    for dimension in op.guarded_dimensions:
        size, offset = op.memory.shape[dimension], op.offset_of(dimension)
        found = size_of_dimension(str(size), mapped)
        if found is None or (offset is not None and isinstance(offset.type, TensorType)):
            return None
        sizes[dimension] = found
    return GuardedAccess(op, sizes)


def size_of_dimension(name: str, mapped: MappedOp) -> SSAValue | int | None:
    if name.isdigit():
        return int(name)
    return next((op.result for op in mapped.body.block.ops if isinstance(op, SizeOp) and op.size.data == name), None)
