"""Comparisons of integers as conditions on positions, in whatever form the author wrote them.

A comparison becomes one or several sums that are not negative. Sums of 64 bits are taken as if they did not wrap, which
the emitter makes sure of by bounds on the values in them; narrower ones must fit, which it tests.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ...dialect import BelowOp, BroadcastOp, PositionOp, arith, axes_of, element_of
from ..accesses import constant_of
from .conditions import ALWAYS, NEVER, Condition, Holds, Linear, NotNegative, all_of, any_of

Source = Callable[[SSAValue], SSAValue]
Fits = tuple[tuple[Linear, int], ...]
"""Sums that must fit in integers of so many bits."""
DEEPEST = 6
"""Minima, maxima, choices and quotients in one another that a comparison is taken apart into."""
MOST_CONSTANT, MOST_COEFFICIENT, MOST_OTHERS = 1 << 60, 1 << 12, 8
"""The largest constant, coefficient of a position, and sum of coefficients of other integers. With positions below 2^48
and other integers of at most `LARGEST_LEAF`, sums stay below 2^62: they do not wrap."""
LARGEST_LEAF = 1 << 56
"""The largest magnitude of an integer of 64 bits in a sum that is taken not to wrap."""


class Comparisons:
    """Reads truth values of a kernel. `source`: resolves results of phases."""

    def __init__(self, source: Source):
        self.source = source
        self._known: dict[tuple[SSAValue, bool], Condition] = {}

    def when(self, value: SSAValue, is_true: bool = True) -> Condition:
        """When a truth value is true, or false. The condition may hold more often than the value."""
        value = self.source(value)
        if (value, is_true) not in self._known:
            self._known[value, is_true] = self._when(value, is_true)
        return self._known[value, is_true]

    def _when(self, value: SSAValue, is_true: bool) -> Condition:
        op = value.owner
        known = constant_of(value)
        if known is not None:
            return ALWAYS if bool(known) is is_true else NEVER
        match op:
            case BroadcastOp():
                return self.when(op.source, is_true)
            case arith.AndIOp() | arith.OrIOp():
                parts = [self.when(operand, is_true) for operand in op.operands]
                return all_of(*parts) if isinstance(op, arith.AndIOp) is is_true else any_of(*parts)
            case arith.XOrIOp():
                one, other = ((self.when(v), self.when(v, False)) for v in op.operands)
                if is_true:
                    return any_of(all_of(one[0], other[1]), all_of(one[1], other[0]))
                return any_of(all_of(one[0], other[0]), all_of(one[1], other[1]))
            case arith.SelectOp():
                yes, no = self.when(op.lhs, is_true), self.when(op.rhs, is_true)
                return any_of(all_of(self.when(op.cond), yes), all_of(self.when(op.cond, False), no))
            case BelowOp():
                bound = Linear(others=((op.count, 1),)).plus(Linear(1, ((op.axis.data, 1),)), -1)
                return self._not_negative(bound if is_true else bound.times(-1).plus(Linear(-1)), ())
            case arith.CmpiOp():
                return self._compared(op, is_true)
        return Holds(value, is_true)

    def _compared(self, op: arith.CmpiOp, is_true: bool) -> Condition:
        """A signed comparison of integers; one with a constant of what was a truth value before."""
        relation = op.relation if is_true else _OPPOSITE.get(op.relation, "")
        if relation not in _OPPOSITE or (_bits(op.lhs) == 1 and relation not in ("eq", "ne")):
            return Holds(op.result, is_true)
        if relation in ("eq", "ne") and (found := self._of_truth(op, relation)) is not None:
            return found
        if _bits(op.lhs) == 1:
            return Holds(op.result, is_true)
        fits: dict[tuple[Linear, int], None] = {}
        left, right = (self._linear(operand, fits) for operand in op.operands)
        less = right.plus(left, -1)  # not negative where left <= right
        more, test = less.times(-1), tuple(fits)
        match relation:
            case "sle":
                return self._not_negative(less, test)
            case "slt":
                return self._not_negative(less.plus(Linear(-1)), test)
            case "sge":
                return self._not_negative(more, test)
            case "sgt":
                return self._not_negative(more.plus(Linear(-1)), test)
            case "eq":
                return all_of(Holds(op.result, is_true), self._not_negative(less, test), self._not_negative(more, test))
        either = [self._not_negative(one.plus(Linear(-1)), test) for one in (less, more)]
        return all_of(Holds(op.result, is_true), any_of(*either))

    def _of_truth(self, op: arith.CmpiOp, relation: str) -> Condition | None:
        """A truth value, widened to an integer, that is compared with 0."""
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            wide, is_zero = self._plain(one).owner, constant_of(self._plain(other)) == 0
            if isinstance(wide, arith.ExtUIOp | arith.ExtSIOp) and is_zero and _bits(wide.operands[0]) == 1:
                return self.when(wide.operands[0], relation == "ne")
        return None

    def _plain(self, value: SSAValue) -> SSAValue:
        """A value without its broadcasts."""
        value = self.source(value)
        return self._plain(value.owner.source) if isinstance(value.owner, BroadcastOp) else value

    # Sums

    def _linear(self, value: SSAValue, fits: dict[tuple[Linear, int], None]) -> Linear:
        """An integer as a sum. What is no sum of others stands for itself."""
        value = self._plain(value)
        known = constant_of(value)
        if known is not None:
            return Linear(known)
        op = value.owner
        found: Linear | None = None
        match op:
            case PositionOp():
                return Linear(positions=((op.axis.data, 1),))
            case arith.AddiOp() | arith.SubiOp():
                left, right = (self._linear(operand, fits) for operand in op.operands)
                found = left.plus(right, 1 if isinstance(op, arith.AddiOp) else -1)
            case arith.MuliOp() | arith.ShLIOp():
                found = self._multiple(op, fits)
            case arith.ExtSIOp() if _bits(op.operands[0]) > 1:
                return self._linear(op.operands[0], fits)
            case arith.TruncIOp() if _bits(value) > 1:
                found = self._linear(op.operands[0], fits)
        if found is None or not _is_small(found):
            return Linear(others=((value, 1),))
        if _bits(value) < 64:
            fits[found, _bits(value)] = None
        return found

    def _multiple(self, op: arith.MuliOp | arith.ShLIOp, fits: dict[tuple[Linear, int], None]) -> Linear | None:
        left, right = (self._linear(operand, fits) for operand in op.operands)
        if isinstance(op, arith.ShLIOp):
            is_small = not right.positions and not right.others and 0 <= right.constant < 32
            return left.times(1 << right.constant) if is_small else None
        for one, other in ((left, right), (right, left)):
            if not other.positions and not other.others:
                return one.times(other.constant)
        return None

    # Sums of minima, maxima, choices and quotients are taken apart.

    def _not_negative(self, total: Linear, fits: Fits, depth: int = DEEPEST) -> Condition:
        for value, factor in total.others:
            op = value.owner
            if not depth or not isinstance(op, Operation) or not axes_of(value):
                continue
            rest, inner = total.without(value), dict.fromkeys(fits)

            match op:
                case arith.MinSIOp() | arith.MaxSIOp():
                    sums = [rest.plus(self._linear(operand, inner), factor) for operand in op.operands]
                    parts = [self._not_negative(one, tuple(inner), depth - 1) for one in sums]
                    return all_of(*parts) if isinstance(op, arith.MinSIOp) is (factor > 0) else any_of(*parts)
                case arith.SelectOp():
                    sums = [rest.plus(self._linear(operand, inner), factor) for operand in (op.lhs, op.rhs)]
                    yes, no = (self._not_negative(one, tuple(inner), depth - 1) for one in sums)
                    return any_of(all_of(self.when(op.cond), yes), all_of(self.when(op.cond, False), no))
                case arith.FloorDivSIOp() | arith.ShRSIOp():
                    divisor = self._divisor(op)
                    if divisor is not None:
                        # divisor * floor(x / divisor) is at most x, and at least x - divisor + 1
                        top = self._linear(op.operands[0], inner).plus(Linear(0 if factor > 0 else 1 - divisor))
                        return self._not_negative(rest.times(divisor).plus(top, factor), tuple(inner), depth - 1)
        return NotNegative(total, fits) if _is_small(total) else ALWAYS

    def _divisor(self, op: arith.FloorDivSIOp | arith.ShRSIOp) -> int | None:
        known = constant_of(self._plain(op.operands[1]))
        if known is None or not 0 < known < (1 << 31):
            return None
        if isinstance(op, arith.ShRSIOp):
            return 1 << known if known < 31 else None
        return known


_OPPOSITE = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}


def _is_small(total: Linear) -> bool:
    """Whether a sum cannot wrap in 64 bits."""
    positions = all(abs(n) <= MOST_COEFFICIENT for _, n in total.positions) and len(total.positions) < 4
    return positions and abs(total.constant) <= MOST_CONSTANT and sum(abs(n) for _, n in total.others) <= MOST_OTHERS


def _bits(value: SSAValue) -> int:
    element = element_of(value)
    return element.width.data if isinstance(element, IntegerType) else 64
