"""Loads and stores: a vector where the lanes lie side by side, a gather or scatter where they do not."""

from __future__ import annotations

from xdsl.dialects.builtin import i1

from ...dialect import AccessOp, ScatterOp, StoreOp, element_of
from .addresses import Address, AddressedAccess
from .atomics import lower_atomic
from .emit import LlvmEmitter, vector
from .state import LlvmState
from .tiles import element_bytes, memory_element


def lower_load(state: LlvmState, operation: AccessOp) -> None:
    """`vk.load` and `vk.gather`."""
    access = AddressedAccess(state, operation)
    element = memory_element(element_of(operation.tile), operation)
    names = [load(access, place, element) for place in access.places()]
    if element_of(operation.tile) == i1:
        names = [_is_set(state.emit, name, width) for name, width in zip(names, access.layout.widths(), strict=True)]
    state.define(operation.tile, names)


def load(access: AddressedAccess, place: Address, element: str) -> str:
    """The elements of one place; 0 where they are inactive."""
    emit, width = access.emit, place.width
    type_, align = vector(element, width), element_bytes(element)
    if width == 1 and place.mask is not None:
        return _load_if(emit, place.pointer, place.mask, element)
    if place.mask is None and (width == 1 or place.step == 1):
        return emit.operation(f"llvm.load {place.pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
    if place.mask is None and place.step == 0:
        scalar = emit.operation(f"llvm.load {place.pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {element}")
        return emit.splat(scalar, element, width)
    mask_type = vector("i1", width)
    mask = place.mask or emit.filled("true", "i1", width)
    rest = emit.filled(zero(element), element, width)
    if place.step == 1:
        types = f"(!llvm.ptr, {mask_type}, {type_}) -> {type_}"
        name, pointer = "masked.load", place.pointer
    else:
        types = f"({vector('!llvm.ptr', width)}, {mask_type}, {type_}) -> {type_}"
        name, pointer = "masked.gather", access.pointers(place)
    return emit.operation(f"llvm.intr.{name} {pointer}, {mask}, {rest} {{alignment = {align} : i32}} : {types}")


def zero(element: str) -> str:
    """0 as MLIR writes it."""
    return "0.0" if element.startswith("f") else "0"


def _load_if(emit: LlvmEmitter, pointer: str, condition: str, element: str) -> str:
    """One element, or 0: from the address of a 0 where it is inactive. A branch for each would cost more than the rest
    of a masked loop of products."""
    place = emit.pure(f"arith.select {condition}, {pointer}, {emit.nothing()} : !llvm.ptr")
    return emit.operation(f"llvm.load {place} {{alignment = {element_bytes(element)} : i64}} : !llvm.ptr -> {element}")


def _is_set(emit: LlvmEmitter, byte: str, width: int) -> str:
    none = emit.filled("0", "i8", width)
    return emit.pure(f"arith.cmpi ne, {byte}, {none} : {vector('i8', width)}")


def lower_store(state: LlvmState, operation: StoreOp | ScatterOp) -> None:
    """`vk.store` and `vk.scatter`."""
    if operation.atomic is not None:
        lower_atomic(state, operation)
        return
    access = AddressedAccess(state, operation)
    element = memory_element(element_of(operation.tile), operation)
    streaming = operation.streaming is not None
    for value, place in zip(state.tile(operation.tile).names, access.places(), strict=True):
        if element_of(operation.tile) == i1:
            types = f"{vector('i1', place.width)} to {vector('i8', place.width)}"
            value = state.emit.pure(f"arith.extui {value} : {types}")
        store(access, place, value, element, streaming)


def store(access: AddressedAccess, place: Address, value: str, element: str, streaming: bool = False) -> None:
    """Write the active elements of one place; `streaming`, past the caches where it is one aligned vector."""
    emit, width = access.emit, place.width
    type_, align = vector(element, width), element_bytes(element)
    if place.mask is None and streaming and place.step == 1 and width * align in (16, 32, 64):
        _store_past_caches(emit, place, value, type_, width * align, align)
        return
    if place.mask is None and (width == 1 or place.step == 1):
        emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {align} : i64}} : {type_}, !llvm.ptr")
        return
    if width == 1:
        emit.line(f"scf.if {place.mask} {{")
        emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {align} : i64}} : {element}, !llvm.ptr")
        emit.line("}")
        return
    mask = place.mask or emit.filled("true", "i1", width)
    if place.step == 1 and element in ("i8", "i16", "i32"):
        if int(element[1:]) * width % 32:
            _store_lanes(emit, place, value, mask, element)
            return
        value = _apart_from_narrowing(emit, value, element, width)
    types = f"{type_}, {vector('i1', width)} into"
    if place.step == 1:
        name, pointer, to = "masked.store", place.pointer, "!llvm.ptr"
    else:
        name, pointer, to = "masked.scatter", access.pointers(place), vector("!llvm.ptr", width)
    emit.line(f"llvm.intr.{name} {value}, {pointer}, {mask} {{alignment = {align} : i32}} : {types} {to}")


def _store_lanes(emit: LlvmEmitter, place: Address, values: str, mask: str, element: str) -> None:
    """Write the active lanes one by one: of vectors too small to be kept apart from their narrowing."""
    for lane in range(place.width):
        at = emit.number(lane)
        active = emit.operation(f"llvm.extractelement {mask}[{at} : i64] : {vector('i1', place.width)}")
        value = emit.operation(f"llvm.extractelement {values}[{at} : i64] : {vector(element, place.width)}")
        pointer = emit.offset(place.pointer, lane, element)
        emit.line(f"scf.if {active} {{")
        align = element_bytes(element)
        emit.line(f"llvm.store {value}, {pointer} {{alignment = {align} : i64}} : {element}, !llvm.ptr")
        emit.line("}")


def _apart_from_narrowing(emit: LlvmEmitter, value: str, element: str, width: int) -> str:
    """The same integers, so that LLVM does not make one operation of narrowing and storing them.

    LLVM 22 with AVX-512 then stores a lone active lane as wide as before, over its neighbour.
    """
    floats = int(element[1:]) * width // 32
    narrow, fenced = vector(element, width), vector("f32", floats)
    held = emit.operation(f"llvm.bitcast {value} : {narrow} to {fenced}")
    suffix = "f32" if floats == 1 else f"v{floats}f32"
    held = emit.operation(f'llvm.call_intrinsic "llvm.arithmetic.fence.{suffix}"({held}) : ({fenced}) -> {fenced}')
    return emit.operation(f"llvm.bitcast {held} : {fenced} to {narrow}")


def _store_past_caches(emit: LlvmEmitter, place: Address, value: str, type_: str, size: int, align: int) -> None:
    """Such stores need an address that is a multiple of the vector's bytes, which only the call can show."""
    address = emit.pure(f"llvm.ptrtoint {place.pointer} : !llvm.ptr to i64")
    low = emit.pure(f"arith.andi {address}, {emit.number(size - 1)} : i64")
    aligned = emit.pure(f"arith.cmpi eq, {low}, {emit.number(0)} : i64")
    emit.line(f"scf.if {aligned} {{")
    emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {size} : i64, nontemporal}} : {type_}, !llvm.ptr")
    emit.line("} else {")
    emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {align} : i64}} : {type_}, !llvm.ptr")
    emit.line("}")
