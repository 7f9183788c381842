"""Which operations loop, branch, or have an effect beside their results."""

from __future__ import annotations

from xdsl.dialects import scf

from ..dialect import AssertOp, PrintOp, RangeOp, ScatterOp, StoreOp

LOOPS = (RangeOp, scf.WhileOp, scf.ForOp)
CONTROL = (*LOOPS, scf.IfOp)
EFFECTS = (StoreOp, ScatterOp, PrintOp, AssertOp)
