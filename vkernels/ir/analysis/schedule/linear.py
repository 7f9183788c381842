"""How the operand of a sum depends on exponentials relative to a maximum: whether it is linear in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from xdsl.dialects import math
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float64Type,
    FloatAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialect import BroadcastOp, DotOp, MaxOp, SumOp, arith, element_of
from ..kernel_analysis import KernelAnalysis
from .aliases import UnchangedValues

_EXPONENTIALS = (math.ExpOp, math.Exp2Op)
_INFINITY, _UNKNOWN = float("inf"), float("nan")
_EQUAL = arith.CmpfOp.PREDICATES.index("oeq")
_LARGEST: dict[type[Attribute], float] = {Float16Type: 65504.0, Float8E4M3FNType: 448.0, Float8E5M2Type: 57344.0}
"""The largest finite number of elements with a smaller range than f32."""
_LARGEST_OF_F32 = 3e38


@dataclass(frozen=True)
class Linear:
    """A tile that is linear in exponentials of `differences`, the operand of `maximum` minus its result.

    `exponential`: one of them; all are of one kind. `path`: the operations from the differences to the tile; `inputs`:
    their other operands. `largest`: the largest number of the narrowest elements that the exponentials are rounded to.
    `is_scaled`: something else than the exponentials decides how large it is, and whether it is 0 where x is -inf.
    `selects`: it is 0 where a condition says so, whatever the exponential is. `is_guarded`: a finite number is
    subtracted where the maximum is -inf, so that the exponentials are 0 there, not NaN.
    """

    maximum: MaxOp
    exponential: Operation
    differences: frozenset[Operation]
    path: frozenset[Operation]
    inputs: tuple[SSAValue, ...] = ()
    largest: float = _INFINITY
    is_scaled: bool = False
    selects: bool = False
    is_guarded: bool = False

    @property
    def kind(self) -> tuple[MaxOp, type[Operation], bool]:
        """What sums in one loop must have in common."""
        return self.maximum, type(self.exponential), self.is_guarded

    def then(self, op: Operation, *inputs: SSAValue, is_scaled: bool = False) -> Linear:
        """The result of an operation on it."""
        return replace(
            self,
            path=self.path | {op},
            inputs=(*self.inputs, *inputs),
            is_scaled=self.is_scaled or is_scaled,
        )

    def joined(self, other: Linear) -> Linear | None:
        """What holds for a result of both, if they are relative to one maximum."""
        if self.kind != other.kind:
            return None
        return replace(
            self,
            differences=self.differences | other.differences,
            path=self.path | other.path,
            inputs=(*self.inputs, *other.inputs),
            largest=min(self.largest, other.largest),
            is_scaled=self.is_scaled or other.is_scaled,
            selects=self.selects or other.selects,
        )


class LinearReader:
    """Reads how values depend on exponentials relative to maxima along an axis. `known`: what it has read."""

    def __init__(self, analysis: KernelAnalysis, axis: str, unchanged: UnchangedValues):
        self.analysis, self.axis, self.unchanged = analysis, axis, unchanged
        self.known: dict[SSAValue, Linear | None] = {}

    def read_total(self, op: SumOp | DotOp) -> Linear | None:
        """How the operand of a sum, or one operand of a dot, depends on exponentials; None if not linearly."""
        if isinstance(op, SumOp):
            return self.read(op.tile)
        found = self._either(op, op.left, op.right)
        return found and replace(found, path=found.path - {op})

    def read(self, value: SSAValue) -> Linear | None:
        value = self.analysis.source(value)
        if value not in self.known:
            owner = value.owner
            self.known[value] = self._read(owner) if isinstance(owner, Operation) else None
        return self.known[value]

    def _read(self, op: Operation) -> Linear | None:
        if isinstance(op, _EXPONENTIALS):
            return self._exponential(op)
        if isinstance(op, BroadcastOp | arith.ExtFOp | arith.NegfOp):
            found = self.read(op.operands[0])
            return found and found.then(op)
        if isinstance(op, arith.TruncFOp):
            return self._rounded(op)
        if isinstance(op, arith.MulfOp):
            return self._either(op, op.lhs, op.rhs)
        if isinstance(op, arith.DivfOp):
            found = self.read(op.lhs)
            return found and (None if self.read(op.rhs) else found.then(op, op.rhs, is_scaled=True))
        if isinstance(op, arith.AddfOp | arith.SubfOp):
            return self._both(op, op.lhs, op.rhs)
        if isinstance(op, arith.SelectOp):
            return self._selected(op)
        return None

    def _exponential(self, op: Operation) -> Linear | None:
        difference = self.analysis.source(op.operands[0]).owner
        if not isinstance(difference, arith.SubfOp):
            return None
        repeated = self.analysis.source(difference.rhs).owner
        subtracted = self.analysis.source(repeated.operands[0]).owner if isinstance(repeated, BroadcastOp) else None
        guarded = self._guarded(subtracted) if isinstance(subtracted, arith.SelectOp) else None
        maximum = subtracted if guarded is None else guarded
        if (
            not isinstance(maximum, MaxOp)
            or maximum.axis.data != self.axis
            or maximum not in self.analysis.phase
            or self.analysis.chunks(maximum) != {self.axis}
            or not self.unchanged.are_equal(maximum.tile, difference.lhs)
        ):
            return None
        path = frozenset({difference, op})
        return Linear(maximum, op, frozenset({difference}), path, is_guarded=guarded is not None)

    def _guarded(self, op: arith.SelectOp) -> Operation | Block | None:
        """What computes m, where an operation selects a finite number if m is -inf, else m."""
        condition, number, value = map(self.analysis.source, op.operands)
        compared = condition.owner
        if not isinstance(compared, arith.CmpfOp) or compared.predicate.value.data != _EQUAL:
            return None
        sides = [self.analysis.source(side) for side in compared.operands]
        if value not in sides or not isfinite(self.number_of(number)):
            return None
        others = [side for side in sides if side is not value]
        return value.owner if others and self.number_of(others[0]) == -_INFINITY else None

    def _rounded(self, op: arith.TruncFOp) -> Linear | None:
        """Rounding keeps small relative errors; but to a smaller range only where it is known what is rounded."""
        found = self.read(op.operands[0])
        wide = _LARGEST_OF_F32 if isinstance(element_of(op.operands[0]), Float64Type) else _INFINITY
        largest = _LARGEST.get(type(element_of(op.result)), wide)
        if found is None or (found.is_scaled and largest < _INFINITY):
            return None
        return replace(found.then(op), largest=min(found.largest, largest))

    def _either(self, op: Operation, left: SSAValue, right: SSAValue) -> Linear | None:
        """The product of a linear value and another."""
        for one, other in ((left, right), (right, left)):
            found = self.read(one)
            if found is not None:
                return None if self.read(other) else found.then(op, other, is_scaled=True)
        return None

    def _both(self, op: Operation, left: SSAValue, right: SSAValue) -> Linear | None:
        """A sum or difference; of more than one exponential, so that their number decides how large it is."""
        one, other = self.read(left), self.read(right)
        found = one.joined(other) if one and other else None
        return found and found.then(op, is_scaled=True)

    def _selected(self, op: arith.SelectOp) -> Linear | None:
        """One of two values that are linear or 0."""
        condition, *sides = op.operands
        forms = [form for side in sides if (form := self.read(side))]
        if not forms or any(not self.read(side) and not self.is_zero(side) for side in sides):
            return None
        found = forms[0] if len(forms) == 1 else forms[0].joined(forms[1])
        zeros = [side for side in sides if not self.read(side)]
        return found and replace(found.then(op, condition, *zeros), selects=found.selects or bool(zeros))

    def is_zero(self, value: SSAValue) -> bool:
        """Whether a float is the constant 0, or a tile of it."""
        return self.number_of(value) == 0

    def number_of(self, value: SSAValue) -> float:
        """The number that a float, or a tile of floats, is everywhere; NaN where it is not known."""
        owner = self.analysis.source(value).owner
        if isinstance(owner, BroadcastOp):
            return self.number_of(owner.source)
        if not isinstance(owner, arith.ConstantOp) or not isinstance(element_of(value), AnyFloat):
            return _UNKNOWN
        if isinstance(owner.value, FloatAttr):
            return owner.value.value.data
        found = set(owner.value.get_values()) if isinstance(owner.value, DenseIntOrFPElementsAttr) else set()
        return float(found.pop()) if len(found) == 1 else _UNKNOWN
