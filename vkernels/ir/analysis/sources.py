"""Values where they are made: phases hand them on."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from ..dialect import PhaseOp
from ..dialect.blocks import terminator


def source_of(value: SSAValue) -> SSAValue:
    """The value that a phase yields for its result; of another value, the value itself."""
    phase = value.owner
    if isinstance(phase, PhaseOp) and isinstance(value, OpResult):
        return source_of(terminator(phase.body.block).operands[value.index])
    return value
