"""Mark the functions of a kernel that a device may approximate, by `afn`, MLIR's flag for approximate functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from ..dialect import BroadcastOp, DotOp, RangeOp, SumOp, WriteOp, arith, element_of
from ..dialect.approximate import APPROXIMATE
from ..dialect.blocks import terminator

_FUNCTIONS = (math.ExpOp, math.Exp2Op, arith.DivfOp)
"""What GPUs have faster ways for, good to the last few bits of f32."""

_STEPS = (math.FloorOp, math.CeilOp, math.TruncOp, math.RoundOp, math.RoundEvenOp)
"""Functions that a small error in their operand may change by 1."""

NARROW_BITS = 16

_PRODUCTS = (arith.MulfOp, arith.DivfOp)
_SUMS = (arith.AddfOp, arith.SubfOp, arith.ExtFOp, arith.SelectOp, BroadcastOp, SumOp)
"""What is made of terms of its operands alone."""


def allow_approximate(kernel: Operation, everywhere: bool = False) -> None:
    """Set `afn` on exponentials and divisions of a `vk.kernel`: on all, or on those whose results reach memory only
    after they are rounded to floats of 16 bits or fewer. What decides a comparison, a step or an integer stays exact.
    A factor of sums of what was so rounded need not be exact either: its error is small beside theirs.
    """
    exact = set() if everywhere else _exact_values(kernel)
    for op in kernel.walk():
        if isinstance(op, _FUNCTIONS) and op.results[0] not in exact:
            op.properties["fastmath"] = APPROXIMATE


def _exact_values(kernel: Operation) -> set[SSAValue]:
    """Every float that something else than a rounding to few bits, or float arithmetic before one, depends on."""
    exact: set[SSAValue] = set()
    rounded = rounded_values(kernel)
    waiting = [value for op in kernel.walk() if _needs_exact(op) for value in _floats(op.operands)]
    while waiting:
        value = waiting.pop()
        if value not in exact and not _is_narrow(value):
            exact.add(value)
            factors = value.owner.operands if isinstance(value.owner, _PRODUCTS) else ()
            waiting += [each for each in factors if each in rounded] or _floats(_sources(value))
    return exact


def rounded_values(kernel: Operation) -> set[SSAValue]:
    """Float values all terms of which have a factor that was rounded to 16 bits or fewer, or are 0."""
    found = {value for op in kernel.walk() for value in _floats(_made_by(op))}
    while wrong := {value for value in found if not _is_rounded(value, found)}:
        found -= wrong
    return found


def _made_by(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    if isinstance(op, RangeOp):
        yield from op.carried


def _is_rounded(value: SSAValue, others: set[SSAValue]) -> bool:
    """Whether a value is so if others are."""
    op = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    if isinstance(op, RangeOp):
        number = op.results.index(value) if isinstance(value, OpResult) else op.carried.index(value)
        return {op.initial[number], terminator(op.body.block).operands[number]} <= others
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, FloatAttr) and op.value.value.data == 0
    if isinstance(op, arith.TruncFOp):
        return _is_narrow(value) or op.operands[0] in others
    if isinstance(op, DotOp):
        return op.sum in others and (op.left in others or op.right in others)
    if isinstance(op, _PRODUCTS):
        return any(each in others for each in op.operands)
    return isinstance(op, _SUMS) and all(each in others for each in _floats(op.operands))


def _needs_exact(op: Operation) -> bool:
    """Whether an operation uses floats for more than other floats. A rounding to few bits does not."""
    if isinstance(op, WriteOp):
        return not _is_narrow(op.value)
    if op.regions or op.has_trait(IsTerminator):
        return False  # what it hands on is followed by itself
    return isinstance(op, _STEPS) or not op.results or not all(map(_is_float, op.results))


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """What a value is computed from."""
    owner = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    if owner is not None:
        yield from owner.operands
        yield from _ends(owner)


def _ends(op: Operation) -> Iterator[SSAValue]:
    """What the regions of an operation hand to it or to their next run."""
    for region in op.regions:
        for block in region.blocks:
            if (last := block.last_op) is not None:
                yield from last.operands


def _floats(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [value for value in values if _is_float(value)]


def _is_float(value: SSAValue) -> bool:
    return isinstance(element_of(value.type), AnyFloat)


def _is_narrow(value: SSAValue) -> bool:
    element = element_of(value.type)
    return isinstance(element, AnyFloat) and element.bitwidth <= NARROW_BITS
