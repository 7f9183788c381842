"""Atomic stores: one element at a time, since programs run on several threads."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, f32, i1
from xdsl.ir import Attribute

from ...dialect import ScatterOp, StoreOp, element_of
from ..common import is_half, unsupported
from .addresses import Address, AddressedAccess
from .casts import extend, truncate
from .elementwise import extremum
from .emit import LlvmEmitter
from .state import LlvmState
from .tiles import memory_element

ATOMIC_FLOATS = {"add": "fadd", "max": "fmaximum", "min": "fminimum"}
ATOMIC_INTEGERS = {"add": "add", "max": "max", "min": "min", "maxui": "umax", "minui": "umin"}


def lower_atomic(state: LlvmState, operation: StoreOp | ScatterOp) -> None:
    """A store that combines with what is there. f16 and bf16 are combined in f32 and rounded."""
    assert operation.atomic is not None, "an atomic store"
    element = element_of(operation.tile)
    if element == i1:
        raise unsupported(operation, "there are no atomics on i1")
    access = AddressedAccess(state, operation)
    stored = memory_element(element, operation)
    for value, place in zip(state.tile(operation.tile).names, access.places(), strict=True):
        pointers = access.pointers(place)
        for lane in range(place.width):
            pointer = state.emit.extract(pointers, lane, "!llvm.ptr", place.width)
            part = state.emit.extract(value, lane, stored, place.width)
            _if_active(state.emit, place, lane, pointer, part, operation.atomic.data, element, stored)


def _if_active(
    emit: LlvmEmitter, place: Address, lane: int, pointer: str, value: str, kind: str, element: Attribute, stored: str
) -> None:
    condition = None if place.mask is None else emit.extract(place.mask, lane, "i1", place.width)
    if condition is not None:
        emit.line(f"scf.if {condition} {{")
    with emit.region():
        _combine(emit, pointer, value, kind, element, stored)
    if condition is not None:
        emit.line("}")


def _combine(emit: LlvmEmitter, pointer: str, value: str, kind: str, element: Attribute, stored: str) -> None:
    if is_half(element):
        _combine_half(emit, pointer, value, kind, element)
        return
    name = (ATOMIC_FLOATS if isinstance(element, AnyFloat) else ATOMIC_INTEGERS)[kind]
    emit.operation(f"llvm.atomicrmw {name} {pointer}, {value} monotonic : !llvm.ptr, {stored}")


def _combine_half(emit: LlvmEmitter, pointer: str, value: str, kind: str, element: Attribute) -> None:
    """Compute a new value from the one seen, and try again if another thread came first."""
    wide = extend(emit, value, element, f32, 1)
    seen = emit.operation(f"llvm.load {pointer} {{alignment = 2 : i64}} : !llvm.ptr -> i16")
    old, now = emit.name(), emit.name()
    emit.line(f"{emit.name()} = scf.while ({old} = {seen}) : (i16) -> i16 {{")
    with emit.region():
        before = extend(emit, old, element, f32, 1)
        if kind == "add":
            after = emit.pure(f"arith.addf {before}, {wide} : f32")
        else:
            after = extremum(emit, kind, before, wide, "f32", 1)
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
