"""Where the terms of a reduction may differ from its neutral element, by the masks in them.

A mask is a choice of a constant: `where(mask, x, -inf)` differs from -inf only where the mask is true, its exponential
from 0 only there. Two rules of the language (docs/language.md) make this hold whatever the other operands are: a
product or quotient in which a mask makes a factor 0 is 0, and a sum in which a mask makes a term of that position -inf
is -inf.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from ...dialect import (
    AccessOp,
    BroadcastOp,
    DotOp,
    MaxOp,
    MaxUIOp,
    MinOp,
    MinUIOp,
    ReductionOp,
    WriteOp,
    arith,
    axes_of,
    element_of,
)
from ...dialect.combining import neutral_of
from .comparisons import Comparisons
from .conditions import ALWAYS, NEVER, Condition, all_of, any_of

_KEEP_ZERO = (
    math.AbsFOp, math.SqrtOp, math.SinOp, math.TanhOp, math.ErfOp, math.ExpM1Op, math.Log1pOp, math.FloorOp,
    math.CeilOp, math.TruncOp, math.RoundEvenOp, arith.NegfOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp,
    arith.UIToFPOp, arith.ExtFOp, arith.TruncFOp,
)  # fmt: skip
_KEEP_LOWEST = (arith.ExtFOp, arith.TruncFOp)
_LOWEST = float("-inf")


class Masks:
    """Reads the masks of a kernel. `source`: resolves results of phases."""

    def __init__(self, source: Callable[[SSAValue], SSAValue]):
        self.source = source
        self.comparisons = Comparisons(source)
        self._known: dict[tuple[SSAValue, float, str, bool], Condition] = {}

    def of_reduction(self, op: ReductionOp | DotOp) -> Condition:
        """Where the terms of a reduction may be more than neutral. Outside of it they are neutral, or, if the result is
        NaN, some term inside or every term is NaN: so a loop that visits one chunk more may leave out the rest."""
        axis = op.axis.data
        if isinstance(op, DotOp):
            return all_of(*(self.differs(side, 0, axis) for side in (op.left, op.right)))
        return self.differs(op.tile, self._neutral(op), axis)

    def of_store(self, op: Operation) -> Condition:
        """Where a store writes."""
        if isinstance(op, WriteOp) and op.mask is not None:
            return self.comparisons.when(op.mask)
        return ALWAYS

    def _neutral(self, op: ReductionOp) -> float:
        """The neutral element of a reduction, or the extreme truth value: one chunk is always visited."""
        wide = self._plain(op.tile).owner
        if isinstance(wide, arith.ExtUIOp) and element_of(wide.operands[0]) == IntegerType(1):
            if isinstance(op, MinOp | MinUIOp):
                return 1
            if isinstance(op, MaxOp | MaxUIOp):
                return 0
        return neutral_of(op, element_of(op.tile))

    def _plain(self, value: SSAValue) -> SSAValue:
        value = self.source(value)
        return self._plain(value.owner.source) if isinstance(value.owner, BroadcastOp) else value

    def differs(self, value: SSAValue, constant: float, axis: str, is_plain: bool = True) -> Condition:
        """Where a value may differ from a constant. `is_plain`: no choice lies between it and the reduction."""
        key = (self.source(value), constant, axis, is_plain)
        if key not in self._known:
            self._known[key] = self._differs(*key)
        return self._known[key]

    def _differs(self, value: SSAValue, constant: float, axis: str, is_plain: bool) -> Condition:
        known = number_of(value)
        if known is not None:
            return NEVER if known == constant else ALWAYS
        op = value.owner
        if not isinstance(op, Operation):
            return ALWAYS

        def at(operand: SSAValue, other: float = constant) -> Condition:
            return self.differs(operand, other, axis, is_plain)

        if element_of(value) == IntegerType(1):
            return self.comparisons.when(value, is_true=not constant)
        match op:
            case BroadcastOp():
                return at(op.source)
            case arith.SelectOp():
                mask = self.comparisons
                chosen = [self.differs(side, constant, axis, is_plain=False) for side in (op.lhs, op.rhs)]
                return any_of(all_of(mask.when(op.cond), chosen[0]), all_of(mask.when(op.cond, False), chosen[1]))
            case arith.MaximumfOp() | arith.MinimumfOp() | arith.MaxSIOp() | arith.MinSIOp():
                return any_of(*map(at, op.operands))
            case math.ExpOp() | math.Exp2Op() if constant == 0:
                return at(op.operands[0], _LOWEST)
            case AccessOp() if constant == 0 and op.mask is not None:
                return self.comparisons.when(op.mask)
            case arith.ExtUIOp() if constant == 1 and element_of(op.operands[0]) == IntegerType(1):
                return at(op.operands[0])
        if constant == 0:
            return self._from_zero(op, at)
        if constant == _LOWEST:
            return self._from_lowest(op, at, axis, is_plain)
        return ALWAYS

    def _from_zero(self, op: Operation, at: Callable[[SSAValue], Condition]) -> Condition:
        if isinstance(op, _KEEP_ZERO):
            return at(op.operands[0])
        match op:
            case arith.MulfOp() | arith.MuliOp() | arith.AndIOp():
                return all_of(*map(at, op.operands))
            case arith.DivfOp():
                return at(op.lhs)
            case arith.AddfOp() | arith.SubfOp() | arith.AddiOp() | arith.SubiOp() | arith.OrIOp():
                return any_of(*map(at, op.operands))
            case math.FmaOp():
                return any_of(all_of(at(op.a), at(op.b)), at(op.c))
        return ALWAYS

    def _from_lowest(self, op: Operation, at: Callable[[SSAValue], Condition], axis: str, is_plain: bool) -> Condition:
        if isinstance(op, _KEEP_LOWEST):
            return at(op.operands[0])
        match op:
            case arith.SubfOp() if self._keeps_lowest(op.lhs, op.rhs, axis, is_plain):
                return at(op.lhs)
            case arith.AddfOp():
                pairs = [(op.lhs, op.rhs), (op.rhs, op.lhs)]
                return all_of(*(at(one) for one, other in pairs if self._is_harmless(other, axis)))
            case arith.MulfOp():
                for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                    factor = number_of(self._plain(other))
                    if factor is not None and factor > 0:
                        return at(one)
            case arith.DivfOp():
                divisor = number_of(self._plain(op.rhs))
                if divisor is not None and 0 < divisor < float("inf"):
                    return at(op.lhs)
        return ALWAYS

    def _keeps_lowest(self, value: SSAValue, less: SSAValue, axis: str, is_plain: bool) -> bool:
        """Whether a value that is -inf stays so when something is subtracted.

        It becomes NaN if that is -inf or NaN. If it is the maximum of all these values along the axis, then each of
        their differences is NaN, or, if the maximum is NaN by one of them, that one's.
        """
        return self._is_harmless(less, axis) or (is_plain and self._is_maximum(less, value, axis))

    def _is_harmless(self, value: SSAValue, axis: str) -> bool:
        """Whether a value that is added to -inf is finite, or belongs to the position."""
        value = self._plain(value)
        known = number_of(value)
        return axis in axes_of(value) if known is None else abs(known) < float("inf")

    def _is_maximum(self, value: SSAValue, of: SSAValue, axis: str) -> bool:
        op = self._plain(value).owner
        if isinstance(op, MaxOp):
            is_along = op.axis.data == axis and self._plain(op.tile) is self._plain(of)
            return is_along or self._is_maximum(op.tile, of, axis)
        return isinstance(op, arith.MaximumfOp) and any(self._is_maximum(side, of, axis) for side in op.operands)


def number_of(value: SSAValue) -> float | None:
    """The number of a constant, or of a tile of one number."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp):
        return None
    attribute = op.value
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, DenseIntOrFPElementsAttr) and attribute.is_splat():
        return attribute.get_values()[0]
    return None
