"""Find the dots that run on a CPU's dot unit, whose packed operands are words.

A unit that reads one operand with the other sign gets it with 128 added to each element, modulo 256. What that adds to
the sum, 128 times the sum of the other operand, is found while that operand is packed, and corrected first: exact in
arithmetic modulo 2^32.

A matrix unit takes chunks of 16 words, and tiles of sums whose blocks have room in its registers. A block unit takes
tiles of an even number of rows and of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from ...analysis.words import narrow_dot, narrow_dots_beside
from ...dialect import DotOp, LoadOp, axes_of
from ...dot_units import MATRIX_REGISTERS, MatrixBlocks, OnUnit, units_for
from .planned_kernel import PlannedKernel


@dataclass(frozen=True)
class WordOperand:
    """How an operand of a dot unit is packed: in words of `depth` elements along the contracted axis.

    `flipped`: 128 is added to each element, modulo 256. `factor`: if not 0, the sum of each row's elements times it is
    kept too; `signed`: how these are read. `in_rows`: the words of a chunk lie side by side, row after row, as a matrix
    unit takes its rows; else those of neighbouring positions along the tile axis. `wide`: words have 64 bits, not 32.
    """

    depth: int
    flipped: bool = False
    factor: int = 0
    signed: bool = True
    in_rows: bool = False
    wide: bool = False


@dataclass(frozen=True)
class WordDot:
    """A dot on a unit. `first`: the operand along the lanes; `second`: each of its words is for all lanes. `elements`:
    of the second one."""

    on: OnUnit
    first: LoadOp
    second: LoadOp
    elements: str

    @property
    def operands(self) -> dict[SSAValue, WordOperand]:
        """How each operand is packed, by its load's result."""
        depth, on = self.on.unit.depth, self.on
        wide = on.unit.is_block
        second = WordOperand(depth, False, on.factor, self.elements != "u8", on.unit.is_matrix, wide)
        return {self.first.result: WordOperand(depth, on.flipped, wide=wide), self.second.result: second}

    def in_order(self, first: SSAValue, second: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The words of both operands in the order in which the unit takes them."""
        return (second, first) if self.on.swapped else (first, second)


def find_word_dots(planned: PlannedKernel, units: Iterable[str]) -> dict[Operation, WordDot]:
    """The dots that run on one of the units: those of two packed operands of a type that a unit takes, one of which
    is along the lanes, in chunks of whole words."""
    found = (word_dot(planned, op, units) for op in planned.kernel.walk() if isinstance(op, DotOp))
    return {dot: word for dot, word in found if word is not None}


def word_dot(planned: PlannedKernel, dot: DotOp, units: Iterable[str]) -> tuple[DotOp, WordDot | None]:
    """A dot, and how it runs on the best unit that can take it; None if none can."""
    plan, axis = planned.plan, planned.axes[dot.axis.data]
    narrow = narrow_dot(dot)
    if narrow is None or plan.online or axis.is_tile or plan.lanes in (None, dot.axis.data) or axis.known == 0:
        return dot, None
    packed = {planned.kernel.parameter(name) for name in plan.packs}
    along = [plan.lanes in axes_of(load.result) for load in narrow.loads]
    if sum(along) != 1 or not packed.issuperset(load.base for load in narrow.loads):
        return dot, None
    number = along.index(True)
    first, second = narrow.loads[number], narrow.loads[1 - number]
    of_first, of_second = narrow.elements[number], narrow.elements[1 - number]
    for on in units_for(units, of_first, of_second):
        if _suits(planned, dot, on, second):
            return dot, WordDot(on, first, second, of_second)
    return dot, None


def _suits(planned: PlannedKernel, dot: DotOp, on: OnUnit, second: LoadOp) -> bool:
    """Whether a unit can take a dot in the plan's sizes."""
    size, lanes = planned.axes[dot.axis.data].size, planned.plan.lanes
    assert lanes is not None, "words need lanes"
    rows = prod(planned.axes[axis].size for axis in axes_of(second.result) if axis != dot.axis.data)
    columns = planned.axes[lanes].size
    if not on.unit.is_matrix:
        return size % on.unit.depth == rows % on.unit.side == columns % on.unit.side == 0
    blocks = MatrixBlocks.of(rows, columns)
    return size == on.unit.chunk and blocks.registers(narrow_dots_beside(dot)) <= MATRIX_REGISTERS
