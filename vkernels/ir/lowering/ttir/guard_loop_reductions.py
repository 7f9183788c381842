"""Keep Triton from moving reductions out of loops whose results need them in each iteration.

Where a loop ends with `update = op(carried, reduce(tile))`, Triton's pass `TritonGPUOptimizeThreadLocality` reduces
within threads only, and across threads after the loop. That is right where the loop adds up what it reduces by the same
operation, and reads the carried value nowhere else. Triton checks less: 3.6 refuses a kernel that reads the running
value (a cumulative sum), and 3.6 and 3.9 give other results where the operations differ (the largest of several sums).
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import arith, tt

_NOT_EQUAL = "ne"
_MAY_SUM_UP_LATER: tuple[type[Operation], ...] = (arith.AddfOp, arith.MulfOp, arith.MaximumfOp, arith.MinimumfOp)
"""Operations of which a loop's partial results may be combined in any order."""


def guard_loop_reductions(function: Operation) -> None:
    """Put `update` behind a select on a condition that always holds, where Triton must not move its reduction.

    The condition is that the loop has not ended: Triton's pass then sees no update of the carried value, and LLVM knows
    the condition.
    """
    for loop in list(function.walk()):
        if isinstance(loop, ForOp) and isinstance(end := loop.body.block.last_op, YieldOp):
            for number, update in enumerate(end.operands):
                if _looks_like_update(update, end) and not _is_plain(update, loop, number):
                    end.operands[number] = _guarded(update, loop, number, end)


def _looks_like_update(value: SSAValue, end: YieldOp) -> bool:
    """Whether a value has the form that Triton takes for the update of a running reduction."""
    op = value.owner
    return (
        isinstance(op, Operation)
        and op.parent is end.parent
        and len(op.operands) == 2
        and isinstance(value.type, TensorType)
        and isinstance(value.type.element_type, AnyFloat)
        and any(_is_used_here_alone(operand, op) for operand in op.operands)
    )


def _is_used_here_alone(value: SSAValue, user: Operation) -> bool:
    reduction = value.owner
    return isinstance(reduction, tt.ReduceOp) and reduction.parent is user.parent and value.has_one_use()


def _is_plain(update: SSAValue, loop: ForOp, number: int) -> bool:
    """Whether the loop does nothing with the carried value but combine it with what it reduces, by one operation."""
    op, carried = update.owner, loop.body.block.args[1 + number]
    assert isinstance(op, Operation)
    reductions = [operand.owner for operand in op.operands if isinstance(operand.owner, tt.ReduceOp)]
    if len(reductions) != 1 or carried not in op.operands or not carried.has_one_use():
        return False
    combined = [each for each in reductions[0].regions[0].block.ops if not isinstance(each, tt.ReduceReturnOp)]
    return isinstance(op, _MAY_SUM_UP_LATER) and [type(each) for each in combined] == [type(op)]


def _guarded(update: SSAValue, loop: ForOp, number: int, end: YieldOp) -> SSAValue:
    index: BlockArgument = loop.body.block.args[0]
    assert isinstance(update.type, TensorType)
    goes_on = arith.CmpiOp(index, loop.ub, _NOT_EQUAL)
    everywhere = tt.SplatOp(goes_on.result, tt.shape(update.type))
    chosen = arith.SelectOp(everywhere.results[0], update, loop.body.block.args[1 + number])
    for op in (goes_on, everywhere, chosen):
        op.location = end.location
        Rewriter.insert_op(op, InsertPoint.before(end))
    chosen.results[0].name_hint = update.name_hint
    return chosen.results[0]
