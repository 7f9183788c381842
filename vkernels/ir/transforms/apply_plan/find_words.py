"""Find the dots that run on a CPU's dot unit, whose packed operands are words.

A unit that reads one operand unsigned gets it with 128 added to each element. What that adds to the sum, 128 times the
sum of the other operand, is found while that operand is packed, and subtracted first: exact in arithmetic modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ...analysis.words import narrow_loads
from ...dialect import DotOp, LoadOp, axes_of, element_of
from ...dot_units import DotUnit, unit_for
from .planned_kernel import PlannedKernel


@dataclass(frozen=True)
class WordOperand:
    """How an operand of a dot unit is packed: in words of `depth` elements along the contracted axis.

    `offset`: added to each element. `sum_factor`: if not 0, the sum of each row's elements times it is kept too.
    """

    depth: int
    offset: int = 0
    sum_factor: int = 0


@dataclass(frozen=True)
class WordDot:
    """A dot on a unit. `first`: the operand along the lanes, the unit's first; `second`: each of its words is
    for all lanes."""

    unit: DotUnit
    first: LoadOp
    second: LoadOp

    @property
    def operands(self) -> dict[SSAValue, WordOperand]:
        """How each operand is packed, by its load's result."""
        depth, offset = self.unit.depth, self.unit.offset
        return {
            self.first.result: WordOperand(depth, offset=offset),
            self.second.result: WordOperand(depth, sum_factor=-offset),
        }


def find_word_dots(planned: PlannedKernel, units: Iterable[str]) -> dict[Operation, WordDot]:
    """The dots that run on one of the units: those of two packed operands of a type that a unit takes, one of which
    is along the lanes, in chunks of whole words."""
    found = (word_dot(planned, op, units) for op in planned.kernel.walk() if isinstance(op, DotOp))
    return {dot: word for dot, word in found if word is not None}


def word_dot(planned: PlannedKernel, dot: DotOp, units: Iterable[str]) -> tuple[DotOp, WordDot | None]:
    """A dot, and how it runs on one of the units; None if it does not."""
    plan, axis = planned.plan, planned.axes[dot.axis.data]
    loads = narrow_loads(dot)
    if loads is None or plan.online or axis.is_tile or plan.lanes in (None, dot.axis.data):
        return dot, None
    unit = unit_for(units, element_of(loads[0].result))
    packed = {planned.kernel.parameter(name) for name in plan.packs}
    along = [load for load in loads if plan.lanes in axes_of(load.result)]
    if unit is None or axis.size % unit.depth or axis.known == 0 or len(along) != 1:
        return dot, None
    if not packed.issuperset(load.base for load in loads):
        return dot, None
    (first,) = along
    return dot, WordDot(unit, first, next(load for load in loads if load is not first))
