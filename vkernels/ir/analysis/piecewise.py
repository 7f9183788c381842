"""Index tiles that are, piece by piece, a number and a position times a coefficient.

`(j - by) % n`, `clamp(j - 2, 0, n - 1)` and `abs(j - 2)` are of this kind: along `j` they have a few pieces, and most
chunks of `j` lie within one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from ..dialect import AccessOp, BelowOp, BroadcastOp, GatherOp, PositionOp, ScatterOp, arith, axes_of, element_of
from .accesses import computed_alike
from .integer_sums import number_of


@dataclass(frozen=True)
class Invariant:
    """A scalar."""

    value: SSAValue


@dataclass(frozen=True)
class Position:
    """The position along the axis."""


@dataclass(frozen=True)
class Scaled:
    """An expression times a number."""

    of: Expression
    factor: int


@dataclass(frozen=True)
class Sum:
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Remainder:
    """The rest of a division by a scalar that rounds down: `%` of the language."""

    of: Expression
    divisor: SSAValue


@dataclass(frozen=True)
class Quotient:
    """The quotient of a division by a scalar, rounded down."""

    of: Expression
    divisor: SSAValue


@dataclass(frozen=True)
class Bounded:
    """An expression, or a scalar where that is larger (`below`) or smaller."""

    of: Expression
    bound: Expression
    below: bool


@dataclass(frozen=True)
class Absolute:
    of: Expression


Expression = Invariant | Position | Scaled | Sum | Remainder | Quotient | Bounded | Absolute


def piecewise(value: SSAValue, axis: str) -> Expression | None:
    """An i64 or a tile of them as an expression of the position along an axis; None for what is not piecewise linear,
    or varies along other axes."""
    if element_of(value) != i64:
        return None
    if not (axes := axes_of(value)):
        return Invariant(value)
    if axes != (axis,) or not isinstance(value.owner, Operation):
        return None
    if constant_in(value) is not None or isinstance(value.owner, BroadcastOp):
        return _invariant(value)
    return _operation(value.owner, axis)


def constant_in(value: SSAValue) -> int | None:
    """The number of a constant, of all elements of a constant tile, or of a constant that is repeated."""
    op = value.owner
    return constant_in(op.source) if isinstance(op, BroadcastOp) else number_of(value)


def _invariant(value: SSAValue) -> Invariant | None:
    """A scalar that is repeated along an axis."""
    op = value.owner
    if constant_in(value) is not None or not axes_of(value):
        return Invariant(value)
    return _invariant(op.source) if isinstance(op, BroadcastOp) and element_of(op.source) == i64 else None


def _operation(op: Operation, axis: str) -> Expression | None:
    if isinstance(op, PositionOp):
        return Position() if op.axis.data == axis else None
    if isinstance(op, arith.SelectOp):
        return _remainder(op, axis)
    if isinstance(op, arith.MaxSIOp) and _is_negated(op.rhs, op.lhs):
        of = piecewise(op.lhs, axis)
        return None if of is None else Absolute(of)
    operands = op.operands[:1] if isinstance(op, arith.FloorDivSIOp) else op.operands
    parts = [piecewise(operand, axis) for operand in operands]
    if any(part is None for part in parts):
        return None
    return _combined(op, [part for part in parts if part is not None])


def _combined(op: Operation, parts: list[Expression]) -> Expression | None:
    match op:
        case arith.AddiOp():
            return Sum(*parts)
        case arith.SubiOp():
            return Sum(parts[0], Scaled(parts[1], -1))
        case arith.MuliOp():
            for factor, part in zip(op.operands, reversed(parts), strict=True):
                if (number := constant_in(factor)) is not None:
                    return Scaled(part, number)
            return None
        case arith.MaxSIOp() | arith.MinSIOp():
            varying = [part for part in parts if not isinstance(part, Invariant)]
            bounds = [part for part in parts if isinstance(part, Invariant)]
            below = isinstance(op, arith.MaxSIOp)
            return Bounded(varying[0], bounds[0], below) if len(varying) == 1 else None
        case arith.FloorDivSIOp():
            divisor = _invariant(_within(op.rhs))
            return None if divisor is None else Quotient(parts[0], divisor.value)
    return None


def _is_negated(value: SSAValue, positive: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, arith.SubiOp) and constant_in(op.lhs) == 0 and op.rhs is positive


def _remainder(op: arith.SelectOp, axis: str) -> Expression | None:
    """What the language's `%` is made of: the rest of a division that rounds toward 0, plus the divisor where that is
    not 0 and its sign is not the divisor's."""
    wrong, corrected, rest = op.cond.owner, op.lhs.owner, op.rhs
    division = rest.owner
    if not (isinstance(wrong, arith.AndIOp) and isinstance(corrected, arith.AddiOp)):
        return None
    if not isinstance(division, arith.RemSIOp) or corrected.lhs is not rest:
        return None
    nonzero, differs = wrong.lhs.owner, wrong.rhs.owner
    if not (isinstance(nonzero, arith.CmpiOp) and isinstance(differs, arith.CmpiOp)):
        return None
    signs, divisor = differs.lhs.owner, _invariant(corrected.rhs)
    if not isinstance(signs, arith.XOrIOp) or signs.lhs is not rest or nonzero.lhs is not rest or divisor is None:
        return None
    zeros = constant_in(nonzero.rhs) == 0 == constant_in(differs.rhs)
    relations = nonzero.relation == "ne" and differs.relation == "slt"
    same = _is_same(signs.rhs, corrected.rhs) and _is_same(_within(division.rhs), corrected.rhs)
    of = piecewise(division.lhs, axis) if zeros and relations and same else None
    return None if of is None else Remainder(of, divisor.value)


def _within(divisor: SSAValue) -> SSAValue:
    """A divisor without the 1 that stands in for it at positions beyond the end of an axis."""
    op = divisor.owner
    if isinstance(op, arith.SelectOp) and isinstance(op.cond.owner, BelowOp) and constant_in(op.rhs) == 1:
        return op.lhs
    return divisor


def _is_same(one: SSAValue, other: SSAValue) -> bool:
    a, b = _invariant(one), _invariant(other)
    if a is None or b is None:
        return False
    number = constant_in(a.value)
    return number == constant_in(b.value) if number is not None else computed_alike(a.value, b.value, loads=False)


def slope_of(expression: Expression) -> int:
    """The coefficient in the longest piece: where nothing is bounded, and what is made positive is positive."""
    match expression:
        case Position():
            return 1
        case Scaled(of, factor):
            return factor * slope_of(of)
        case Sum(left, right):
            return slope_of(left) + slope_of(right)
        case Remainder(of) | Bounded(of) | Absolute(of):
            return slope_of(of)
    return 0


def scalars_of(expression: Expression) -> list[SSAValue]:
    """The scalars that an expression is made of, but for constants."""
    match expression:
        case Invariant(value):
            return [value] if constant_in(value) is None else []
        case Scaled(of) | Absolute(of):
            return scalars_of(of)
        case Sum(left, right) | Bounded(left, right):
            return scalars_of(left) + scalars_of(right)
        case Remainder(of, divisor) | Quotient(of, divisor):
            return [*scalars_of(of), *scalars_of(Invariant(divisor))]
    return []


def divisors_of(expression: Expression) -> list[SSAValue]:
    """What an expression and its parts are divided by."""
    match expression:
        case Remainder(of, divisor) | Quotient(of, divisor):
            return [divisor, *divisors_of(of)]
        case Scaled(of) | Absolute(of):
            return divisors_of(of)
        case Sum(left, right) | Bounded(left, right):
            return divisors_of(left) + divisors_of(right)
    return []


FEW = 16
"""Positions, fewer than which chunks along vector lanes never have."""


def breaks_of(offset: SSAValue) -> int | None:
    """How often an index tile that otherwise moves by 1 from position to position along its one axis does not; None for
    other tiles."""
    axes = axes_of(offset)
    found = piecewise(offset, axes[0]) if len(axes) == 1 else None
    return None if found is None or abs(slope_of(found)) != 1 else _breaks(found)


def _breaks(expression: Expression) -> int | None:
    match expression:
        case Remainder(of, divisor) | Quotient(of, divisor):
            number, before = constant_in(divisor), _breaks(of)
            return None if before is None or (number is not None and number < FEW) else before + 1
        case Absolute(of) | Bounded(of):
            before = _breaks(of)
            return None if before is None else before + 1
        case Scaled(of):
            return _breaks(of)
        case Sum(left, right):
            one, other = _breaks(left), _breaks(right)
            return None if one is None or other is None else one + other
    return 0


def is_pattern(offset: SSAValue) -> bool:
    """Whether an index tile repeats a short pattern along its one axis: it divides positions by small numbers alone."""
    axes = axes_of(offset)
    found = piecewise(offset, axes[0]) if len(axes) == 1 else None
    if found is None or not (divisors := divisors_of(found)) or _is_bounded(found):
        return False
    numbers = [constant_in(divisor) for divisor in divisors]
    return all(number is not None and 0 < number < FEW for number in numbers)


def _is_bounded(expression: Expression) -> bool:
    match expression:
        case Bounded() | Absolute():
            return True
        case Scaled(of) | Remainder(of) | Quotient(of):
            return _is_bounded(of)
        case Sum(left, right):
            return _is_bounded(left) or _is_bounded(right)
    return False


def only_for_indices(kernel: Operation) -> frozenset[Operation]:
    """The operations that only compute index tiles which are contiguous but for a few breaks, or repeat a pattern."""
    tiles = {
        offset: op
        for op in kernel.walk()
        if isinstance(op, GatherOp | ScatterOp)
        for offset in op.offsets
        if breaks_of(offset) is not None or is_pattern(offset)
    }
    found: set[Operation] = set()
    pending = [offset.owner for offset in tiles]
    while pending:
        op = pending.pop()
        if not isinstance(op, Operation) or op in found or not all(axes_of(result) for result in op.results):
            continue
        uses = [use for result in op.results for use in result.uses]
        is_offset = any(result in tiles for result in op.results)
        if all(use.operation in found or (is_offset and isinstance(use.operation, AccessOp)) for use in uses):
            found.add(op)
            pending += [operand.owner for operand in op.operands]
    return frozenset(found)
