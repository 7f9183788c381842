"""Give dots of narrow elements loads of their own where sums along the same axis need the same elements.

A CPU's unit takes such elements as they are in memory, in words; sums take them one by one, extended. Apart, a dot's
operand can be packed for the unit, and the sums have a loop of their own (`analysis/schedule/nests.py`). In one loop,
as on GPUs, the loads are the same instruction.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..analysis.words import EXTENSIONS
from ..dialect import DotOp, KernelOp, LoadOp, ReductionOp, element_of
from ..dialect.words import depth_of


def own_operands(kernel: KernelOp) -> None:
    """Load what such a dot shares with sums once more, for the dot alone. Nothing writes between the two loads."""
    for dot in [op for op in kernel.walk() if isinstance(op, DotOp)]:
        sides = (dot.left, dot.right)
        if all(_narrow_load(side) is not None for side in sides):
            for number, side in enumerate(sides):
                load = _narrow_load(side)
                if load is not None and _feeds_sums(load, dot):
                    dot.operands[number] = _again(load, side)


def _narrow_load(operand: SSAValue) -> LoadOp | None:
    """The load of elements that units take, of which an operand is the extension."""
    extension = operand.owner
    if not isinstance(extension, EXTENSIONS):
        return None
    load = extension.operands[0].owner
    return load if isinstance(load, LoadOp) and depth_of(element_of(load.result)) is not None else None


def _feeds_sums(load: LoadOp, dot: DotOp) -> bool:
    """Whether what is loaded is reduced in the dot's block along the dot's axis, after elementwise operations."""
    waiting, seen = [load.result], set[Operation]()
    while waiting:
        for use in waiting.pop().uses:
            user = use.operation
            if isinstance(user, ReductionOp) and user.parent is dot.parent and user.axis == dot.axis:
                return True
            if user not in seen and not isinstance(user, DotOp) and not user.regions:
                seen.add(user)
                waiting += user.results
    return False


def _again(load: LoadOp, operand: SSAValue) -> SSAValue:
    """An operand that is loaded and extended by operations of its own."""
    extension = operand.owner
    assert isinstance(extension, EXTENSIONS), "see `_narrow_load`"
    loaded = load.clone()
    extended = extension.clone({load.result: loaded.result})
    for made, known in ((loaded, load), (extended, extension)):
        made.location = known.location
    Rewriter.insert_op([loaded, extended], InsertPoint.after(load))
    return extended.results[0]
