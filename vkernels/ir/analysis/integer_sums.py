"""Indices and extents as sums of unknown integers, and what is known of such a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, i64
from xdsl.ir import SSAValue

from ..dialect import BroadcastOp, SizeOp, arith, element_of
from .accesses import computed_alike, constant_of


@dataclass(frozen=True)
class Unknown:
    """An integer that the kernel computes. `side`: of which of two accesses it is, 0 if both find the same there."""

    value: SSAValue
    side: int = 0

    def is_same(self, other: Unknown) -> bool:
        return self.side == other.side and computed_alike(self.value, other.value, loads=False)

    @property
    def is_size(self) -> bool:
        """Whether it is a length in memory, so that no multiple that a kernel needs of it wraps around."""
        return isinstance(self.value.owner, SizeOp)


Floors = Sequence[tuple[Unknown, int]]
"""Unknowns, and numbers that they are not below."""


@dataclass(frozen=True)
class IntegerSum:
    """A number, and unknowns times coefficients that are not 0."""

    number: int = 0
    unknowns: tuple[tuple[Unknown, int], ...] = ()

    def plus(self, other: IntegerSum, factor: int = 1) -> IntegerSum:
        """This and `factor` times another."""
        terms = list(self.unknowns)
        for unknown, coefficient in other.unknowns:
            at = next((n for n, (known, _) in enumerate(terms) if known.is_same(unknown)), None)
            if at is None:
                terms.append((unknown, factor * coefficient))
            else:
                terms[at] = (terms[at][0], terms[at][1] + factor * coefficient)
        kept = tuple((unknown, coefficient) for unknown, coefficient in terms if coefficient)
        return IntegerSum(self.number + factor * other.number, kept)

    def least(self, floors: Floors = ()) -> int | None:
        """A number that the sum is not below; None if there is none. Sizes are not below 0."""
        total = self.number
        for unknown, coefficient in self.unknowns:
            floor = max(_floors_of(unknown, floors), default=None)
            if coefficient < 0 or floor is None:
                return None
            total += coefficient * floor
        return total


def _floors_of(unknown: Unknown, floors: Floors) -> Iterator[int]:
    if unknown.is_size:
        yield 0
    yield from (floor for known, floor in floors if known.is_same(unknown))


def integer_sum(value: SSAValue) -> IntegerSum:
    """What an integer, or each of a tile of integers, is a sum of. Arithmetic narrower than i64, which may wrap around,
    counts as unknown."""
    number = number_of(value)
    if number is not None:
        return IntegerSum(number)
    op = value.owner
    if isinstance(op, BroadcastOp):
        return integer_sum(op.operands[0])
    if element_of(value.type) == i64:
        if isinstance(op, arith.AddiOp | arith.SubiOp):
            one, other = map(integer_sum, op.operands)
            return one.plus(other, 1 if isinstance(op, arith.AddiOp) else -1)
        if isinstance(op, arith.MuliOp):
            for factor, times in (op.operands, reversed(op.operands)):
                if (number := number_of(factor)) is not None:
                    return IntegerSum().plus(integer_sum(times), number)
    return IntegerSum(0, ((Unknown(value), 1),))


def number_of(value: SSAValue) -> int | None:
    """The number of a constant, or of all elements of a constant tile."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr) and op.value.is_splat():
        element = op.value.get_values()[0]
        return element if isinstance(element, int) else None
    return constant_of(value)
