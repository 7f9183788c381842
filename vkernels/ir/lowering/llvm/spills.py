"""Tiles that are spilled to a program's workspace and reloaded."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from ...dialect import ReloadOp, SpillOp
from .state import AddressedMemory, LlvmState
from .tiles import element_bytes


def lower_spill(state: LlvmState, operation: SpillOp) -> None:
    """`vk.spill`. Volatile: LLVM would otherwise keep the tile in registers."""
    tile = state.tile(operation.tile)
    size = element_bytes(tile.element) * sum(tile.layout.widths())
    place = state.emit.offset("%workspace", state.workspace.take(size), "i8")
    spilled = state.values[operation.spilled] = AddressedMemory(place, tile.element, (), ())
    for name, (address, alignment, type_) in zip(tile.names, _pieces(state, spilled, operation.tile), strict=True):
        state.emit.line(f"llvm.store volatile {name}, {address} {alignment} : {type_}, !llvm.ptr")


def lower_reload(state: LlvmState, operation: ReloadOp) -> None:
    """`vk.reload`."""
    pieces = _pieces(state, state.memory(operation.spilled), operation.tile)
    loads = [f"llvm.load volatile {address} {alignment} : !llvm.ptr -> {type_}" for address, alignment, type_ in pieces]
    state.define(operation.tile, [state.emit.operation(load) for load in loads])


def _pieces(state: LlvmState, spilled: AddressedMemory, tile: SSAValue) -> Iterator[tuple[str, str, str]]:
    """Address, alignment and type of each register of a tile, one behind the other."""
    size, start = element_bytes(spilled.element), 0
    for width, type_ in zip(state.layout(tile.type).widths(), state.types_of([tile]), strict=True):
        yield state.emit.offset(spilled.pointer, start, spilled.element), f"{{alignment = {size} : i64}}", type_
        start += width
