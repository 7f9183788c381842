"""Where two accesses to one memory can meet: the tests of their indices by divisors and by bounds.

They meet where their indices are equal in every dimension: a · p - b · q + rest = 0, summed over all axes, with p a
position of the one access and q of the other. That is impossible if no multiple of a divisor lies where it would have
to, or if the sum has one sign. An axis is fixed if it is impossible with p after q and with p before q. These are the
GCD test and Banerjee's test with directions (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001,
chapter 3), with extents that need not be known. What they do not show may still be so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from ..dialect import AccessOp, PositionOp, RangeOp, axes_of
from .accesses import LOOPS, Dimension, MemoryAccess, ancestors, is_inside, same_index
from .integer_sums import Floors, IntegerSum, Unknown, integer_sum

Name: TypeAlias = str | SSAValue
"""An axis, or the position of a sequential loop."""


def clash(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether two accesses may touch the same element, and their order matters there."""
    if one.base is not other.base or not (one.writes or other.writes):
        return False
    return not (one.atomic and one.atomic == other.atomic) and not never_meet(one, other)


def never_meet(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether two accesses touch no common element of one memory, at any positions and in any iterations."""
    if all(same_index(a, b) for a, b in zip(one.index, other.index, strict=True)):
        return False  # they meet at the same position
    return _meeting(one, other, _is_in_loop) is None


def elementwise(
    one: MemoryAccess, other: MemoryAccess, axes: Iterable[str] | None = None, loop: Operation | None = None
) -> bool:
    """Whether two accesses to one memory can touch the same element only at the same position of every axis.

    Considers only `axes` if given. Within a `loop`, an offset that changes between iterations is not the same in two.
    """
    fixed = fixed_axes(one, other, loop)
    return fixed is None or (one.axes | other.axes if axes is None else frozenset(axes)) <= fixed


def fixed_axes(one: MemoryAccess, other: MemoryAccess, loop: Operation | None = None) -> frozenset[str] | None:
    """The axes whose positions must be the same where two accesses to one memory meet; None if they never do.

    Within a `loop`, an offset that changes between iterations is not the same in two. Axes that no index has are never
    among them.
    """
    plain = [(a.terms, a.offset) for a, b in zip(one.index, other.index, strict=True) if a == b and len(a.terms) < 2]
    if len(plain) == len(one.index) and all(isinstance(offset, int) for _, offset in plain):
        return frozenset(axis for terms, _ in plain for axis, _ in terms)  # as most are
    found = _meeting(one, other, lambda value: loop is not None and is_inside(value, loop))
    return None if found is None else frozenset(name for name in found if isinstance(name, str))


def meet_within_an_iteration(one: MemoryAccess, other: MemoryAccess, loop: RangeOp) -> bool:
    """Whether two accesses to one memory in a loop touch a common element only in the same iteration of it, if at all.

    A range whose elements make steps of their own is not looked into.
    """
    if loop.is_ragged:
        return False
    found = _meeting(one, other, lambda value: is_inside(value, loop))
    return found is None or loop.position in found


def _meeting(one: MemoryAccess, other: MemoryAccess, varies: Callable[[SSAValue], bool]) -> set[Name] | None:
    """What must be the same where two accesses meet; None if they never do.

    `varies`: whether the two may find a value of the kernel's in different iterations.
    """
    equations = [_equation(a, b, one.extents) for a, b in zip(one.index, other.index, strict=True)]
    names = {position.name for equation in equations for position in equation.positions}
    fixed: set[Name] = {name for name in names if isinstance(name, SSAValue) and not varies(name)}
    while True:
        trial = _Trial(equations, varies, fixed)
        if trial.is_impossible({}):
            return None
        more = {
            name for name in names - fixed
            if trial.is_impossible({name: _Order.AFTER}) and trial.is_impossible({name: _Order.BEFORE})
        }  # fmt: skip
        if not more:
            return fixed
        fixed |= more


class _Order(Enum):
    """How the positions of two accesses compare; `margin`: the positions that this needs."""

    ANY = "any"
    SAME = "same"
    AFTER = "after"
    BEFORE = "before"

    @property
    def margin(self) -> int:
        return 2 if self in (_Order.AFTER, _Order.BEFORE) else 1


@dataclass(frozen=True)
class _Position:
    """The coefficients a and b of a name, and how many positions it has, None if that cannot be said."""

    name: Name
    a: int
    b: int
    count: IntegerSum | None

    def between(self, order: _Order) -> tuple[int, int, int]:
        """The least and the largest of a · p - b · q, as a number and multiples of the positions beyond the margin."""
        a, b = self.a, self.b
        match order:
            case _Order.ANY:
                return 0, min(a, 0) + min(-b, 0), max(a, 0) + max(-b, 0)
            case _Order.SAME:
                return 0, min(a - b, 0), max(a - b, 0)
            case _Order.AFTER:  # p = q + 1 + s
                return a, min(a - b, a, 0), max(a - b, a, 0)
            case _Order.BEFORE:
                return -b, min(a - b, -b, 0), max(a - b, -b, 0)

    def divisible(self, order: _Order) -> tuple[int, ...]:
        """What divides a · p - b · q if it divides these."""
        return (self.a - self.b,) if order is _Order.SAME else (self.a, self.b)

    def beyond(self, order: _Order, factor: int) -> IntegerSum | None:
        """A multiple of the positions beyond the margin; None if that is unknown."""
        if factor == 0:
            return IntegerSum()
        return None if self.count is None else IntegerSum(-factor * order.margin).plus(self.count, factor)


@dataclass(frozen=True)
class _Equation:
    """One dimension's equation. `one` and `other`: the offsets, without loops' positions."""

    positions: tuple[_Position, ...]
    one: IntegerSum
    other: IntegerSum

    def rest(self, varies: Callable[[SSAValue], bool], fixed: set[Name]) -> IntegerSum:
        """The difference of the offsets. What differs between positions is the same only where they are fixed."""

        def of(offset: IntegerSum, side: int) -> IntegerSum:
            shared = [fixed.issuperset(axes_of(u.value)) and not _varies(u.value, varies) for u, _ in offset.unknowns]
            unknowns = zip(offset.unknowns, shared, strict=True)
            return IntegerSum(offset.number, tuple((Unknown(u.value, 0 if s else side), n) for (u, n), s in unknowns))

        return of(self.one, 1).plus(of(self.other, 2), -1)


@dataclass(frozen=True)
class _Trial:
    """Equations of which some positions are the same."""

    equations: list[_Equation]
    varies: Callable[[SSAValue], bool]
    fixed: set[Name]

    def is_impossible(self, orders: Mapping[Name, _Order]) -> bool:
        """Whether the accesses cannot meet where positions are in this order."""

        def order(name: Name) -> _Order:
            return orders.get(name, _Order.SAME if name in self.fixed else _Order.ANY)

        floors: list[tuple[Unknown, int]] = []
        for position in (position for equation in self.equations for position in equation.positions):
            margin = order(position.name).margin
            if position.count is not None:
                short = IntegerSum(margin - 1).plus(position.count, -1).least()
                if short is not None and short >= 0:
                    return True
                floors += _floors(position.count, margin)
        for equation in self.equations:
            rest = equation.rest(self.varies, self.fixed)
            terms = [(position, order(position.name)) for position in equation.positions]
            if _has_sign(terms, rest, floors) or _has_no_multiple(terms, rest):
                return True
        return False


_Terms: TypeAlias = list[tuple[_Position, _Order]]


def _has_sign(terms: _Terms, rest: IntegerSum, floors: Floors) -> bool:
    """Whether the sum of terms is always positive, or always negative."""
    for sign in (1, -1):
        total: IntegerSum | None = IntegerSum().plus(rest, sign)
        for position, order in terms:
            start, low, high = position.between(order)
            beyond = position.beyond(order, low if sign > 0 else -high)
            if total is None or beyond is None:
                total = None
                break
            total = total.plus(beyond).plus(IntegerSum(sign * start))
        least = None if total is None else total.least(floors)
        if least is not None and least > 0:
            return True
    return False


def _has_no_multiple(terms: _Terms, rest: IntegerSum) -> bool:
    """Whether, for some divisor of a part of the terms, the others never add up to a multiple of it."""
    parts = [position.divisible(order) for position, order in terms]
    # A product that may wrap around keeps only the powers of two that divide it.
    parts += [(n if unknown.is_size else n & -n,) for unknown, n in rest.unknowns]
    every = [number for part in parts for number in part]
    for divisor in {gcd(*every), *map(abs, every)} - {0, 1}:
        least = most = rest.number
        bounded = True
        for index, part in enumerate(parts):
            if all(number % divisor == 0 for number in part):
                continue
            found = _numbers(*terms[index]) if index < len(terms) else None
            bounded = bounded and found is not None
            least, most = (least, most) if found is None else (least + found[0], most + found[1])
        if bounded and most // divisor * divisor < least:
            return True
    return False


def _numbers(position: _Position, order: _Order) -> tuple[int, int] | None:
    """The least and the largest of a term, if they are numbers."""
    start, low, high = position.between(order)
    least, most = position.beyond(order, low), position.beyond(order, high)
    if least is None or most is None or least.unknowns or most.unknowns:
        return None
    return start + least.number, start + most.number


def _floors(count: IntegerSum, margin: int) -> Iterator[tuple[Unknown, int]]:
    """What follows for an unknown from there being at least so many positions."""
    if len(count.unknowns) == 1:
        ((unknown, coefficient),) = count.unknowns
        if coefficient > 0:
            yield unknown, -((count.number - margin) // coefficient)


def _equation(one: Dimension, other: Dimension, extents: Mapping[str, SSAValue]) -> _Equation:
    """The equation of two dimensions. Positions of loops count from the loop's start."""
    a: dict[Name, int] = dict(one.terms)
    b: dict[Name, int] = dict(other.terms)
    first, second = _offset(one.offset, a), _offset(other.offset, b)
    positions = []
    for name in dict.fromkeys((*a, *b)):
        extent = extents.get(name) if isinstance(name, str) else None
        count = _trips(name) if isinstance(name, SSAValue) else None if extent is None else integer_sum(extent)
        positions.append(_Position(name, a.get(name, 0), b.get(name, 0), count))
    return _Equation(tuple(positions), first, second)


def _offset(offset: SSAValue | int, terms: dict[Name, int]) -> IntegerSum:
    """An offset, without positions of axes and loops, which become terms."""
    total = IntegerSum(offset) if isinstance(offset, int) else integer_sum(offset)
    kept = IntegerSum(total.number)
    for unknown, coefficient in total.unknowns:
        op, loop = unknown.value.owner, _loop_at(unknown.value)
        if isinstance(op, PositionOp):
            terms[op.axis.data] = terms.get(op.axis.data, 0) + coefficient
        elif loop is not None:
            terms[unknown.value] = coefficient
            kept = kept.plus(integer_sum(loop.start), coefficient)
        else:
            kept = kept.plus(IntegerSum(0, ((unknown, coefficient),)))
    return kept


def _loop_at(value: SSAValue) -> RangeOp | None:
    """The loop of whose positions a value is; only of a loop whose bounds are the same in all iterations of others."""
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    if not isinstance(loop, RangeOp) or loop.is_ragged or value is not loop.position:
        return None
    bounds = [unknown.value for bound in (loop.start, loop.stop) for unknown, _ in integer_sum(bound).unknowns]
    return None if any(_varies(bound, _is_in_loop) for bound in bounds) else loop


def _is_in_loop(value: SSAValue) -> bool:
    return any(isinstance(op, LOOPS) for op in ancestors(value.owner))


def _trips(position: SSAValue) -> IntegerSum | None:
    loop = _loop_at(position)
    return None if loop is None else integer_sum(loop.stop).plus(integer_sum(loop.start), -1)


def _varies(value: SSAValue, varies: Callable[[SSAValue], bool]) -> bool:
    """Whether a value may differ between iterations: it is, or is computed from, something that does."""
    op = value.owner
    if isinstance(op, Block) or op.regions or isinstance(op, AccessOp):
        return varies(value)
    return any(_varies(operand, varies) for operand in op.operands)
