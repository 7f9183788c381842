"""Mark the functions of a kernel that a device may approximate, by `afn`, MLIR's flag for approximate functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ..dialect import ScatterOp, StoreOp, arith, element_of
from ..dialect.approximate import APPROXIMATE

_FUNCTIONS = (math.ExpOp, math.Exp2Op, arith.DivfOp)
"""What GPUs have faster ways for, good to the last few bits of f32."""

_STEPS = (math.FloorOp, math.CeilOp, math.TruncOp, math.RoundOp, math.RoundEvenOp)
"""Functions that a small error in their operand may change by 1."""

NARROW_BITS = 16


def allow_approximate(kernel: Operation, everywhere: bool = False) -> None:
    """Set `afn` on exponentials and divisions of a `vk.kernel`: on all, or on those whose results reach memory only
    after they are rounded to floats of 16 bits or fewer. What decides a comparison, a step or an integer stays exact.
    """
    exact = set() if everywhere else _exact_values(kernel)
    for op in kernel.walk():
        if isinstance(op, _FUNCTIONS) and op.results[0] not in exact:
            op.properties["fastmath"] = APPROXIMATE


def _exact_values(kernel: Operation) -> set[SSAValue]:
    """Every float that something else than a rounding to few bits, or float arithmetic before one, depends on."""
    exact: set[SSAValue] = set()
    waiting = [value for op in kernel.walk() if _needs_exact(op) for value in _floats(op.operands)]
    while waiting:
        value = waiting.pop()
        if value not in exact and not _is_narrow(value):
            exact.add(value)
            waiting += _floats(_sources(value))
    return exact


def _needs_exact(op: Operation) -> bool:
    """Whether an operation uses floats for more than other floats. A rounding to few bits does not."""
    if isinstance(op, StoreOp | ScatterOp):
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
