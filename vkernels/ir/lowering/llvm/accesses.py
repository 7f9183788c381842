"""Loads, stores, atomics and spills: a vector where lanes lie side by side, a gather or scatter where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from xdsl.dialects.builtin import AnyFloat, f32, i1
from xdsl.ir import Attribute, SSAValue

from ...analysis.turned_rows import GATHERED
from ...dialect import (
    AccessOp,
    PrefetchOp,
    ReadOp,
    ReloadOp,
    SpillOp,
    WriteOp,
    element_of,
)
from ..common import is_half, is_quarter, unsupported
from .addresses import Address, AddressedAccess
from .apart import load_apart, store_apart
from .elementwise import extend, extremum, truncate
from .emit import LlvmEmitter, vector
from .late_registers import LateNames, is_for_dots, is_written_before
from .masked import can_store, store_masked
from .matrix import is_for_units
from .staged import takes_rows
from .state import AddressedMemory, LlvmState
from .tiles import RegisterTile, element_bytes, memory_element
from .turned import load_turned, store_turned, turned_blocks
from .words import takes_words


def lower_spill(state: LlvmState, operation: SpillOp) -> None:
    """`vk.spill`. Volatile: LLVM would otherwise keep the tile in registers."""
    tile = state.tile(operation.tile)
    size = element_bytes(tile.element) * sum(tile.layout.widths())
    place = state.emit.offset("%workspace", state.workspace.take(size), "i8")
    spilled = state.values[operation.spilled] = AddressedMemory(place, tile.element, (), ())
    for name, (address, alignment, type_) in zip(tile.names, _pieces(state, spilled, operation.tile), strict=True):
        state.emit.line(f"llvm.store volatile {name}, {address} {alignment} : {type_}, !llvm.ptr")


def lower_reload(state: LlvmState, operation: ReloadOp) -> None:
    pieces = _pieces(state, state.memory(operation.spilled), operation.tile)
    loads = [f"llvm.load volatile {address} {alignment} : !llvm.ptr -> {type_}" for address, alignment, type_ in pieces]
    state.define(operation.tile, [state.emit.operation(load) for load in loads])


def _pieces(state: LlvmState, spilled: AddressedMemory, tile: SSAValue) -> Iterator[tuple[str, str, str]]:
    """Address, alignment and type of each register of a spilled tile, in order."""
    size, start = element_bytes(spilled.element), 0
    for width, type_ in zip(state.layout(tile.type).widths(), state.types_of([tile]), strict=True):
        yield state.emit.offset(spilled.pointer, start, spilled.element), f"{{alignment = {size} : i64}}", type_
        start += width


LINE = 64
"""Bytes of a line of the caches, which one prefetch asks for. A longer line is asked for twice."""
ATOMIC_FLOATS = {"add": "fadd", "max": "fmaximum", "min": "fminimum"}
ATOMIC_INTEGERS = {"add": "add", "max": "max", "min": "min", "maxui": "umax", "minui": "umin"}
PLAIN_INTEGERS = {"add": "addi", "max": "maxsi", "min": "minsi", "maxui": "maxui", "minui": "minui"}


def lower_atomic(state: LlvmState, operation: WriteOp) -> None:
    """A store that combines with the element in memory. f16 and bf16 are combined in f32 and rounded."""
    assert operation.atomic is not None, "an atomic store"
    kind, element = operation.atomic.data, element_of(operation.tile)
    if element == i1 or is_quarter(element):
        raise unsupported(operation, f"there are no atomics on {element}")
    access = AddressedAccess(state, operation)
    stored = memory_element(element, operation)
    for value, place in zip(state.tile(operation.tile).names, access.places(), strict=True):
        if operation.exclusive is not None and place.step == 1 and place.width > 1:
            old = load(access, place, stored)
            store(access, place, _combined(state.emit, kind, old, value, element, stored, place.width), stored)
            continue
        pointers = access.pointers(place)
        for lane in range(place.width):
            pointer = state.emit.extract(pointers, lane, "!llvm.ptr", place.width)
            part = state.emit.extract(value, lane, stored, place.width)
            if place.mask is not None:
                active = state.emit.extract(place.mask, lane, "i1", place.width)
                state.emit.line(f"scf.if {active} {{")
            with state.emit.region():
                if operation.exclusive is not None:
                    _combine_alone(state.emit, pointer, part, kind, element, stored)
                elif is_half(element):
                    _combine_half(state.emit, pointer, part, kind, element)
                else:
                    name = (ATOMIC_FLOATS if isinstance(element, AnyFloat) else ATOMIC_INTEGERS)[kind]
                    state.emit.operation(f"llvm.atomicrmw {name} {pointer}, {part} monotonic : !llvm.ptr, {stored}")
            if place.mask is not None:
                state.emit.line("}")


def _combine_alone(emit: LlvmEmitter, pointer: str, value: str, kind: str, element: Attribute, stored: str) -> None:
    """Read, combine and write an element that no other thread accesses, `stored` as this type. Lanes follow one
    another, so that equal indices within a tile are right."""
    align = f"{{alignment = {element_bytes(stored)} : i64}}"
    old = emit.operation(f"llvm.load {pointer} {align} : !llvm.ptr -> {stored}")
    new = _combined(emit, kind, old, value, element, stored, 1)
    emit.line(f"llvm.store {new}, {pointer} {align} : {stored}, !llvm.ptr")


def _combined(emit: LlvmEmitter, kind: str, old: str, value: str, element: Attribute, stored: str, width: int) -> str:
    """Two registers combined, each element rounded as it is `stored`."""
    if not isinstance(element, AnyFloat):
        return emit.pure(f"arith.{PLAIN_INTEGERS[kind]} {old}, {value} : {vector(stored, width)}")
    if is_half(element):
        one, other = (extend(emit, each, element, f32, width) for each in (old, value))
        return truncate(emit, _of_floats(emit, kind, one, other, "f32", width), f32, element, width)
    return _of_floats(emit, kind, old, value, stored, width)


def _of_floats(emit: LlvmEmitter, kind: str, one: str, other: str, type_: str, width: int) -> str:
    """The sums, maxima or minima of floats."""
    if kind == "add":
        return emit.pure(f"arith.addf {one}, {other} : {vector(type_, width)}")
    return extremum(emit, kind, one, other, type_, width)


def _combine_half(emit: LlvmEmitter, pointer: str, value: str, kind: str, element: Attribute) -> None:
    """Compute a new value from the one seen, and try again if another thread came first."""
    wide = extend(emit, value, element, f32, 1)
    seen = emit.operation(f"llvm.load {pointer} {{alignment = 2 : i64}} : !llvm.ptr -> i16")
    old, now = emit.name(), emit.name()
    emit.line(f"{emit.name()} = scf.while ({old} = {seen}) : (i16) -> i16 {{")
    with emit.region():
        before = extend(emit, old, element, f32, 1)
        after = _of_floats(emit, kind, before, wide, "f32", 1)
        new = truncate(emit, after, f32, element, 1)
        both = emit.operation(f"llvm.cmpxchg {pointer}, {old}, {new} monotonic monotonic : !llvm.ptr, i16")
        found = emit.operation(f"llvm.extractvalue {both}[0] : !llvm.struct<(i16, i1)>")
        won = emit.operation(f"llvm.extractvalue {both}[1] : !llvm.struct<(i16, i1)>")
        again = emit.pure(f"arith.xori {won}, {emit.constant('true', 'i1')} : i1")
        emit.line(f"scf.condition({again}) {found} : i16")
        emit.line("} do {")
        emit.line(f"^bb0({now}: i16):")
        emit.line(f"scf.yield {now} : i16")
        emit.line("}")


def lower_load(state: LlvmState, operation: AccessOp) -> None:
    access = AddressedAccess(state, operation)
    if isinstance(operation, ReadOp) and _is_taken_as_words(operation, access):
        state.for_units[operation.result] = access
        return
    element = memory_element(element_of(operation.tile), operation)
    makers: Iterable[Callable[[], str]]
    if (blocks := turned_blocks(access)) is not None:
        makers = load_turned(access, blocks, element, element_bytes(element))
    else:
        makers = (partial(load, access, place, element) for place in access.places())
    if is_for_dots(state, operation):
        steps = {axis: access.known_step(axis) for axis, _ in access.layout.row_axes}
        late = LateNames([*makers], steps)
        state.values[operation.results[0]] = RegisterTile(access.layout, element, late)
        return
    names = [make() for make in makers]
    if element_of(operation.tile) == i1:
        names = [
            state.emit.pure(f"arith.cmpi ne, {name}, {state.emit.filled('0', 'i8', w)} : {vector('i8', w)}")
            for name, w in zip(names, access.layout.widths(), strict=True)
        ]
    state.define(operation.tile, names)


def _is_taken_as_words(operation: ReadOp, access: AddressedAccess) -> bool:
    """Whether words are loaded in place of elements, or a dot's unit loads them itself."""
    if is_for_units(operation):
        return True
    is_taken = takes_words(operation, access) or takes_rows(operation, access)
    return is_taken and not any(is_written_before(operation, use.operation) for use in operation.result.uses)


def lower_prefetch(state: LlvmState, operation: PrefetchOp) -> None:
    """`vk.prefetch`: an instruction for each line of a row, if rows begin where lines do; else the last is left out."""
    access = AddressedAccess(state, operation)
    size = element_bytes(memory_element(element_of(operation.tile), operation))
    for register, place in zip(access.layout.registers(), access.places(), strict=True):
        if register.start * size % LINE == 0:
            state.emit.line(
                f'"llvm.intr.prefetch"({place.pointer}) '
                "<{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}> : (!llvm.ptr) -> ()"
            )


def load(access: AddressedAccess, place: Address, element: str) -> str:
    """The elements of one place; 0 where they are inactive."""
    emit, width = access.emit, place.width
    type_, align = vector(element, width), element_bytes(element)
    if width == 1 and place.mask is not None:
        return _load_if(emit, place, place.mask, element)
    if place.mask is None and (width == 1 or place.step == 1):
        return emit.operation(f"llvm.load {place.pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
    if place.mask is None and place.step == 0:
        scalar = emit.operation(f"llvm.load {place.pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {element}")
        return emit.splat(scalar, element, width)
    if place.mask is None and (distances := place.distances):
        found = load_apart(emit, place.pointer, distances, element, align)
        if found is not None:
            return found
    if place.mask is None and align < GATHERED and (apart := access.lane_pointers(place)):
        loads = (f"llvm.load {each} {{alignment = {align} : i64}} : !llvm.ptr -> {element}" for each in apart)
        return emit.gathered([emit.operation(each) for each in loads], element)
    if place.mask is not None and place.step == -1:
        return _load_reversed(access, place, place.mask, element)
    mask_type = vector("i1", width)
    mask = place.mask or emit.filled("true", "i1", width)
    rest = emit.filled("0.0" if element.startswith("f") else "0", element, width)
    if place.step == 1:
        types = f"(!llvm.ptr, {mask_type}, {type_}) -> {type_}"
        name, pointer = "masked.load", place.pointer
    else:
        types = f"({vector('!llvm.ptr', width)}, {mask_type}, {type_}) -> {type_}"
        name, pointer = "masked.gather", access.pointers(place)
    return emit.operation(f"llvm.intr.{name} {pointer}, {mask}, {rest} {{alignment = {align} : i32}} : {types}")


def _load_reversed(access: AddressedAccess, place: Address, mask: str, element: str) -> str:
    """Elements whose lanes descend in memory, under a mask."""
    emit, width = access.emit, place.width
    order = list(reversed(range(width)))
    turned = emit.shuffle(mask, mask, order, "i1", width)
    begin = emit.offset(place.pointer, 1 - width, element)
    loaded = load(access, Address(begin, 1, turned, width), element)
    return emit.shuffle(loaded, loaded, order, element, width)


def _load_if(emit: LlvmEmitter, place: Address, condition: str, element: str) -> str:
    """One element, or 0: from the address of zeros where it is inactive, selected once for elements that are active
    together. A branch for each would cost more than the rest of a masked loop of products."""
    first = emit.pure(f"arith.select {condition}, {place.first or place.pointer}, {emit.nothing()} : !llvm.ptr")
    at = emit.offset(first, place.beyond, element)
    return emit.operation(f"llvm.load {at} {{alignment = {element_bytes(element)} : i64}} : !llvm.ptr -> {element}")


def lower_store(state: LlvmState, operation: WriteOp) -> None:
    if operation.atomic is not None:
        lower_atomic(state, operation)
        return
    access = AddressedAccess(state, operation)
    element = memory_element(element_of(operation.tile), operation)
    streaming = operation.streaming is not None
    blocks = None if element_of(operation.tile) == i1 else turned_blocks(access)
    if blocks is not None:
        store_turned(access, blocks, state.tile(operation.tile).names, element, element_bytes(element))
        return
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
    distances = () if place.step in (0, 1) else place.distances
    if distances and store_apart(emit, place.pointer, value, distances, element, align, place.mask):
        return
    if place.mask is None and align < GATHERED and (apart := access.lane_pointers(place)):
        for lane, one in enumerate(apart):
            part = emit.extract(value, lane, element, width)
            emit.line(f"llvm.store {part}, {one} {{alignment = {align} : i64}} : {element}, !llvm.ptr")
        return
    mask = place.mask or emit.filled("true", "i1", width)
    if place.step != 1:
        types = f"{type_}, {vector('i1', width)} into {vector('!llvm.ptr', width)}"
        pointers = access.pointers(place)
        emit.line(f"llvm.intr.masked.scatter {value}, {pointers}, {mask} {{alignment = {align} : i32}} : {types}")
    elif can_store(element, width):
        if access.mask is None and place.mask is not None:
            _store_to_end(emit, place, value, element, align)
        else:
            store_masked(emit, place.pointer, value, mask, element, width, align)
    else:
        _store_lanes(emit, place, value, mask, element)


def _store_to_end(emit: LlvmEmitter, place: Address, value: str, element: str, align: int) -> None:
    """Store the lanes before the end of an axis: of a whole vector without a mask, and nothing of one beyond the end.

    On an AMD server core of 2024 kernels whose last program of a row stores under masks take up to twice as long where
    lines are not in a cache. Why was not measured: such a store may wait for its line, and those behind it for their
    turn.
    """
    width, type_ = place.width, vector(element, place.width)
    bits = emit.pure(f"llvm.bitcast {place.mask} : {vector('i1', width)} to i{width}")
    whole = emit.pure(f"arith.cmpi eq, {bits}, {emit.constant('-1', f'i{width}')} : i{width}")
    some = emit.pure(f"arith.cmpi ne, {bits}, {emit.constant('0', f'i{width}')} : i{width}")
    emit.line(f"scf.if {whole} {{")
    emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {align} : i64}} : {type_}, !llvm.ptr")
    emit.line("} else {")
    emit.line(f"scf.if {some} {{")
    store_masked(emit, place.pointer, value, place.mask or "", element, width, align)
    emit.line("}")
    emit.line("}")


def _store_lanes(emit: LlvmEmitter, place: Address, values: str, mask: str, element: str) -> None:
    """Write the active lanes one by one, of vectors too small for `store_masked`."""
    for lane in range(place.width):
        at = emit.number(lane)
        active = emit.operation(f"llvm.extractelement {mask}[{at} : i64] : {vector('i1', place.width)}")
        value = emit.operation(f"llvm.extractelement {values}[{at} : i64] : {vector(element, place.width)}")
        pointer = emit.offset(place.pointer, lane, element)
        emit.line(f"scf.if {active} {{")
        align = element_bytes(element)
        emit.line(f"llvm.store {value}, {pointer} {{alignment = {align} : i64}} : {element}, !llvm.ptr")
        emit.line("}")


def _store_past_caches(emit: LlvmEmitter, place: Address, value: str, type_: str, size: int, align: int) -> None:
    """Nontemporal stores need an address that is a multiple of the vector's bytes; a branch tests that."""
    address = emit.pure(f"llvm.ptrtoint {place.pointer} : !llvm.ptr to i64")
    low = emit.pure(f"arith.andi {address}, {emit.number(size - 1)} : i64")
    aligned = emit.pure(f"arith.cmpi eq, {low}, {emit.number(0)} : i64")
    emit.line(f"scf.if {aligned} {{")
    emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {size} : i64, nontemporal}} : {type_}, !llvm.ptr")
    emit.line("} else {")
    emit.line(f"llvm.store {value}, {place.pointer} {{alignment = {align} : i64}} : {type_}, !llvm.ptr")
    emit.line("}")
