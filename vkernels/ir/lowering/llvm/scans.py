"""Scans by a function of two elements, register by register; the last element along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialect import LastOp, ScanByOp
from ..common import terminator_of
from .emit import vector
from .state import LlvmState
from .tiles import RegisterTile

Element = list[str]
"""A register of each tile."""


def lower_scan_by(state: LlvmState, operation: ScanByOp) -> None:
    """`vk.scan_by`: one combination for each row, or log2 steps within a register along the lanes."""
    tiles = [state.tile(tile) for tile in operation.tiles]
    layout = tiles[0].layout
    elements = [[*names] for names in zip(*(tile.names for tile in tiles), strict=True)]
    for here, register in enumerate(layout.registers()):
        if operation.axis.data == layout.lanes:
            elements[here] = _within(state, operation, tiles, elements[here], register.width)
            if register.piece:
                width = layout.pieces[register.piece - 1][1]
                last = [
                    _spread_last(state, name, tile.element, width, register.width)
                    for name, tile in zip(elements[here - 1], tiles, strict=True)
                ]
                elements[here] = combined(state, operation, last, elements[here], register.width)
        elif position := register.positions[operation.axis.data]:
            before = layout.register({**register.positions, operation.axis.data: position - 1}, register.piece)
            elements[here] = combined(state, operation, elements[before], elements[here], register.width)
    for number, result in enumerate(operation.results):
        state.define(result, [element[number] for element in elements])


def _spread_last(state: LlvmState, name: str, element: str, width: int, to: int) -> str:
    """The last lane of a register, in every lane of another."""
    last = name if width == 1 else state.emit.extract(name, width - 1, element, width)
    return last if to == 1 else state.emit.splat(last, element, to)


def _within(
    state: LlvmState, operation: ScanByOp, tiles: Sequence[RegisterTile], element: Element, width: int
) -> Element:
    """The scan of the lanes of one register."""
    emit, distance = state.emit, 1
    while distance < width:
        lanes = [max(lane - distance, 0) for lane in range(width)]
        before = [
            emit.shuffle(name, name, lanes, tile.element, width) for name, tile in zip(element, tiles, strict=True)
        ]
        bits = ", ".join("true" if lane >= distance else "false" for lane in range(width))
        mask = emit.constant(f"dense<[{bits}]>", vector("i1", width))
        after = combined(state, operation, before, element, width)
        element = [
            emit.select(mask, new, old, tile.element, width)
            for new, old, tile in zip(after, element, tiles, strict=True)
        ]
        distance *= 2
    return element


def combined(state: LlvmState, operation: ScanByOp, before: Sequence[str], after: Sequence[str], width: int) -> Element:
    """Two elements combined by the body, lane by lane."""
    block = operation.body.block
    with state.lanes_of_scalars(width):
        for argument, name in zip(block.args, (*before, *after), strict=True):
            state.define(argument, [name])
        state.walk(block)
        return state.names_of(terminator_of(block).operands)


def lower_last(state: LlvmState, operation: LastOp) -> None:
    """`vk.last`: the registers of the last row, or the last lane."""
    tile, axis = state.tile(operation.tile), operation.axis.data
    result = state.layout(operation.result.type)
    last = tile.layout.size_of(axis) - 1
    if axis != tile.layout.lanes:
        names = [tile.at({**r.positions, axis: last}, r.piece) for r in result.registers()]
    else:
        piece, width = len(tile.layout.pieces) - 1, tile.layout.pieces[-1][1]
        names = [_spread_last(state, tile.at(positions, piece), tile.element, width, 1) for positions in result.rows()]
    state.define(operation.result, names)
