"""Words, and dots on a CPU's dot unit: calls of functions that the backend defines for its processor."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import product

from xdsl.dialects.builtin import i32

from ...dialect import ReadOp, WordDotOp, WordsOp, element_of
from ...word_kinds import KINDS
from .addresses import AddressedAccess, load_word
from .blocks import is_block, lower_block_dot
from .dots_beside import dots_beside
from .emit import LlvmEmitter, vector
from .interleave import interleaved, interleaved_at_once
from .late_registers import LateNames, is_for_dots
from .matrix import is_for_matrices, is_matrix, lower_matrix_dot
from .split_words import split_register
from .staged import lie_in_rows, stage_words
from .state import LlvmState
from .tiles import Register, RegisterTile

UNIT = "vk_unit"
"""The beginning of a unit function's name; see `unit_name`."""
LEAST_LANES, MOST_LANES = 4, 16
"""Lanes of the narrowest and widest registers, of 16 and 64 bytes, that units take."""


def unit_name(kind: str, lanes: int) -> str:
    """The name of the function of `lanes` sums and words that adds one word's products to each sum.

    It takes the sums and the words of both operands, and returns the sums: vectors of `lanes` i32, sums of `bf16` f32.
    Of blocks, `lanes` is 4: the sums of two rows and two columns, whose words are two i64 each.
    """
    return f"{UNIT}_{kind}_{lanes}"


def declared_units(functions: str) -> list[str]:
    """Declarations of the unit functions that the text of functions calls."""
    found = sorted(set(re.findall(rf"@{UNIT}_(\w+?)_(\d+)\b", functions)))
    return [_declaration(kind, int(lanes)) for kind, lanes in found]


def _declaration(kind: str, lanes: int) -> str:
    sums, bits = vector(_sum_element(kind), lanes), KINDS[kind].bits
    words = vector(f"i{bits}", lanes * 32 // bits)
    return f"llvm.func @{unit_name(kind, lanes)}({sums}, {words}, {words}) -> {sums}"


def _sum_element(kind: str) -> str:
    return KINDS[kind].sum


def takes_words(operation: ReadOp, access: AddressedAccess) -> bool:
    """Whether a load's elements are loaded as words: each is for all lanes, its elements lie side by side and are all
    active or none."""
    users = [use.operation for use in operation.result.uses]
    if len(users) != 1 or not isinstance(users[0], WordsOp) or access.layout.has_lanes:
        return False
    axis = users[0].axis.data
    return access.known_step(axis) == 1 and not access.masks_along(axis)


def lower_words(state: LlvmState, operation: WordsOp) -> None:
    """`vk.words`: words as they are in memory, else elements of neighbouring registers by shuffles or shifts, elements
    of one register without instructions."""
    access, result, depth = state.for_units.get(operation.tile), state.layout(operation.result.type), operation.depth
    if is_for_matrices(operation):
        if access is not None and lie_in_rows(operation, access):
            state.for_units[operation.result] = access
        else:
            stage_words(state, operation, partial(_register, state, operation, depth))
        return
    make: list[Callable[[], str]]
    if access is not None:
        make = _loaded(state, access, operation, depth)
    else:
        make = [partial(_register, state, operation, depth, register) for register in result.registers()]
    element = str(element_of(operation.result))
    if is_for_dots(state, operation):
        state.values[operation.result] = RegisterTile(result, element, LateNames(make, {}))
    else:
        state.define(operation.result, [each() for each in make])


def _loaded(state: LlvmState, access: AddressedAccess, operation: WordsOp, depth: int) -> list[Callable[[], str]]:
    """What loads each word of a tile without lanes."""
    places = list(access.places())
    axis, word = operation.axis.data, str(element_of(operation.result))
    at = {
        tuple(register.positions.items()): place
        for register, place in zip(access.layout.registers(), places, strict=True)
    }
    firsts = ({**r.positions, axis: depth * r.positions[axis]} for r in state.layout(operation.result.type).registers())
    return [partial(load_word, access, at[tuple(first.items())], word) for first in firsts]


def _register(state: LlvmState, operation: WordsOp, depth: int, register: Register) -> str:
    """One register of words, of registers of elements."""
    emit, tile, axis, word = state.emit, state.tile(operation.tile), operation.axis.data, element_of(operation.result)
    if operation.is_split:
        return split_register(emit, tile, axis, register)
    if axis == state.lanes.axis:
        first, last = register.start * depth, (register.start + register.width) * depth
        inside = [n for n, (start, _) in enumerate(tile.layout.pieces) if first <= start < last]
        parts = [(tile.at(register.positions, n), tile.layout.pieces[n][1]) for n in inside]
        return _as_words(emit, parts, tile.element, str(word), register.width)
    rows = [{**register.positions, axis: register.positions[axis] * depth + n} for n in range(depth)]
    elements = [tile.at(row, register.piece) for row in rows]
    halves = [elements] if word == i32 else [elements[: depth // 2], elements[depth // 2 :]]
    join = _shifted if register.width == 1 else interleaved
    if is_for_matrices(operation) and register.width > 1:
        join = interleaved_at_once
    words = [join(emit, half, tile.element, register.width) for half in halves]
    return words[0] if len(words) == 1 else _joined(emit, words, register.width)


def _as_words(emit: LlvmEmitter, parts: list[tuple[str, int]], element: str, word: str, words: int) -> str:
    """Equal parts of a row of elements, side by side, as words."""
    while len(parts) > 1:
        width = 2 * parts[0][1]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [(emit.shuffle(a, b, range(width), element, width // 2), width) for (a, _), (b, _) in pairs]
    ((row, width),) = parts
    return emit.pure(f"llvm.bitcast {row} : {vector(element, width)} to {vector(word, words)}")


def _joined(emit: LlvmEmitter, halves: list[str], width: int) -> str:
    """Words of 64 bits from their lower and upper halves."""
    if width == 1:
        low, high = (emit.cast("arith.extui", half, "i32", "i64", 1) for half in halves)
        high = emit.pure(f"arith.shli {high}, {emit.number(32)} : i64")
        return emit.pure(f"arith.ori {low}, {high} : i64")
    lanes = [lane for pair in zip(range(width), range(width, 2 * width), strict=True) for lane in pair]
    both = emit.shuffle(halves[0], halves[1], lanes, "i32", width)
    return emit.pure(f"llvm.bitcast {both} : {vector('i32', 2 * width)} to {vector('i64', width)}")


def _shifted(emit: LlvmEmitter, elements: list[str], element: str, width: int) -> str:
    """Words whose elements are in the same lane of several registers."""
    type_, bits = vector("i32", width), int(element[1:])
    word = emit.cast("arith.extui", elements[0], element, "i32", width)
    for number, name in enumerate(elements[1:], 1):
        wide = emit.cast("arith.extui", name, element, "i32", width)
        places = emit.filled(str(number * bits), "i32", width)
        wide = emit.pure(f"arith.shli {wide}, {places} : {type_}")
        word = emit.pure(f"arith.ori {word}, {wide} : {type_}")
    return word


def lower_word_dot(state: LlvmState, operation: WordDotOp) -> None:
    """`vk.word_dot`: one instruction of the unit for each register and word; the sums stay in registers.

    Dots that follow it and share operands with it are lowered with it, row by row: so what they share is loaded once.
    """
    if operation.result in state.values:
        return
    if is_matrix(operation) or is_block(operation):
        (lower_matrix_dot if is_matrix(operation) else lower_block_dot)(state, operation)
        return
    dots, axis, kind = dots_beside(operation), operation.axis.data, operation.kind.data
    tiles = [tuple(map(state.tile, (dot.left, dot.right, dot.sum))) for dot in dots]
    sums = [list(total.names) for _, _, total in tiles]
    (left, _, first), *_ = tiles
    registers, pieces = list(first.layout.registers()), len(first.layout.pieces)
    for position, row in product(range(left.layout.size_of(axis)), range(0, len(registers), pieces)):
        for (left, right, _), names in zip(tiles, sums, strict=True):
            for number, register in enumerate(registers[row : row + pieces], row):
                at = register._replace(positions={**register.positions, axis: position})
                words = [side.spread(state.emit, at) for side in (left, right)]
                names[number] = _call(state.emit, kind, names[number], words, register.width)
    for dot, names in zip(dots, sums, strict=True):
        state.define(dot.result, names)


def _call(emit: LlvmEmitter, kind: str, total: str, words: list[str], width: int) -> str:
    """One call of a unit's function, in the first lanes of the narrowest register that it takes."""
    lanes, element = max(LEAST_LANES, width), _sum_element(kind)
    values = [emit.widened(total, element, width, lanes), *(emit.widened(w, "i32", width, lanes) for w in words)]
    types = [vector(element, lanes), *[vector("i32", lanes)] * 2]
    call = f"llvm.call @{unit_name(kind, lanes)}({', '.join(values)}) : ({', '.join(types)}) -> {types[0]}"
    return emit.narrowed(emit.pure(call), element, lanes, width)
