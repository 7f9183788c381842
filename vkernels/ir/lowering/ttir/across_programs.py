"""Persistent launches whose loop over chunks Triton joins with the loop over programs: loads of the next program's
first chunks then are under way while the last results of this one are computed and stored."""

from __future__ import annotations

from xdsl.dialects.scf import ForOp, WhileOp
from xdsl.ir import Operation

from vkernels.ir.analysis.accesses import accesses_of, may_alias
from vkernels.ir.dialect import BarrierOp, BufferOp, DotOp, LaunchOp, ScratchOp

FLATTEN = "tt.flatten"
"""What Triton 3.6 and 3.9 call it, as an attribute of the outer loop."""


def can_flatten(launch: LaunchOp, distinct: bool) -> bool:
    """Whether one loop of a launch can go on from each program to the next.

    There is just one, it is a loop of dots and in no branch; nothing that the launch writes is read in it, and programs
    have no memory that the next one would use too early. Programs are independent, so the next one's loads may pass
    this one's stores.
    """
    loops = [op for op in launch.body.walk() if isinstance(op, ForOp | WhileOp)]
    if len(loops) != 1 or not isinstance(loops[0], ForOp) or loops[0].parent_op() is not launch:
        return False
    has_dots = any(isinstance(op, DotOp) for op in loops[0].body.walk())
    return has_dots and not any(map(_is_own, launch.body.walk())) and not _reads_back(launch, loops[0], distinct)


def _is_own(op: Operation) -> bool:
    return isinstance(op, BarrierOp | BufferOp | ScratchOp)


def _reads_back(launch: LaunchOp, loop: ForOp, distinct: bool) -> bool:
    writes = [access for access in accesses_of(launch) if access.writes]
    return any(may_alias(write, access, distinct) for access in accesses_of(loop) for write in writes)
