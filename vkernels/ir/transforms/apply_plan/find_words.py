"""Find the dots that run on a CPU's dot unit, whose operands are words.

Packed operands are words in memory. Others are joined where they are loaded or computed, if their tensors' strides let
that be cheap: of the operand along the lanes, rows of neighbouring elements are interleaved; of the other one, elements
along the contracted axis lie side by side, as a word. Homes of the first hold words, too, where nothing else takes
them; words of split elements take as much memory as f32, so only homes of f32 hold those. Block units, and those that
take the other sign, need packs. For a matrix unit joined words are written to memory first, those of rows that lie
across the contracted axis turned; it reads rows where they are if none is masked.

A unit that reads one operand with the other sign gets it with 128 added to each element, modulo 256. What that adds to
the sum, 128 times the sum of the other operand, is found while that operand is packed, and corrected first: exact in
arithmetic modulo 2^32.

A matrix unit takes chunks of 16 words, or of a power of two times as many, and tiles of sums whose blocks have room in
its registers. A block unit takes tiles of an even number of rows and of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType, StringAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from ...analysis.words import dots_sharing, load_of, narrow_dot, narrow_dots_along, only_user, shares_words
from ...dialect import DotOp, ScratchType, axes_of
from ...dot_units import MATRIX_REGISTERS, MatrixBlocks, OnUnit, units_for
from .planned_kernel import PlannedKernel


@dataclass(frozen=True)
class WordOperand:
    """How an operand of a dot unit is packed: in words of `depth` elements along the contracted axis.

    `flipped`: 128 is added to each element, modulo 256. `factor`: if not 0, the sum of each row's elements times it is
    kept too; `signed`: how these are read. `in_rows`: the words of a chunk lie side by side, row after row, as a matrix
    unit takes its rows; else those of neighbouring positions along the tile axis. `wide`: words have 64 bits, not 32.
    `split`: elements are split into two parts, in words of their own.
    """

    depth: int
    flipped: bool = False
    factor: int = 0
    signed: bool = True
    in_rows: bool = False
    wide: bool = False
    split: bool = False


@dataclass(frozen=True)
class HomeOfWords:
    """A home that holds words of `depth` elements along an axis, as integers of a type. `split`: of elements that are
    split into two parts."""

    axis: str
    depth: int
    element: IntegerType
    split: bool = False


@dataclass(frozen=True)
class WordDot:
    """A dot on a unit. `first`: the operand along the lanes; `second`: each of its words is for all lanes. `elements`:
    of the second one. `joined`: those whose elements become words where they are loaded or computed; the others are
    packed."""

    on: OnUnit
    first: SSAValue
    second: SSAValue
    elements: str
    joined: tuple[SSAValue, ...] = ()

    @property
    def operands(self) -> dict[SSAValue, WordOperand]:
        """How each operand is packed."""
        depth, on = self.on.unit.depth, self.on
        wide, split = on.unit.is_block, on.unit.is_split
        second = WordOperand(depth, False, on.factor, self.elements != "u8", on.unit.is_matrix, wide, split)
        return {self.first: WordOperand(depth, on.flipped, wide=wide, split=split), self.second: second}

    def in_order(self, first: SSAValue, second: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The words of both operands in the order in which the unit takes them."""
        return (second, first) if self.on.swapped else (first, second)


def find_word_dots(planned: PlannedKernel, units: Iterable[str]) -> dict[Operation, WordDot]:
    """The dots that run on one of the units: those of two operands of a type that a unit takes, one of which is along
    the lanes, in chunks of whole words, each packed or joined to words where it is loaded. Those that share an operand
    run on the same unit, or on none."""
    found = dict(word_dot(planned, op, units) for op in planned.kernel.walk() if isinstance(op, DotOp))
    return {dot: word for dot, word in found.items() if word is not None and _agree(found, dot, word)}


def _agree(found: Mapping[DotOp, WordDot | None], dot: DotOp, word: WordDot) -> bool:
    """Whether the dots that share operands with one run on its unit, too."""
    others = (found[other] for other in dots_sharing(dot))
    return all(other is not None and other.on == word.on for other in others)


def word_dot(planned: PlannedKernel, dot: DotOp, units: Iterable[str]) -> tuple[DotOp, WordDot | None]:
    """A dot, and how it runs on the best unit that can take it; None if none can."""
    plan, axis = planned.plan, planned.axes[dot.axis.data]
    narrow = narrow_dot(dot)
    if narrow is None or axis.is_tile or plan.lanes in (None, dot.axis.data) or axis.known == 0:
        return dot, None
    along = [plan.lanes in axes_of(value) for value in narrow.operands]
    if sum(along) != 1:
        return dot, None
    number = along.index(True)
    first, second = narrow.operands[number], narrow.operands[1 - number]
    of_first, of_second = narrow.elements[number], narrow.elements[1 - number]
    packed = {planned.kernel.parameter(name) for name in plan.packs}
    joined = tuple(value for value in (first, second) if (load := load_of(value)) is None or load.base not in packed)
    wide = [narrow.extensions[each].results[0] for each in (number, 1 - number)]
    if any(planned.schedule.home_of(value) is not None for value in (second, wide[1])):
        return dot, None
    if planned.schedule.home_of(wide[0]) not in (None, wide[0]):
        return dot, None
    if first in joined and not _can_join_lanes(planned, first, dot.axis.data):
        return dot, None
    if second in joined and not any(_lies_along(planned, second, each) for each in axes_of(second)):
        return dot, None
    in_rows = second not in joined or _lies_along(planned, second, dot.axis.data)
    in_rows = in_rows and not (first in joined and _lies_along(planned, first, dot.axis.data))
    for on in units_for(units, of_first, of_second):
        takes = not joined or (on.joins and in_rows)
        if on.unit.is_matrix:  # words that are joined are stored for one dot
            takes = not any(shares_words(narrow, each) for each in joined)
        if takes and _suits(planned, dot, on, second):
            return dot, WordDot(on, first, second, of_second, joined)
    return dot, None


def _can_join_lanes(planned: PlannedKernel, first: SSAValue, contracted: str) -> bool:
    """Whether the operand along the lanes is joined to words in registers: it has just the lanes and the contracted
    axis, and lies along one of them if it is loaded from a tensor."""
    lanes, load = planned.plan.lanes, load_of(first)
    assert lanes is not None, "words need lanes"
    if sum(planned.axes[axis].size > 1 for axis in axes_of(first)) > 2:
        return False
    is_computed = load is None or isinstance(load.base.type, ScratchType) or _has_home(planned, first)
    return is_computed or any(_lies_along(planned, first, axis) for axis in (lanes, contracted))


def _has_home(planned: PlannedKernel, first: SSAValue) -> bool:
    return planned.schedule.home_of(first) is not None


def words_in_homes(planned: PlannedKernel, dots: Mapping[Operation, WordDot]) -> dict[SSAValue, HomeOfWords]:
    """The values whose homes hold words: those that only go to a dot on a unit, before or after they are extended."""
    found: dict[SSAValue, HomeOfWords] = {}
    for dot, word in dots.items():
        assert isinstance(dot, DotOp), "words are of dots"
        narrow = narrow_dot(dot)
        assert narrow is not None, "found as a dot of words"
        extension = narrow.extensions[narrow.operands.index(word.first)]
        for value, user in ((word.first, extension), (extension.results[0], dot)):
            if word.on.unit.is_split and value is word.first:  # its words take twice as much memory
                continue
            if planned.schedule.home_of(value) is value and only_user(value) is user:
                unit = word.on.unit
                element = i64 if unit.is_block else i32
                found[value] = HomeOfWords(dot.axis.data, unit.depth, element, unit.is_split)
    return found


def _lies_along(planned: PlannedKernel, operand: SSAValue, run: str) -> bool:
    """Whether an operand is loaded from a tensor for a dot alone, has no home, and its elements lie side by side along
    `run`."""
    load = load_of(operand)
    parameters: dict[SSAValue, StringAttr] = dict(
        zip(planned.kernel.body.block.args, planned.kernel.parameters, strict=True)
    )
    if load is None or load.base not in parameters or planned.schedule.home_of(operand) is not None:
        return False
    strides = planned.facts.strides.get(parameters[load.base].data, ())
    along = [stride for index, stride in zip(load.index, strides, strict=False) if run in dict(index.terms)]
    return along == [1] and all(dict(index.terms).get(run, 1) == 1 for index in load.index)


def _suits(planned: PlannedKernel, dot: DotOp, on: OnUnit, second: SSAValue) -> bool:
    """Whether a unit can take a dot in the plan's sizes."""
    size, lanes = planned.axes[dot.axis.data].size, planned.plan.lanes
    assert lanes is not None, "words need lanes"
    rows = prod(planned.axes[axis].size for axis in axes_of(second) if axis != dot.axis.data)
    columns = planned.axes[lanes].size
    if not on.unit.is_matrix:
        return size % on.unit.depth == rows % on.unit.side == columns % on.unit.side == 0
    blocks = MatrixBlocks.of(rows, columns)
    return size in on.unit.chunks and blocks.registers(narrow_dots_along(dot)) <= MATRIX_REGISTERS
