"""Find the dots that run on a CPU's dot unit, whose operands are words.

Packed operands are words in memory. Others are joined where they are loaded, if their tensors' strides let that be
cheap: of the operand along the lanes, rows of neighbouring elements are interleaved; of the other one, elements along
the contracted axis lie side by side, as a word. Matrix and block units, and those that take the other sign, need packs;
but a matrix unit reads its rows where they are if no tile or chunk of them has positions out of range.

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

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from ...analysis.words import narrow_dot, narrow_dots_beside
from ...dialect import DotOp, LoadOp, ReadOp, axes_of
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
    of the second one. `joined`: the loads whose elements become words where they are loaded; the others are packed."""

    on: OnUnit
    first: ReadOp
    second: ReadOp
    elements: str
    joined: tuple[ReadOp, ...] = ()

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
    """The dots that run on one of the units: those of two operands of a type that a unit takes, one of which is along
    the lanes, in chunks of whole words, each packed or joined to words where it is loaded."""
    found = (word_dot(planned, op, units) for op in planned.kernel.walk() if isinstance(op, DotOp))
    return {dot: word for dot, word in found if word is not None}


def word_dot(planned: PlannedKernel, dot: DotOp, units: Iterable[str]) -> tuple[DotOp, WordDot | None]:
    """A dot, and how it runs on the best unit that can take it; None if none can."""
    plan, axis = planned.plan, planned.axes[dot.axis.data]
    narrow = narrow_dot(dot)
    if narrow is None or plan.online or axis.is_tile or plan.lanes in (None, dot.axis.data) or axis.known == 0:
        return dot, None
    along = [plan.lanes in axes_of(load.result) for load in narrow.loads]
    if sum(along) != 1:
        return dot, None
    number = along.index(True)
    first, second = narrow.loads[number], narrow.loads[1 - number]
    of_first, of_second = narrow.elements[number], narrow.elements[1 - number]
    packed = {planned.kernel.parameter(name) for name in plan.packs}
    joined = tuple(load for load in (first, second) if load.base not in packed)
    runs = {first: plan.lanes, second: dot.axis.data}
    if not all(_can_join(planned, load, runs[load]) for load in joined):
        return dot, None
    for on in units_for(units, of_first, of_second):
        takes = not joined or on.joins or (on.unit.is_matrix and joined == (second,) and _is_whole(planned, second))
        if takes and _suits(planned, dot, on, second):
            return dot, WordDot(on, first, second, of_second, joined)
    return dot, None


def _can_join(planned: PlannedKernel, load: ReadOp, run: str) -> bool:
    """Whether a load's elements are joined to words where it is loaded: they lie side by side along `run`, and neither
    they nor what they are extended to has a home."""
    values = (load.result, next(iter(load.result.uses)).operation.results[0])
    parameters: dict[SSAValue, StringAttr] = dict(
        zip(planned.kernel.body.block.args, planned.kernel.parameters, strict=True)
    )
    if load.base not in parameters or any(planned.schedule.home_of(value) is not None for value in values):
        return False
    strides = planned.facts.strides.get(parameters[load.base].data, ())
    along = [stride for index, stride in zip(load.index, strides, strict=False) if run in dict(index.terms)]
    return along == [1] and all(dict(index.terms).get(run, 1) == 1 for index in load.index)


def _is_whole(planned: PlannedKernel, load: ReadOp) -> bool:
    """Whether all of a load's elements are there in every program and chunk, at positions of its axes."""
    if not isinstance(load, LoadOp) or load.mask is not None or load.within.data or load.guarded_dimensions:
        return False
    plain = all(
        len(index.terms) == 1 and index.terms[0][1] == 1 and load.offset_of(dimension) is None
        for dimension, index in enumerate(load.index)
    )
    return plain and all(planned.axes[axis].exact for axis in axes_of(load.result))


def _suits(planned: PlannedKernel, dot: DotOp, on: OnUnit, second: ReadOp) -> bool:
    """Whether a unit can take a dot in the plan's sizes."""
    size, lanes = planned.axes[dot.axis.data].size, planned.plan.lanes
    assert lanes is not None, "words need lanes"
    rows = prod(planned.axes[axis].size for axis in axes_of(second.result) if axis != dot.axis.data)
    columns = planned.axes[lanes].size
    if not on.unit.is_matrix:
        return size % on.unit.depth == rows % on.unit.side == columns % on.unit.side == 0
    blocks = MatrixBlocks.of(rows, columns)
    return size == on.unit.chunk and blocks.registers(narrow_dots_beside(dot)) <= MATRIX_REGISTERS
