"""Reductions and scans along one axis: registers among each other first, then the lanes of those that are left."""

from __future__ import annotations

from ...dialect import ReductionOp, ScanOp
from ...dialect.combining import kind_of
from .combine import Combiner, combiner
from .state import LlvmState
from .tiles import RegisterTile


def lower_reduction(state: LlvmState, operation: ReductionOp) -> None:
    """`vk.sum`, `vk.product`, `vk.max`, `vk.min`."""
    tile, axis = state.tile(operation.tile), operation.axis.data
    combine = combiner(state.emit, kind_of(operation), tile.element, operation)
    result = state.layout(operation.result.type)
    if 0 in tile.layout.sizes:
        names = [combine.neutral(width) for width in result.widths()]
    elif axis == tile.layout.lanes:
        names = [_along_lanes(combine, tile, positions) for positions in result.rows()]
    else:
        size = tile.layout.size_of(axis)
        names = [
            combine.many([tile.at({**r.positions, axis: p}, r.piece) for p in range(size)], r.width)
            for r in result.registers()
        ]
    state.define(operation.result, names)


def _along_lanes(combine: Combiner, tile: RegisterTile, positions: dict[str, int]) -> str:
    pieces = enumerate(tile.layout.pieces)
    return combine.pieces([(tile.at(positions, piece), width) for piece, (_, width) in pieces])


def lower_scan(state: LlvmState, operation: ScanOp) -> None:
    """`vk.scan`."""
    tile, axis = state.tile(operation.tile), operation.axis.data
    combine = combiner(state.emit, kind_of(operation), tile.element, operation)
    names = list(tile.names)
    scan = _scan_lanes if axis == tile.layout.lanes else _scan_rows
    scan(combine, tile, axis, names)
    state.define(operation.result, names)


def _scan_rows(combine: Combiner, tile: RegisterTile, axis: str, names: list[str]) -> None:
    """Each row combined with the one before it; rows come in order."""
    layout = tile.layout
    for here, register in enumerate(layout.registers()):
        if position := register.positions[axis]:
            before = layout.register({**register.positions, axis: position - 1}, register.piece)
            names[here] = combine.two(names[before], names[here], register.width)


def _scan_lanes(combine: Combiner, tile: RegisterTile, axis: str, names: list[str]) -> None:
    """Within a register in log2 steps; the last lane goes on to the next register."""
    carried = ""
    for here, register in enumerate(tile.layout.registers()):
        value = _scan_register(combine, names[here], register.width)
        if register.piece:
            before = combine.emit.splat(carried, tile.element, register.width)
            value = combine.two(before, value, register.width)
        carried = combine.emit.extract(value, register.width - 1, tile.element, register.width)
        names[here] = value


def _scan_register(combine: Combiner, value: str, width: int) -> str:
    distance = 1
    while distance < width:
        neutral = combine.neutral(width)
        lanes = [lane - distance if lane >= distance else width + lane for lane in range(width)]
        shifted = combine.emit.shuffle(value, neutral, lanes, combine.element, width)
        value = combine.two(shifted, value, width)
        distance *= 2
    return value
