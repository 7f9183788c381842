"""Atomic updates that give what was in memory before, lane by lane."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Attribute

from ...dialect import FetchOp, element_of
from ..common import is_half, is_quarter, unsupported
from .accesses import ATOMIC_FLOATS, ATOMIC_INTEGERS
from .addresses import AddressedAccess
from .emit import LlvmEmitter
from .state import LlvmState
from .tiles import memory_element


def lower_fetch(state: LlvmState, operation: FetchOp) -> None:
    """`vk.fetch`: lanes follow one another, so that each finds what those before it left."""
    assert operation.atomic is not None, "verified"
    emit, kind, element = state.emit, operation.atomic.data, element_of(operation.tile)
    if element == i1 or is_half(element) or is_quarter(element):
        raise unsupported(operation, f"there are no atomics on {element} with a result")
    access = AddressedAccess(state, operation)
    stored = memory_element(element, operation)
    values = state.tile(operation.value).names
    wanted = values if operation.expected is None else state.tile(operation.expected).names
    found = []
    for value, expected, place in zip(values, wanted, access.places(), strict=True):
        pointers, lanes = access.pointers(place), []
        for lane in range(place.width):
            pointer = emit.extract(pointers, lane, "!llvm.ptr", place.width)
            part, other = (emit.extract(each, lane, stored, place.width) for each in (value, expected))
            if place.mask is None:
                lanes.append(_fetched(emit, kind, element, stored, pointer, part, other))
                continue
            active = emit.extract(place.mask, lane, "i1", place.width)
            none, old = emit.filled("0.0" if stored.startswith("f") else "0", stored, 1), emit.name()
            emit.line(f"{old} = scf.if {active} -> ({stored}) {{")
            with emit.region():
                emit.line(f"scf.yield {_fetched(emit, kind, element, stored, pointer, part, other)} : {stored}")
            emit.line("} else {")
            emit.line(f"scf.yield {none} : {stored}")
            emit.line("}")
            lanes.append(old)
        found.append(emit.gathered(lanes, stored) if place.width > 1 else lanes[0])
    state.define(operation.result, found)


def _fetched(
    emit: LlvmEmitter, kind: str, element: Attribute, stored: str, pointer: str, value: str, expected: str
) -> str:
    """One element updated; what was there before."""
    is_float = isinstance(element, AnyFloat)
    if kind == "compare":
        bits = f"i{stored[1:]}"
        old, new = ((emit.cast("arith.bitcast", v, stored, bits, 1) if is_float else v) for v in (expected, value))
        pair = emit.operation(f"llvm.cmpxchg {pointer}, {old}, {new} acq_rel monotonic : !llvm.ptr, {bits}")
        before = emit.operation(f"llvm.extractvalue {pair}[0] : !llvm.struct<({bits}, i1)>")
        return emit.cast("arith.bitcast", before, bits, stored, 1) if is_float else before
    name = "xchg" if kind == "exchange" else (ATOMIC_FLOATS if is_float else ATOMIC_INTEGERS)[kind]
    return emit.operation(f"llvm.atomicrmw {name} {pointer}, {value} acq_rel : !llvm.ptr, {stored}")
