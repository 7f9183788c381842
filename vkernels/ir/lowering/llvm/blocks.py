"""Dots on a block unit: each instruction multiplies two rows by two columns of words, and adds to four sums; of longer
registers each 128 bits do so, with the same two rows and columns of their own.

The sums that a loop carries stay in blocks from before the loop until after it. Operands are loaded as pairs of words
straight from the memory where they are packed, columns for a whole register at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.scf import ForOp
from xdsl.ir import SSAValue

from ...dialect import LoadOp, WordDotOp, axes_of, sizes_of
from ...word_kinds import BLOCK_SIDE, KINDS
from ..common import unsupported
from .emit import vector
from .matrix import carried_dots
from .state import LlvmState

SUMS = BLOCK_SIDE * BLOCK_SIDE
"""Sums of a block, in 128 bits of a register."""
_WORD = "i64"
_WORD_BYTES = 8


def is_block(dot: WordDotOp) -> bool:
    """Whether a dot of words is for a block unit."""
    return KINDS[dot.kind.data].block


def block_name(kind: str, blocks: int) -> str:
    """The name of the function that adds the products of two rows and two columns of words to the sums of each of so
    many blocks."""
    return f"vk_unit_{kind}_{SUMS * blocks}"


@dataclass
class BlockDot:
    """A dot that is lowered. `sums`: the registers of its sums as blocks, of two rows and of each pair of columns in
    turn, as many as a register holds; in a block the left operand's positions are the rows."""

    state: LlvmState
    dot: WordDotOp
    sums: list[str] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        """The types of the blocks."""
        groups = (blocks for *_, width in self._pieces() for _, blocks in self._groups(width))
        return [vector(self._element, SUMS * blocks) for blocks in groups]

    def begin(self, total: SSAValue) -> None:
        """Take sums as blocks."""
        tile, emit = self.state.tile(total), self.state.emit
        self.sums = []
        for one, other, piece, width in self._pieces():
            rows = tile.at(one, piece), tile.at(other, piece)
            for first, blocks in self._groups(width):
                columns = range(first, first + BLOCK_SIDE * blocks, BLOCK_SIDE)
                lanes = [lane for column in columns for lane in self._lanes(column, width)]
                self.sums.append(emit.shuffle(*rows, lanes, self._element, width))

    def add(self) -> None:
        """Add the products."""
        columns, rows = self._along_lanes
        for position in range(sizes_of(columns)[self.dot.axis.data]):
            height = prod(size for axis, size in sizes_of(rows).items() if axis != self.dot.axis.data)
            of_rows = self._loaded(rows, position, [(row, 1) for row in range(0, height, BLOCK_SIDE)])
            of_columns = self._loaded(columns, position, self._columns)
            operands = [
                (self._repeated(row, blocks), column, blocks)
                for row in of_rows
                for column, (_, blocks) in zip(of_columns, self._columns, strict=True)
            ]
            ordered = operands if rows is self.dot.left else [(column, row, n) for row, column, n in operands]
            self.sums = [self._call(total, *pair) for total, pair in zip(self.sums, ordered, strict=True)]

    def end(self, result: SSAValue) -> None:
        """Define the sums, as vectors along the lanes."""
        layout = self.state.layout(result.type)
        names = [""] * len(layout.widths())
        blocks = iter(self.sums)
        for one, other, piece, width in self._pieces():
            groups = list(self._groups(width))
            taken = [next(blocks) for _ in groups]
            for row, positions in enumerate((one, other)):
                names[layout.register(positions, piece)] = self._row(taken, row, groups[0][1])
        self.state.define(result, names)

    @property
    def _element(self) -> str:
        return KINDS[self.dot.kind.data].sum

    @property
    def _along_lanes(self) -> tuple[SSAValue, SSAValue]:
        """The operand along the lanes, whose positions are columns, and the other one."""
        left, right = self.dot.left, self.dot.right
        return (left, right) if self.state.lanes.axis in axes_of(left) else (right, left)

    def _lanes(self, first: int, width: int) -> list[int]:
        """The lanes of a block in two rows of some width: those of two neighbouring columns."""
        lanes = [first, first + 1, width + first, width + first + 1]
        return lanes if self._along_lanes[1] is self.dot.left else [lanes[n] for n in (0, 2, 1, 3)]

    def _pieces(self) -> Iterator[tuple[dict[str, int], dict[str, int], int, int]]:
        """Two neighbouring rows' positions, number and width of each piece."""
        layout = self.state.layout(self.dot.sum.type)
        rows = list(layout.rows())
        if len(rows) % BLOCK_SIDE or any(width % BLOCK_SIDE for _, width in layout.pieces):
            raise unsupported(self.dot, "a block unit takes an even number of rows and of columns")
        for one, other in zip(rows[::2], rows[1::2], strict=True):
            for piece, (_, width) in enumerate(layout.pieces):
                yield one, other, piece, width

    def _groups(self, width: int) -> Iterator[tuple[int, int]]:
        """The first column of each register of blocks in a piece of some width, and the blocks in it."""
        blocks = min(max(1, self.state.lanes.width // SUMS), width // BLOCK_SIDE)
        return ((first, blocks) for first in range(0, width, BLOCK_SIDE * blocks))

    @property
    def _columns(self) -> list[tuple[int, int]]:
        """The first column of each register of blocks in a row of the tile, and the blocks in it."""
        pieces = self.state.layout(self.dot.sum.type).pieces
        return [(start + first, blocks) for start, width in pieces for first, blocks in self._groups(width)]

    def _row(self, registers: Sequence[str], row: int, blocks: int) -> str:
        """One of two rows of neighbouring blocks, so many in a register, as a vector."""
        emit, element = self.state.emit, self._element
        step, start = (1, BLOCK_SIDE * row) if self._along_lanes[1] is self.dot.left else (BLOCK_SIDE, row)
        width = SUMS * blocks
        lanes = [first + start + step * n for first in range(0, width, SUMS) for n in range(BLOCK_SIDE)]
        if len(registers) == 1:
            return emit.shuffle(registers[0], registers[0], lanes, element, width)
        both = [*lanes, *(width + lane for lane in lanes)]
        pairs = zip(registers[::2], registers[1::2], strict=True)
        parts = [emit.shuffle(a, b, both, element, width) for a, b in pairs]
        while len(parts) > 1:
            parts = [
                emit.shuffle(a, b, range(2 * width), element, width)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def _loaded(self, words: SSAValue, position: int, groups: Sequence[tuple[int, int]]) -> list[str]:
        """The words of an operand at a position along the contracted axis: from the first of each group on, those of so
        many blocks."""
        load, axis, emit = words.owner, self.dot.axis.data, self.state.emit
        access = self.state.for_units.get(words)
        others = [(a, size) for a, size in sizes_of(words).items() if a != axis and size > 1]
        if access is None or not isinstance(load, LoadOp) or len(others) != 1 or access.step(others[0][0]) != 1:
            raise unsupported(self.dot, "a block unit takes words that lie side by side")
        start = emit.offset(access.start, emit.multiply(access.step(axis), position), _WORD)
        return [
            emit.operation(
                f"llvm.load {emit.offset(start, first, _WORD)} {{alignment = {_WORD_BYTES} : i64}} : !llvm.ptr -> "
                f"{vector(_WORD, BLOCK_SIDE * blocks)}"
            )
            for first, blocks in groups
        ]

    def _repeated(self, pair: str, blocks: int) -> str:
        """The words of two rows for each of so many blocks."""
        lanes = [*range(BLOCK_SIDE)] * blocks
        return pair if blocks == 1 else self.state.emit.shuffle(pair, pair, lanes, _WORD, BLOCK_SIDE)

    def _call(self, total: str, left: str, right: str, blocks: int) -> str:
        sums, words = vector(self._element, SUMS * blocks), vector(_WORD, BLOCK_SIDE * blocks)
        call = f"llvm.call @{block_name(self.dot.kind.data, blocks)}({total}, {left}, {right})"
        return self.state.emit.pure(f"{call} : ({sums}, {words}, {words}) -> {sums}")


def blocks_of(state: LlvmState, loop: ForOp) -> dict[int, BlockDot]:
    """The dots on a block unit whose sums a loop carries as blocks, by the number of the carried value."""
    found = {number: BlockDot(state, dot) for number, dot in carried_dots(loop, is_block)}
    for number, dot in found.items():
        dot.begin(loop.iter_args[number])
        state.held[dot.dot] = dot
    return found


def lower_block_dot(state: LlvmState, operation: WordDotOp) -> None:
    """`vk.word_dot` on a block unit; its sums are blocks if a loop carries them so."""
    held = state.held.get(operation)
    if held is not None:
        held.add()
        return
    dot = BlockDot(state, operation)
    dot.begin(operation.sum)
    dot.add()
    dot.end(operation.result)
