"""Dots on a matrix unit: calls of functions, each of which is one instruction on registers of the unit by number.

The sums that a loop carries stay in the unit's registers from before the loop until after it. Operands are loaded by
the unit straight from the memory where they are packed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue

from ...dialect import BroadcastOp, LaunchOp, LoadOp, ReadOp, WordDotOp, WordsOp, axes_of, sizes_of
from ...dot_units import MATRIX_REGISTERS, MatrixBlocks
from ...word_kinds import KINDS, MATRIX_SIDE
from ..common import terminator_of, unsupported
from .emit import Number, vector
from .state import LlvmState

MATRIX = "vk_matrix"
"""The beginning of a matrix unit's functions: `vk_matrix_ACTION` and numbers, see `MATRIX_ACTIONS`."""
MATRIX_ACTIONS = {
    "shape": "rows of the sums, their columns, and dots: sets the shapes of all registers",
    "zero": "a register: all sums 0",
    "load": "a register: from a pointer, with the bytes from one row to the next",
    "pass": "a register: likewise, past the nearest cache",
    "store": "a register: to a pointer, likewise",
    "dot": "the kind of words, registers of the sums, of the rows and of the columns: adds products to the sums",
    "release": "no register is in use any more",
}
"""What the functions do, and the numbers in their names."""
_CALL = re.compile(rf"@({MATRIX}_\w+)\b")
_WORD = 4


def is_matrix(dot: WordDotOp) -> bool:
    """Whether a dot of words is for a matrix unit."""
    return KINDS[dot.kind.data].matrix


def declared_matrix_functions(functions: str) -> list[str]:
    """Declarations of the functions of a matrix unit that the text of functions calls."""
    found = sorted(set(_CALL.findall(functions)))
    return [f"llvm.func @{name}({', '.join(_parameters(name))})" for name in found]


def _parameters(name: str) -> tuple[str, ...]:
    action = name.removeprefix(f"{MATRIX}_").split("_")[0]
    return ("!llvm.ptr", "i64") if action in ("load", "pass", "store") else ()


@dataclass(frozen=True)
class Shape:
    """The shapes of a matrix unit's registers: `rows` and `columns` of a tile of sums, and how many `dots` have one.

    The registers are those of all sums, row after row of blocks, then those of the rows' blocks and of the columns'.
    """

    rows: int
    columns: int
    dots: int = 1

    @property
    def blocks(self) -> MatrixBlocks:
        return MatrixBlocks.of(self.rows, self.columns)

    @property
    def fits(self) -> bool:
        """Whether the unit has as many registers."""
        return self.blocks.registers(self.dots) <= MATRIX_REGISTERS

    @property
    def registers(self) -> list[tuple[int, int]]:
        """Rows, and bytes of a row, of each register."""
        rows, columns = self.blocks.rows, self.blocks.columns
        sums = [(height, _WORD * width) for _ in range(self.dots) for height in rows for width in columns]
        operands = [(height, _WORD * MATRIX_SIDE) for height in rows]
        return [*sums, *operands, *((MATRIX_SIDE, _WORD * width) for width in columns)]

    def sum(self, dot: int, row: int, column: int) -> int:
        """The register of a block of sums."""
        return (dot * len(self.blocks.rows) + row) * len(self.blocks.columns) + column

    def row(self, number: int) -> int:
        """The register of a block of rows."""
        return self.sum(self.dots, 0, 0) + number

    def column(self, number: int) -> int:
        """The register of a block of columns."""
        return self.row(len(self.blocks.rows)) + number


def shape_of(dot: WordDotOp, dots: int = 1) -> Shape:
    """The shape of the registers for some dots like this one."""
    columns = prod(size for axis, size in sizes_of(dot.left).items() if axis != dot.axis.data)
    return Shape(prod(sizes_of(dot.sum).values()) // max(1, columns), columns, dots)


def held_sums(loop: ForOp) -> list[tuple[int, WordDotOp]]:
    """The dots on a matrix unit whose sums a loop carries, itself or through loops inside, each with the number of the
    carried value.

    None where sums have other uses, the loop has other such dots, or not all have room in the unit.
    """
    found = [op for op in loop.body.walk() if isinstance(op, WordDotOp) and is_matrix(op)]
    held = [*carried_dots(loop, is_matrix), *_carried_inside(loop)] if found else []
    alike = len({shape_of(dot) for dot in found}) == 1
    return held if alike and len(held) == len(found) and shape_of(found[0], len(found)).fits else []


def carried_dots(loop: ForOp, is_one: Callable[[WordDotOp], bool]) -> list[tuple[int, WordDotOp]]:
    """The dots of a kind whose sums a loop carries for them alone, each with the number of the carried value."""
    block, yielded = loop.body.block, list(terminator_of(loop.body.block).operands)
    found = []
    for dot in block.ops:
        if not isinstance(dot, WordDotOp) or not is_one(dot) or dot.sum not in block.args:
            continue
        number = block.args.index(dot.sum) - 1
        alone = dot.sum.has_one_use() and dot.result.has_one_use()
        if alone and dot.result in yielded and yielded.index(dot.result) == number:
            found.append((number, dot))
    return found


def _carried_inside(loop: ForOp) -> list[tuple[int, WordDotOp]]:
    """The dots whose sums a loop only hands on to a loop inside."""
    found, yielded = [], list(terminator_of(loop.body.block).operands)
    for inner in loop.body.block.ops:
        if not isinstance(inner, ForOp):
            continue
        for number, dot in held_sums(inner):
            total, result = inner.iter_args[number], inner.results[number]
            if total not in loop.body.block.args or not total.has_one_use() or not result.has_one_use():
                continue
            outer = loop.body.block.args.index(total) - 1
            if result in yielded and yielded.index(result) == outer:
                found.append((outer, dot))
    return found


def launch_shape(launch: LaunchOp) -> Shape | None:
    """The shape that the registers have throughout a launch; None without one, or if there are several."""
    loops = [loop for loop in launch.body.walk() if isinstance(loop, ForOp)]
    held: dict[WordDotOp, int] = {}
    for found in map(held_sums, loops):
        for _, dot in found:
            held.setdefault(dot, len(found))  # by the outermost loop that holds it
    dots = (op for op in launch.body.walk() if isinstance(op, WordDotOp) and is_matrix(op))
    shapes = {shape_of(dot, held.get(dot, 1)) for dot in dots}
    return shapes.pop() if len(shapes) == 1 else None


def uses_matrices(launch: LaunchOp) -> bool:
    """Whether a launch has dots on a matrix unit."""
    return any(isinstance(op, WordDotOp) and is_matrix(op) for op in launch.body.walk())


def matrix_call(state: LlvmState, action: str, *numbers: int | str, arguments: Sequence[str] = ()) -> None:
    """Emit a call of one of a matrix unit's functions."""
    name = "_".join([MATRIX, action, *map(str, numbers)])
    types = ", ".join(_parameters(name))
    state.emit.line(f"llvm.call @{name}({', '.join(arguments)}) : ({types}) -> ()")


@dataclass(frozen=True)
class MatrixDot:
    """A dot that is lowered: `number` among those that hold sums in the unit, whose registers have the `shape`."""

    state: LlvmState
    dot: WordDotOp
    shape: Shape
    number: int = 0

    def begin(self, total: SSAValue) -> None:
        """Take sums into the unit's registers."""
        if is_zero(total):
            for register, _ in self._sums():
                matrix_call(self.state, "zero", register)
            return
        memory = self._memory()
        for name, (pointer, type_) in zip(self.state.tile(total).names, self._pieces(memory), strict=True):
            self.state.emit.line(f"llvm.store {name}, {pointer} {{alignment = {_WORD} : i64}} : {type_}, !llvm.ptr")
        for register, offset in self._sums():
            self._move("load", register, memory, offset, self._row_bytes)

    def add(self) -> None:
        """Add the products."""
        rows, columns = self._operand(self.dot.right), self._operand(self.dot.left)
        kind = KINDS[self.dot.kind.data]
        for word in range(0, sizes_of(self.dot.left)[self.dot.axis.data], MATRIX_SIDE * kind.parts):
            before: tuple[int | None, int | None] = None, None
            for parts in kind.products:
                of_columns, of_rows = (None if each == old else each for each, old in zip(parts, before, strict=True))
                self._add_block(word, (of_rows, *rows), (of_columns, *columns))
                before = parts

    def _add_block(
        self, first: int, rows: tuple[int | None, str, Number], columns: tuple[int | None, str, Number]
    ) -> None:
        """Add the products of the words that the unit takes at once, from the `first` on. Each operand: the part of its
        elements to load, or None where the unit has it from before."""
        blocks, shape, emit = self.shape.blocks, self.shape, self.state.emit
        kind = self.dot.kind.data.removeprefix("matrix_").replace("split_f16", "bf16")
        part, memory, row_bytes = columns
        for n in range(len(blocks.columns) if part is not None else 0):
            down = emit.multiply(row_bytes, first + MATRIX_SIDE * (part or 0))
            self._move(
                self._loading(self.dot.left),
                shape.column(n),
                memory,
                emit.add(down, n * MATRIX_SIDE * _WORD),
                row_bytes,
            )
        part, memory, row_bytes = rows
        for m in range(len(blocks.rows)):
            if part is not None:
                offset = emit.add(emit.multiply(row_bytes, m * MATRIX_SIDE), (first + MATRIX_SIDE * part) * _WORD)
                self._move(self._loading(self.dot.right), shape.row(m), memory, offset, row_bytes)
            for n in range(len(blocks.columns)):
                matrix_call(self.state, "dot", kind, shape.sum(self.number, m, n), shape.row(m), shape.column(n))

    def end(self, result: SSAValue) -> None:
        """Define the sums, as vectors."""
        memory = self._memory()
        for register, offset in self._sums():
            self._move("store", register, memory, offset, self._row_bytes)
        loads = [
            f"llvm.load {pointer} {{alignment = {_WORD} : i64}} : !llvm.ptr -> {type_}"
            for pointer, type_ in self._pieces(memory)
        ]
        self.state.define_made(result, [partial(self.state.emit.operation, load) for load in loads])

    @property
    def _row_bytes(self) -> int:
        return _WORD * self.shape.columns

    def _memory(self) -> str:
        """Workspace for the sums, row after row."""
        size = self.shape.rows * self._row_bytes
        return self.state.emit.offset("%workspace", self.state.workspace.take(size), "i8")

    def _pieces(self, memory: str) -> Iterator[tuple[str, str]]:
        """Address and type of each vector of the sums, in order."""
        element, start = self.state.types_of([self.dot.sum])[0], 0
        element = element.rpartition("x")[2].rstrip(">")
        for width in self.state.layout(self.dot.sum.type).widths():
            yield self.state.emit.offset(memory, start, element), vector(element, width)
            start += width

    def _sums(self) -> Iterator[tuple[int, int]]:
        """The register and the first byte of each block of sums."""
        blocks = self.shape.blocks
        for m in range(len(blocks.rows)):
            for n in range(len(blocks.columns)):
                yield self.shape.sum(self.number, m, n), MATRIX_SIDE * (m * self._row_bytes + n * _WORD)

    def _move(self, action: str, register: int, pointer: str, offset: Number, row_bytes: Number) -> None:
        emit = self.state.emit
        matrix_call(
            self.state, action, register, arguments=(emit.offset(pointer, offset, "i8"), emit.number(row_bytes))
        )

    def _loading(self, words: SSAValue) -> str:
        """The action that loads an operand: what the program has written itself is near, and stays there."""
        passes = self.dot.passing is not None and words is getattr(self.dot, self.dot.passing.data)
        return "pass" if passes and words not in self.state.staged else "load"

    def _operand(self, words: SSAValue) -> tuple[str, Number]:
        """The first word of an operand in memory, and the bytes from one row to the next: of the rows' operand its
        words are side by side, of the columns' operand those of neighbouring columns."""
        if words in self.state.staged:
            return self.state.staged[words]
        load, axis = words.owner, self.dot.axis.data
        access, element = self.state.for_units.get(words), _WORD
        if isinstance(load, WordsOp):
            elements = load.tile
            load, element = elements.owner, _WORD * sizes_of(words)[axis] // sizes_of(elements)[axis]
        if access is None or not isinstance(load, LoadOp):
            raise unsupported(self.dot, "a matrix unit takes words that are loaded for it alone")
        others = [a for a, size in sizes_of(words).items() if a != axis and size > 1]
        (inner, outer) = (axis, others) if words is self.dot.right else (self.state.lanes.axis, [axis])
        if len(outer) > 1 or any(access.step(each) != 1 for each in [inner] if each in axes_of(words)):
            raise unsupported(self.dot, "a matrix unit takes words that lie side by side")
        return access.start, self.state.emit.multiply(access.step(outer[0]) if outer else MATRIX_SIDE, element)


def is_zero(value: SSAValue) -> bool:
    """Whether every element is known to be 0."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return is_zero(owner.source)
    if not isinstance(owner, ConstantOp):
        return False
    if isinstance(owner.value, DenseIntOrFPElementsAttr):
        return not any(owner.value.get_values())
    return isinstance(owner.value, IntegerAttr | FloatAttr) and not owner.value.value.data


def is_for_matrices(operation: WordsOp) -> bool:
    """Whether only dots on a matrix unit take the words."""
    users = [use.operation for use in operation.result.uses]
    return bool(users) and all(isinstance(user, WordDotOp) and is_matrix(user) for user in users)


def is_plain(load: ReadOp) -> bool:
    """Whether a load has no masks."""
    return load.mask is None and not load.bounds and not load.guarded_dimensions


def is_for_units(operation: ReadOp) -> bool:
    """Whether dots on a matrix or block unit load all that a load gives by themselves, without masks."""
    value = operation.result
    return is_plain(operation) and bool(value.uses) and all(_loads(use.operation, value) for use in value.uses)


def _loads(user: Operation, words: SSAValue) -> bool:
    """Whether a dot's unit loads its words, which are no sums."""
    if not isinstance(user, WordDotOp) or words is user.sum:
        return False
    kind = KINDS[user.kind.data]
    return kind.matrix or kind.block


def set_shape(state: LlvmState, shape: Shape) -> None:
    """Set the shapes of the unit's registers, unless the launch has."""
    if state.matrix_shape != shape:
        matrix_call(state, "shape", shape.rows, shape.columns, shape.dots)


def lower_matrix_dot(state: LlvmState, operation: WordDotOp) -> None:
    """`vk.word_dot` on a matrix unit; its sums are in the unit if a loop holds them there."""
    if (held := state.held.get(operation)) is not None:
        held.add()
        return
    dot = MatrixDot(state, operation, shape_of(operation))
    set_shape(state, dot.shape)
    dot.begin(operation.sum)
    dot.add()
    dot.end(operation.result)
