"""Find maxima that need not be NaN where an element is: all that they decide is NaN there for other reasons.

The maximum of a softmax is subtracted from the elements. Where one of them is NaN, so is its exponential, and with it
the sum, by which everything is divided. AMD's GPUs take three instructions for a maximum of two numbers that is NaN
where one of them is, and else one or half of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnitAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ..analysis.accesses import ancestors, has_effect
from ..dialect import (
    AccessOp,
    BroadcastOp,
    DotOp,
    KernelOp,
    MaxOp,
    PhaseOp,
    RangeOp,
    ScatterOp,
    StoreOp,
    SumOp,
    YieldOp,
    arith,
    axes_of,
    element_of,
)
from ..dialect.blocks import terminator

_HANDING_ON = (
    arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.NegfOp, arith.ExtFOp, arith.TruncFOp, math.ExpOp,
    math.Exp2Op, math.LogOp, math.Log2Op, math.Log1pOp, math.SqrtOp, BroadcastOp,
)  # fmt: skip
"""Operations whose result is NaN where an operand is."""
_NARROWEST = 16
"""Bits of floats at least: of fewer, some formats have no NaN."""


@dataclass(frozen=True)
class IgnoreNan(ModulePass):
    """Mark maxima of kernels as written that may ignore NaN without a difference in what is stored.

    The mark holds whatever plan the kernel gets: a pass that computes elements again finds NaN again.
    """

    name = "ignore-nan"
    result = "vk IR in phases; maxima that may ignore NaN are marked"

    def apply(self, context: Context, module: ModuleOp) -> None:
        for kernel in module.ops:
            if isinstance(kernel, KernelOp):
                for op in [each for each in kernel.walk() if isinstance(each, MaxOp)]:
                    if may_ignore_nan(kernel, op):
                        op.ignores_nan = UnitAttr()


def may_ignore_nan(kernel: KernelOp, maximum: MaxOp) -> bool:
    """Whether all that a kernel stores is the same, or NaN, if a maximum is any number where an element is NaN."""
    around = takewhile(lambda op: op is not kernel, ancestors(maximum))
    loops = [op for op in around if not isinstance(op, PhaseOp)]
    if not isinstance(element_of(maximum.tile), AnyFloat) or not all(isinstance(op, RangeOp) for op in loops):
        return False
    rows = frozenset(axes_of(maximum.result))
    nan = _Nan(rows, maximum.axis.data, elements={maximum.tile})
    for loop in loops:  # the innermost first
        assert isinstance(loop, RangeOp)
        nan.spread(loop.body.block)
        nan = nan.after(loop)
    nan.spread(kernel.body.block)
    effects = _Effects(_depending_on(maximum.result), nan, loops)
    return all(map(effects.are_same, kernel.walk()))


@dataclass
class _Nan:
    """Values that are NaN where an element of the maximum's tile is.

    `elements`: of the tile's axes and maybe more, NaN where that element is. `wholes`: without the axis `along` of the
    maximum, NaN where any element along it is; they have all `rows`, the axes of the maximum.
    """

    rows: frozenset[str]
    along: str
    elements: set[SSAValue] = field(default_factory=set)
    wholes: set[SSAValue] = field(default_factory=set)

    def spread(self, block: Block) -> None:
        """Add what the operations of a block compute from values that are NaN."""
        for op in block.ops:
            if isinstance(op, PhaseOp):
                self._through_phase(op)
            elif isinstance(op, RangeOp):
                self._through_loop(op)
            elif isinstance(op, SumOp):
                self._sum(op.result, [op.tile], op.axis.data)
            elif isinstance(op, DotOp):
                self._sum(op.result, [op.left, op.right], op.axis.data)
                if op.sum in self.wholes:
                    self.wholes.add(op.result)
            elif isinstance(op, _HANDING_ON) and _has_nan(element_of(op.results[0].type)):
                for known in (self.elements, self.wholes):
                    if any(each in known for each in op.operands):
                        known.add(op.results[0])

    def _sum(self, result: SSAValue, terms: Sequence[SSAValue], axis: str) -> None:
        is_along = axis == self.along and any(each in self.elements for each in terms)
        if is_along or (axis not in self.rows and any(each in self.wholes for each in terms)):
            self.wholes.add(result)

    def _through_phase(self, phase: PhaseOp) -> None:
        self.spread(phase.body.block)
        for result, value in zip(phase.results, terminator(phase.body.block).operands, strict=True):
            for known in (self.elements, self.wholes):
                if value in known:
                    known.add(result)

    def _through_loop(self, loop: RangeOp) -> None:
        """What a loop that has not the maximum does to values that it begins with."""
        first = {number for number, value in enumerate(loop.initial) if value in self.wholes}
        for number in self.lasting(loop, first):
            self.wholes |= {loop.results[number], loop.carried[number]}
        self.spread(loop.body.block)

    def after(self, loop: RangeOp) -> _Nan:
        """What is NaN behind a loop if it was so in any of its iterations, which these values are of."""
        ends = terminator(loop.body.block).operands
        last = {number for number, value in enumerate(ends) if value in self.wholes}
        lasting = _Nan(self.rows, self.along).lasting(loop, last)
        return _Nan(self.rows, self.along, wholes={loop.results[number] for number in lasting})

    def lasting(self, loop: RangeOp, numbers: set[int]) -> set[int]:
        """Those of some values that a loop carries that stay NaN from each iteration to the next if all of them are.
        What a ragged range does for elements that have finished changes none of theirs."""
        ends = terminator(loop.body.block).operands
        while True:
            inside = _Nan(self.rows, self.along, wholes={*self.wholes, *(loop.carried[number] for number in numbers)})
            inside.spread(loop.body.block)
            left = {number for number in numbers if ends[number] in inside.wholes}
            if left == numbers:
                return left
            numbers = left


def _has_nan(element: Attribute) -> bool:
    return isinstance(element, AnyFloat) and element.bitwidth >= _NARROWEST


@dataclass(frozen=True)
class _Effects:
    """Whether operations that depend on the maximum do the same, or store NaN. `touched`: all that depends on it;
    `nan`: what is NaN behind the `loops` around it."""

    touched: set[SSAValue]
    nan: _Nan
    loops: Sequence[Operation]

    def are_same(self, op: Operation) -> bool:
        depending = [value for value in op.operands if value in self.touched]
        if not depending:
            return True
        if isinstance(op, YieldOp):
            return isinstance(op.parent_op(), PhaseOp | RangeOp)
        if isinstance(op, RangeOp):
            return op.start not in self.touched and op.stop not in self.touched
        if isinstance(op, StoreOp | ScatterOp):
            is_behind = not any(around in self.loops for around in ancestors(op))
            return is_behind and depending == [op.value] and op.atomic is None and self._is_same(op.value)
        return not (isinstance(op, AccessOp) or op.regions or not op.results or has_effect(op))

    def _is_same(self, value: SSAValue) -> bool:
        """Whether a value does not depend on the maximum, or is NaN where that could be."""
        if value not in self.touched or value in self.nan.wholes:
            return True
        op = value.owner
        if isinstance(op, arith.SelectOp):
            return op.cond not in self.touched and self._is_same(op.lhs) and self._is_same(op.rhs)
        if isinstance(op, PhaseOp) and isinstance(value, OpResult):
            return self._is_same(terminator(op.body.block).operands[value.index])
        return isinstance(op, arith.ExtFOp | arith.TruncFOp | BroadcastOp) and self._is_same(op.operands[0])


def _depending_on(value: SSAValue) -> set[SSAValue]:
    """A value and all that is computed from it."""
    found, waiting = set[SSAValue](), [value]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            for use in value.uses:
                waiting += _made_of(use.operation, use.index)
    return found


def _made_of(op: Operation, index: int) -> Iterator[SSAValue]:
    """What an operation makes of one of its operands."""
    around = op.parent_op()
    if isinstance(op, YieldOp) and around is not None:
        yield around.results[index]
        if isinstance(around, RangeOp):
            yield around.carried[index]
    elif isinstance(op, RangeOp):
        number = index - 2
        if number >= 0:
            yield from (op.results[number], op.carried[number])
    else:
        yield from op.results
