"""Words that are written to the workspace, from where a matrix unit loads them: what is computed, gathered or masked.

Rows that lie side by side along the contracted axis are copied. Those that lie across it are loaded as vectors along
another axis, joined to words, and turned in registers, block by block. So are columns, if each lies along that axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ...dialect import ReadOp, WordDotOp, WordsOp, axes_of, sizes_of
from ...word_kinds import MATRIX_SIDE, SPLIT_ELEMENTS
from ..common import unsupported
from .addresses import Address, AddressedAccess
from .constants import below
from .emit import vector
from .interleave import interleaved_at_once
from .late_registers import is_written_before
from .matrix import is_for_matrices, is_plain
from .split_words import split_words
from .state import LlvmState
from .tiles import Register, element_bytes
from .turned import turn

_WORD = 4
"""Bytes."""


def takes_rows(operation: ReadOp, access: AddressedAccess) -> bool:
    """Whether a load's elements go to a matrix unit row by row: they lie side by side along the contracted axis, and
    are all active or none but for the end of that axis; or they do so along another axis. Or to its columns: the
    elements of each lane do."""
    users = [use.operation for use in operation.result.uses]
    if len(users) != 1 or not isinstance(users[0], WordsOp) or not is_for_matrices(users[0]):
        return False
    if access.layout.has_lanes:
        return _is_plain_across(access, users[0].axis.data)
    return _run(users[0], access) is not None


def lie_in_rows(operation: WordsOp, access: AddressedAccess) -> bool:
    """Whether a matrix unit can load words where their elements are: without masks, in rows that are equally far
    apart, which are not written before."""
    load, axis = operation.tile.owner, operation.axis.data
    if access.layout.has_lanes or not isinstance(load, ReadOp) or not is_plain(load) or operation.is_split:
        return False
    if any(is_written_before(load, use.operation) for use in operation.result.uses):
        return False
    others = [size for each, size in sizes_of(operation.tile).items() if each != axis and size > 1]
    return not access.is_scattered and access.known_step(axis) == 1 and len(others) <= 1


def stage_words(state: LlvmState, operation: WordsOp, make: Callable[[Register], str]) -> None:
    """Write the words that a dot on a matrix unit takes to the workspace. `make`: emits a register of them, where they
    are not loaded."""
    words = _StagedWords.of(state, operation)
    state.staged[operation.result] = words.start, _WORD * words.row
    access = state.for_units.get(operation.tile)
    if access is None:
        words.write(make)
    elif words.is_columns:
        words.turn_columns(access)
    else:
        run = _run(operation, access)
        assert run is not None, "else it is not loaded for a unit"
        if run == words.axis:
            words.copy_rows(access)
        else:
            words.turn_rows(access, run)


def _run(operation: WordsOp, access: AddressedAccess) -> str | None:
    """The axis along which vectors are loaded: the contracted one if that can be."""
    axes = [axis for axis, _ in access.layout.row_axes]
    axes.sort(key=lambda axis: axis != operation.axis.data)
    return next((axis for axis in axes if _lies_along(access, axis)), None)


def _lies_along(access: AddressedAccess, axis: str) -> bool:
    if access.known_step(axis) != 1 or (access.mask is not None and access.mask.varies_along(axis)):
        return False
    return not any(d.varies_along(axis) and (d.is_guarded or d.is_found_along(axis)) for d in access.dimensions)


def _is_plain_across(access: AddressedAccess, axis: str) -> bool:
    """Whether the elements of each lane lie side by side along the contracted axis, and lanes are equally far apart."""
    is_plain = access.mask is None and not access.is_guarded and not access.is_scattered
    return is_plain and {*access.bounds} <= {access.layout.lanes, axis} and access.known_step(axis) == 1


@dataclass(frozen=True)
class _StagedWords:
    """Words of an operation for a dot, in the workspace from `start` on: those of each position along the contracted
    axis side by side if they are its `left` operand's, the columns; else those of each row."""

    state: LlvmState
    operation: WordsOp
    dot: WordDotOp
    start: str

    @staticmethod
    def of(state: LlvmState, operation: WordsOp) -> _StagedWords:
        dots = [use.operation for use in operation.result.uses if isinstance(use.operation, WordDotOp)]
        size = _WORD * prod(sizes_of(operation.result).values())
        start = state.emit.offset("%workspace", state.workspace.take(size), "i8")
        made = [_StagedWords(state, operation, dot, start) for dot in dots]
        if len({(each.is_columns, each.row_axes) for each in made}) != 1:
            raise unsupported(operation, "dots on a matrix unit take the same words in different orders")
        return made[0]

    @property
    def is_columns(self) -> bool:
        return self.operation.result is self.dot.left

    @property
    def axis(self) -> str:
        """The contracted axis."""
        return self.operation.axis.data

    @cached_property
    def row(self) -> int:
        """Words side by side."""
        sizes = sizes_of(self.operation.result)
        along = sizes[self.axis]
        return prod(sizes.values()) // along if self.is_columns else along

    @cached_property
    def row_axes(self) -> tuple[str, ...]:
        """The axes of words among those of the sums, in their order."""
        return tuple(axis for axis in axes_of(self.dot.sum) if axis in axes_of(self.operation.result))

    @property
    def depth(self) -> int:
        """Elements of a word; 1 where they are split."""
        return self.operation.depth

    @property
    def width(self) -> int:
        """Elements that become a matrix unit's words at once, side by side."""
        return SPLIT_ELEMENTS if self.operation.is_split else MATRIX_SIDE * self.depth

    def write(self, make: Callable[[Register], str]) -> None:
        """Write words that are computed."""
        for register in self.state.layout(self.operation.result.type).registers():
            word = register.positions[self.axis]
            place = word * self.row + register.start if self.is_columns else self._place(register.positions, word)
            self._store(make(register), place, register.width)

    def copy_rows(self, access: AddressedAccess) -> None:
        """Copy rows as they are loaded, a matrix unit's words at once."""
        for register in access.layout.registers():
            position = register.positions[self.axis]
            if position % self.width == 0:
                loaded = _load(access, access.place(register), self.axis, position, self.width)
                for part, words in enumerate(self._as_words(loaded, access)):
                    word = position // self.depth + part * MATRIX_SIDE
                    self._store(words, self._place(register.positions, word), MATRIX_SIDE)

    def turn_rows(self, access: AddressedAccess, across: str) -> None:
        """Load vectors along another axis than the contracted one, and turn the words that they are joined to."""
        emit, element = self.state.emit, access.memory.element
        for register in access.layout.registers():
            position, first = register.positions[self.axis], register.positions[across]
            if position % self.width or first % MATRIX_SIDE:
                continue
            size = min(MATRIX_SIDE, sizes_of(self.operation.tile)[across] - first)
            rows = []
            for n in range(self.width):
                place = access.place(register._replace(positions={**register.positions, self.axis: position + n}))
                rows.append(_load(access, place, across, first, MATRIX_SIDE, size))
            for part, words in enumerate(self._joined(rows, element)):
                for number, row in enumerate(turn(emit, words, "i32", MATRIX_SIDE)[:size]):
                    at = {**register.positions, across: first + number}
                    self._store(row, self._place(at, position // self.depth + part * MATRIX_SIDE), MATRIX_SIDE)

    def turn_columns(self, access: AddressedAccess) -> None:
        """Load the words of each lane side by side, and turn them."""
        emit, lanes = self.state.emit, access.layout.lanes
        assert lanes is not None, "columns are along the lanes"
        for register in access.layout.registers():
            position = register.positions[self.axis]
            if position % self.width:
                continue
            first = access.place(register._replace(width=1)).pointer
            rows = []
            for lane in range(register.width):
                inside = below(emit, access.bounds[lanes], register.start + lane, 1) if lanes in access.bounds else None
                pointer = emit.offset(first, emit.multiply(lane, access.step(lanes)), access.memory.element)
                loaded = _load(access, Address(pointer, 1, inside, 1), self.axis, position, self.width)
                rows.append(self._as_words(loaded, access))
            for part, words in enumerate(zip(*rows, strict=True)):
                rest = [emit.filled("0", "i32", MATRIX_SIDE)] * (MATRIX_SIDE - register.width)
                for number, column in enumerate(turn(emit, [*words, *rest], "i32", MATRIX_SIDE)):
                    word = position // self.depth + part * MATRIX_SIDE + number
                    narrow = emit.narrowed(column, "i32", MATRIX_SIDE, register.width)
                    self._store(narrow, word * self.row + register.start, register.width)

    def _place(self, positions: Mapping[str, int], word: int) -> int:
        """The place of one of a row's words."""
        row = 0
        for axis in self.row_axes:
            row = row * sizes_of(self.dot.sum)[axis] + positions[axis]
        return row * self.row + word

    def _joined(self, rows: list[str], element: str) -> list[list[str]]:
        """Words of the elements in the same lane of several registers, and of split ones those of each part."""
        emit = self.state.emit
        if self.operation.is_split:
            halves = zip(rows[:MATRIX_SIDE], rows[MATRIX_SIDE:], strict=True)
            upper, lower = zip(*(split_words(emit, one, other, MATRIX_SIDE) for one, other in halves), strict=True)
            return [[*upper], [*lower]]
        starts = range(0, len(rows), self.depth)
        return [[interleaved_at_once(emit, rows[n : n + self.depth], element, MATRIX_SIDE) for n in starts]]

    def _as_words(self, elements: str, access: AddressedAccess) -> list[str]:
        """Words of elements side by side, and of split ones those of each part."""
        emit, element = self.state.emit, access.memory.element
        if self.operation.is_split:
            lanes = (range(MATRIX_SIDE), range(MATRIX_SIDE, SPLIT_ELEMENTS))
            one, other = (emit.shuffle(elements, elements, each, element, SPLIT_ELEMENTS) for each in lanes)
            return [*split_words(emit, one, other, MATRIX_SIDE)]
        types = f"{vector(element, self.width)} to {vector('i32', MATRIX_SIDE)}"
        return [emit.pure(f"llvm.bitcast {elements} : {types}")]

    def _store(self, words: str, place: int, width: int) -> None:
        pointer, type_ = self.state.emit.offset(self.start, place, "i32"), vector("i32", width)
        self.state.emit.line(f"llvm.store {words}, {pointer} {{alignment = {_WORD} : i64}} : {type_}, !llvm.ptr")


def _load(
    access: AddressedAccess, place: Address, axis: str, position: int, width: int, size: int | None = None
) -> str:
    """A vector of elements along an axis, of which there are `size`, or all; 0 where they are inactive."""
    emit, element = access.emit, access.memory.element
    type_, align = vector(element, width), element_bytes(element)
    pointer = place.pointer
    if place.mask is not None:
        pointer = emit.pure(f"arith.select {place.mask}, {pointer}, {emit.nothing()} : !llvm.ptr")
    if axis in access.bounds:
        mask = below(emit, access.bounds[axis], position, width)
    elif size is not None and size < width:
        mask = below(emit, position + size, position, width)
    else:
        return emit.operation(f"llvm.load {pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
    types = f"(!llvm.ptr, {vector('i1', width)}, {type_}) -> {type_}"
    rest = emit.filled("0", element, width)
    return emit.operation(f"llvm.intr.masked.load {pointer}, {mask}, {rest} {{alignment = {align} : i32}} : {types}")
