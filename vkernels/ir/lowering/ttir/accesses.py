"""Loads and stores of global memory and of the scratchpad, and atomics."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, UnitAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from vkernels.ir.dialect import AccessOp, StoreOp, TensorArgumentType, WriteOp, arith, element_of, tt

from ..common import is_half, unsupported
from .addresses import PointerAccess
from .builder import TtirBuilder
from .descriptors import load_box, store_box
from .half_sums import lower_half_sum
from .operand_groups import apart, operand_groups
from .state import TtirState
from .store_in_parts import THIN
from .tiles import axes_and_sizes, element_bytes

INTEGERS = {
    "add": tt.Atomic.ADD, "max": tt.Atomic.MAX, "min": tt.Atomic.MIN, "maxui": tt.Atomic.UMAX, "minui": tt.Atomic.UMIN,
    "exchange": tt.Atomic.XCHG,
}  # fmt: skip


def lower_atomic(state: TtirState, operation: WriteOp) -> None:
    """A store that combines with the element in memory."""
    assert operation.atomic is not None, "an atomic store"
    kind, element = operation.atomic.data, element_of(operation.tile)
    access = PointerAccess(state, operation)
    if access.memory.is_scratchpad:
        raise unsupported(operation, "atomics on the scratchpad have no form on a GPU; accumulate in a tensor")
    build, value, mask = state.build, state.value(operation.tile), access.mask()
    if is_half(element) and kind == "add":
        lower_half_sum(state, operation, access, value, mask)
        return
    pointers = access.pointers()
    if isinstance(element, AnyFloat) and kind == "add" and element.bitwidth > 16:
        build.add(tt.AtomicOp(tt.Atomic.FADD, pointers, value, mask))
    elif isinstance(element, AnyFloat) and kind != "add" and element.bitwidth > 16:
        extremum(build, kind, pointers, value, mask)
    elif element in (i32, i64):
        build.add(tt.AtomicOp(INTEGERS[kind], pointers, value, mask))
    else:
        raise unsupported(operation, f"Triton has no atomic {kind} on {element}; use 32 or 64 bits")


def extremum(build: TtirBuilder, kind: str, pointers: SSAValue, value: SSAValue, mask: SSAValue | None) -> SSAValue:
    """Replace elements by the larger or smaller float, by integer atomics on its bits; what was there before.

    Floats with sign 0 are ordered as their bits as signed integers, those with sign 1 the other way around as their
    bits as unsigned integers. A NaN gets the sign that wins.
    """
    element = tt.element(value.type)
    assert isinstance(element, AnyFloat), "floats only"
    width = element.bitwidth
    integer = IntegerType(width)
    quiet = 0x7FC00000 if width == 32 else 0x7FF8 << 48
    sign = 1 << (width - 1)
    bits = build.bitcast(value, integer)
    bits = build.select(build.compare("uno", value, value), quiet if kind == "max" else quiet | sign, bits)
    places = build.pure(tt.BitcastOp(pointers, tt.tensor(tt.PointerType(integer), tt.shape(value.type))))
    negative = build.compare("slt", bits, 0)
    pairs = (tt.Atomic.MAX, tt.Atomic.UMIN) if kind == "max" else (tt.Atomic.MIN, tt.Atomic.UMAX)
    found = []
    for atomic, chosen in zip(pairs, (build.binary(arith.XOrIOp, negative, 1), negative), strict=True):
        active = chosen if mask is None else build.binary(arith.AndIOp, mask, chosen)
        found.append(build.result(tt.AtomicOp(atomic, places, bits, active)))
    return build.bitcast(build.select(negative, found[1], found[0]), element)


def lower_load(state: TtirState, operation: AccessOp) -> None:
    if operation.described is not None:
        load_box(state, operation)
        return
    groups = operand_groups(operation)
    access = PointerAccess(state, operation, groups)
    mask = access.mask()
    if access.memory.is_scratchpad:
        value = _load_scratchpad(state.build, access, mask)
    else:
        other = None if mask is None else state.build.filled(0, tt.tensor(access.memory.element, access.sizes))
        value = state.build.result(tt.LoadOp(access.pointers(), mask, other))
    if element_of(operation.tile) == i1:
        value = state.build.compare("ne", value, 0)
    if groups is not None:
        tile = apart(state.build, value, groups, *axes_and_sizes(operation.tile.type))
        state.operands[tile], value = value, tile
    state.define(operation.tile, value)


def _load_scratchpad(build: TtirBuilder, access: PointerAccess, mask: SSAValue | None) -> SSAValue:
    """Inactive elements read the slot, and become 0."""
    element = access.memory.element
    offsets = access.byte_offsets(mask)
    bits = 8 * element_bytes(element)
    carrier = i64 if bits == 64 else i32
    loaded = build.result(tt.ScratchpadOp.load(offsets, bits, tt.tensor(carrier, access.sizes), access.alignment(mask)))
    value = _from_bits(build, loaded, element)
    return value if mask is None else build.select(mask, value, build.filled(0, value.type))


def lower_store(state: TtirState, operation: WriteOp) -> None:
    if operation.atomic is not None:
        lower_atomic(state, operation)
        return
    if isinstance(operation, StoreOp) and operation.described is not None:
        store_box(state, operation)
        return
    access = PointerAccess(state, operation)
    build, value, mask = state.build, state.value(operation.tile), access.mask()
    if element_of(operation.tile) == i1:
        value = build.unary(arith.ExtUIOp, value, access.memory.element)
    if not access.memory.is_scratchpad:
        store = tt.StoreOp(access.pointers(), value, mask)
        if isinstance(operation.base.type, TensorArgumentType) and not access.memory.is_aligned:
            store.attributes[THIN] = UnitAttr()
        build.add(store)
        return
    offsets = access.byte_offsets(mask)
    bits = 8 * element_bytes(access.memory.element)
    build.add(tt.ScratchpadOp.store(offsets, _to_bits(build, value), bits, access.alignment(mask)))


def _to_bits(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """Elements as the integers that a scratchpad access carries."""
    element = tt.element(value.type)
    if isinstance(element, AnyFloat):
        value = build.bitcast(value, IntegerType(element.bitwidth))
    if tt.element(value.type) in (i32, i64):
        return value
    return build.unary(arith.ExtUIOp, value, i32)


def _from_bits(build: TtirBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """The integers of a scratchpad access as elements: the inverse of `_to_bits`."""
    if not isinstance(element, AnyFloat):
        return build.cast(value, element)
    if element.bitwidth < 32:
        value = build.cast(value, IntegerType(element.bitwidth))
    return build.bitcast(value, element)
