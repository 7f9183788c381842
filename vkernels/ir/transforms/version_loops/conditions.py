"""When all elements of an access are active, in all iterations of a loop, as scalars before it tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, TensorType, i1, i32, i64
from xdsl.ir import BlockArgument, SSAValue

from ...analysis.accesses import ancestors, is_inside
from ...analysis.piecewise import constant_in
from ...dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    MappedOp,
    MaxOp,
    MinOp,
    PositionOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from ...dialect.combining import constant
from ..version_chunks.guarded import size_of_dimension
from ..version_chunks.pieces import LARGEST, MOST_SCALED, is_small
from ..version_chunks.scalars import Scalar, Scalars, Truth

SLT, SLE, SGT, SGE = 2, 3, 4, 5
"""Predicates of `arith.cmpi`."""
NEGATED = {SLT: SGE, SLE: SGT, SGT: SLE, SGE: SLT}


@dataclass(frozen=True)
class Interval:
    """What a tile's elements, or a scalar, are at least and at most. `scale`: the greatest factor of a number in it."""

    low: Scalar
    high: Scalar
    scale: int = 1


@dataclass
class Conditions:
    """Finds conditions for the accesses of one loop, or for one access alone; their arithmetic is emitted before it.

    `valid`: whether no number that they are made of is huge, so that no sum wraps around. `reduces`: whether tiles that
    are there before may be gone through; else conditions are made of scalars and positions alone.
    """

    loop: scf.ForOp | None
    mapped: MappedOp
    scalars: Scalars
    valid: Truth = True
    reduces: bool = True
    _known: dict[SSAValue, Interval | None] = field(default_factory=dict)

    def all_active(self, op: AccessOp) -> Truth | None:
        """Whether mask and guards hold for all elements within the access's bounds, if `valid`; None if that is not
        known before the loop."""
        found: Truth = True
        if op.mask is not None:
            held = self.holds(op.mask)
            if held is None:
                return None
            found = held
        for dimension in op.guarded_dimensions:
            inside = self._is_inside(op, dimension)
            if inside is None:
                return None
            found = self.scalars.both(found, inside)
        return found

    def _is_inside(self, op: AccessOp, dimension: int) -> Truth | None:
        """Whether a dimension's index is within the tensor for all elements."""
        size, offset = size_of_dimension(str(op.memory.shape[dimension]), self.mapped), op.offset_of(dimension)
        found = Interval(0, 0) if offset is None else self._interval(offset)
        if size is None or found is None:
            return None
        scalars, low, high = self.scalars, found.low, found.high
        for axis, factor in op.index.data[dimension].terms:
            length, bound = sizes_of(op.tile)[axis], op.bounds.get(axis)
            counts = None if bound is None else self._interval(bound)
            count: Scalar = length if counts is None else scalars.least(counts.high, length)
            moved = scalars.times(scalars.subtract(count, 1), factor)
            low, high = (scalars.add(low, moved), high) if factor < 0 else (low, scalars.add(high, moved))
        last = scalars.subtract(size if isinstance(size, int) else scalars.known(size), 1)
        return scalars.both(scalars.is_at_least(low, 0), scalars.is_at_least(last, high))

    def holds(self, mask: SSAValue) -> Truth | None:
        """Whether a mask is true everywhere, if `valid`; None if that is not known."""
        op = mask.owner
        if isinstance(op, BroadcastOp):
            return self.holds(op.source)
        if isinstance(op, arith.AndIOp):
            left, right = self.holds(op.lhs), self.holds(op.rhs)
            return None if left is None or right is None else self.scalars.both(left, right)
        if isinstance(op, arith.OrIOp):
            left, right = self.holds(op.lhs), self.holds(op.rhs)
            return None if left is None or right is None else self.scalars.either(left, right)
        if isinstance(op, BelowOp):
            return self._is_below(op)
        if isinstance(op, arith.CmpiOp) and (found := self._compares(op)) is not None:
            return found
        return self._every(mask) if self._may_reduce(mask) else None

    def fails(self, mask: SSAValue) -> Truth | None:
        """Whether a mask is false everywhere, if `valid`; None if that is not known, as of what is no comparison."""
        op = mask.owner
        if isinstance(op, BroadcastOp):
            return self.fails(op.source)
        if isinstance(op, arith.AndIOp | arith.OrIOp):
            left, right = self.fails(op.lhs), self.fails(op.rhs)
            if left is None or right is None:
                return None
            return (self.scalars.either if isinstance(op, arith.AndIOp) else self.scalars.both)(left, right)
        return self._compares(op, negated=True) if isinstance(op, arith.CmpiOp) else None

    def _is_below(self, op: BelowOp) -> Truth | None:
        count = self._interval(op.count)
        return None if count is None else self.scalars.is_at_least(count.low, sizes_of(op.result)[op.axis.data])

    def _compares(self, op: arith.CmpiOp, negated: bool = False) -> Truth | None:
        predicate, (left, right) = op.predicate.value.data, op.operands
        if predicate not in (SLT, SLE, SGT, SGE):
            return None
        predicate = NEGATED[predicate] if negated else predicate
        if predicate in (SGT, SGE):
            left, right = right, left
        one, other = self._interval(left), self._interval(right)
        if one is None or other is None:
            return None
        most = self.scalars.add(one.high, int(predicate in (SLT, SGT)))
        return self.scalars.is_at_least(other.low, most)

    def _interval(self, value: SSAValue) -> Interval | None:
        """The bounds of integers over all iterations; None if they are not known before the loop."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> Interval | None:
        element, op = element_of(value), value.owner
        if (loop := self._loop_of(value)) is not None:
            return self._positions(loop)
        if (number := constant_in(value)) is not None:
            return Interval(number, number) if abs(number) <= LARGEST else None
        if isinstance(op, BroadcastOp | arith.ExtSIOp):
            return self._interval(op.operands[0])
        if isinstance(op, PositionOp):
            return Interval(0, sizes_of(op.result)[op.axis.data] - 1)
        if element == i64 and isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
            return self._combined(op)
        return self._leaf(value) if self._may_reduce(value) else None

    def _may_reduce(self, value: SSAValue) -> bool:
        """Whether a value, or all elements of a tile, can be looked at before the loop."""
        is_later = self.loop is not None and is_inside(value, self.loop)
        return not is_later and (self.reduces or not axes_of(value))

    def _loop_of(self, value: SSAValue) -> scf.ForOp | None:
        """The loop, or one in it, whose position a value is."""
        loop = value.block.parent_op() if isinstance(value, BlockArgument) and value.index == 0 else None
        if self.loop is None or not isinstance(loop, scf.ForOp):
            return None
        return loop if loop is self.loop or self.loop in ancestors(loop) else None

    def _positions(self, loop: scf.ForOp) -> Interval | None:
        """Those of the loop: from the first to the last, or less where there is none."""
        scalars = self.scalars
        first, end, step = (self._interval(each) for each in (loop.lb, loop.ub, loop.step))
        if first is None or end is None or step is None or not isinstance(step.low, int) or step.low < 1:
            return None
        count = scalars.subtract(scalars.subtract(end.high, first.low), 1)
        behind = count if step.low == 1 else scalars.subtract(count, scalars.remainder(count, step.low))
        return Interval(first.low, scalars.add(first.low, behind))

    def _combined(self, op: arith.AddiOp | arith.SubiOp | arith.MuliOp) -> Interval | None:
        one, other = self._interval(op.lhs), self._interval(op.rhs)
        if one is None or other is None:
            return None
        scalars, scale = self.scalars, max(one.scale, other.scale)
        if isinstance(op, arith.AddiOp):
            return Interval(scalars.add(one.low, other.low), scalars.add(one.high, other.high), scale)
        if isinstance(op, arith.SubiOp):
            return Interval(scalars.subtract(one.low, other.high), scalars.subtract(one.high, other.low), scale)
        numbers = [constant_in(op.lhs), constant_in(op.rhs)]
        factor, of = (numbers[0], other) if numbers[0] is not None else (numbers[1], one)
        if factor is None or abs(factor) * of.scale > MOST_SCALED:
            return None
        low, high = scalars.times(of.low, factor), scalars.times(of.high, factor)
        return Interval(low, high, abs(factor) * of.scale) if factor >= 0 else Interval(high, low, -factor * of.scale)

    def _leaf(self, value: SSAValue) -> Interval | None:
        """Integers that are there before the loop: those of a tile are compared once."""
        element = element_of(value)
        if not isinstance(element, IntegerType) or element == i1:
            return None
        low, high = (self._wide(self._across(value, kind)) for kind in (MinOp, MaxOp))
        scalars = self.scalars
        if element == i64 and not is_small(value):
            fits = scalars.both(scalars.is_at_least(LARGEST, high), scalars.is_at_least(low, -LARGEST))
            self.valid = scalars.both(self.valid, fits)
        return Interval(scalars.known(low), scalars.known(high))

    def _across(self, value: SSAValue, kind: type[MinOp] | type[MaxOp]) -> SSAValue:
        """The least or greatest element of a tile, where it is defined before the loop."""
        builder = Builder(self.scalars.at)
        while isinstance(value.type, TensorType) and axes_of(value):
            axis, rest = axes_of(value)[0], sizes_of(value)
            del rest[axis]
            value = builder.insert(kind(value, axis)).result
        return value

    def _wide(self, value: SSAValue) -> SSAValue:
        return value if value.type == i64 else Builder(self.scalars.at).insert(arith.ExtSIOp(value, i64)).result

    def _every(self, mask: SSAValue) -> Truth:
        """Whether all elements of a mask that is there before the loop are true."""
        builder = Builder(self.scalars.at)
        sizes = sizes_of(mask) if isinstance(mask.type, TensorType) else {}
        if not sizes:
            return mask
        numbers = builder.insert(arith.ExtUIOp(mask, tile_type(i32, tuple(sizes), tuple(sizes.values())))).result
        least = self._across(numbers, MinOp)
        return builder.insert(arith.CmpiOp(least, builder.insert(constant(i32, 0)).result, "ne")).results[0]


__all__ = ["Conditions"]
