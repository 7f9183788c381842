"""Gathers whose index tiles repeat a pattern: quotients and rests of divisions by small numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ...analysis.piecewise import (
    Expression,
    Invariant,
    Position,
    Quotient,
    Remainder,
    Scaled,
    Sum,
    constant_in,
    divisors_of,
    piecewise,
    scalars_of,
)
from ...dialect import AccessOp, BroadcastOp, GatherOp, arith, axes_of, sizes_of, tile_type
from .candidate import Candidate, Version, replace_access
from .pieces import number_pieces
from .scalars import Scalar, Scalars, Truth


@dataclass(frozen=True)
class Pattern:
    """An index, where `valid`: `base` plus a number for each position."""

    base: Scalar
    numbers: tuple[int, ...]
    valid: Truth = True


@dataclass(frozen=True, eq=False)
class PatternAccess(Candidate):
    """A gather along the lanes. `expressions`: the index tiles along them by dimension."""

    lanes: str
    expressions: dict[int, Expression]

    @property
    def tiles(self) -> Sequence[SSAValue]:
        return [offset for d in self.expressions if (offset := self.op.offset_of(d)) is not None]

    @property
    def scalars(self) -> Sequence[SSAValue]:
        return [value for expression in self.expressions.values() for value in scalars_of(expression)]

    def version(self, scalars: Scalars) -> Version | None:
        size = sizes_of(self.op.tile)[self.lanes]
        found = {d: pattern_of(expression, scalars, size) for d, expression in self.expressions.items()}
        patterns = {d: pattern for d, pattern in found.items() if pattern is not None}
        if len(patterns) < len(found):
            return None
        valid: Truth = True
        for pattern in patterns.values():
            valid = scalars.both(valid, pattern.valid)
        return _InPatterns(self.op, valid, None, self.lanes, patterns)


@dataclass(frozen=True, eq=False)
class _InPatterns(Version):
    lanes: str
    patterns: dict[int, Pattern]

    def make_straight(self, op: AccessOp, scalars: Scalars) -> None:
        builder = Builder(InsertPoint.before(op))
        index = [(tuple(index.terms), op.offset_of(number)) for number, index in enumerate(op.index)]
        for dimension, pattern in self.patterns.items():
            type_ = tile_type(i64, [self.lanes], [len(pattern.numbers)])
            assert isinstance(type_, TensorType)
            base = builder.insert(BroadcastOp(scalars.value(pattern.base), type_)).result
            numbers = DenseIntOrFPElementsAttr.from_list(type_, list(pattern.numbers))
            constants = builder.insert(arith.ConstantOp(numbers)).result
            index[dimension] = index[dimension][0], builder.insert(arith.AddiOp(base, constants)).result
        bounds, guarded = op.bounds, op.guarded_dimensions
        made = GatherOp(op.base, index, op.tile.type, bounds=bounds, mask=op.mask, guarded=guarded)
        replace_access(op, builder.insert(made).result)


def pattern_access(op: Operation, lanes: str) -> PatternAccess | None:
    """A gather that can have versions; None for others."""
    if not isinstance(op, GatherOp):
        return None
    found: dict[int, Expression] = {}
    for dimension in range(len(op.index)):
        offset = op.offset_of(dimension)
        if offset is not None and lanes in axes_of(offset):
            expression = piecewise(offset, lanes)
            if expression is None or dimension in op.guarded_dimensions:
                return None
            found[dimension] = expression
    size = sizes_of(op.tile).get(lanes, 0)
    numbers = [constant_in(divisor) for each in found.values() for divisor in divisors_of(each)]
    is_short = bool(numbers) and all(number is not None and 0 < number < size for number in numbers)
    return PatternAccess(op, lanes, found) if is_short else None


def pattern_of(expression: Expression, scalars: Scalars, size: int) -> Pattern | None:
    """The pattern of an expression, whose arithmetic is emitted; None if it is none."""
    match expression:
        case Invariant(value):
            pieces = number_pieces(scalars, value)
            return Pattern(pieces.pieces[0].base, (0,) * size, pieces.valid)
        case Position():
            return Pattern(0, tuple(range(size)))
        case Scaled(of, factor):
            found = pattern_of(of, scalars, size)
            times = None if found is None else scalars.times(found.base, factor)
            return None if found is None or times is None else Pattern(times, _each(found, factor.__mul__), found.valid)
        case Sum(left, right):
            one, other = pattern_of(left, scalars, size), pattern_of(right, scalars, size)
            if one is None or other is None:
                return None
            numbers = tuple(a + b for a, b in zip(one.numbers, other.numbers, strict=True))
            return Pattern(scalars.add(one.base, other.base), numbers, scalars.both(one.valid, other.valid))
        case Quotient(of, divisor) | Remainder(of, divisor):
            return _divided(expression, pattern_of(of, scalars, size), constant_in(divisor), scalars)
    return None


def _divided(expression: Expression, of: Pattern | None, divisor: int | None, scalars: Scalars) -> Pattern | None:
    """Where the first position's number is a multiple of the divisor."""
    if of is None or divisor is None or divisor < 1:
        return None
    whole = scalars.is_at_least(0, scalars.remainder(of.base, divisor))
    valid = scalars.both(of.valid, whole)
    if isinstance(expression, Remainder):
        return Pattern(0, _each(of, lambda number: number % divisor), valid)
    return Pattern(scalars.quotient(of.base, divisor), _each(of, lambda number: number // divisor), valid)


def _each(pattern: Pattern, change: Callable[[int], int]) -> tuple[int, ...]:
    return tuple(change(number) for number in pattern.numbers)
