"""What a loop over blocks adds to does not take registers from the loop within, which runs much more often."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from ...dialect import ReloadOp, SpillOp


def spill_totals(body: Block) -> None:
    """Spill the tiles that a loop over blocks carries past the loop in its body, which does not use them."""
    inner = next(op for op in body.ops if isinstance(op, scf.ForOp))
    within = set(inner.walk())
    for total in body.args[1:]:
        if isinstance(total.type, TensorType) and not any(use.operation in within for use in total.uses):
            spill = SpillOp(total)
            reload = ReloadOp(spill.spilled)
            total.replace_all_uses_with(reload.tile)
            spill.operands = [total]
            first = body.first_op
            assert first is not None
            body.insert_op_before(spill, first)
            body.insert_op_after(reload, inner)
