"""Loads and stores of global memory and of the scratchpad."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from vkernels.ir.dialect import AccessOp, ScatterOp, StoreOp, arith, element_of, tt

from .addresses import PointerAccess
from .atomics import lower_atomic
from .builder import TtirBuilder
from .state import TtirState
from .tiles import element_bytes


def lower_load(state: TtirState, operation: AccessOp) -> None:
    """`vk.load` and `vk.gather`."""
    access = PointerAccess(state, operation)
    mask = access.mask()
    if access.memory.is_scratchpad:
        value = _load_scratchpad(state.build, access, mask)
    else:
        other = None if mask is None else state.build.filled(0, tt.tensor(access.memory.element, access.sizes))
        value = state.build.result(tt.LoadOp(access.pointers(), mask, other))
    if element_of(operation.tile) == i1:
        value = state.build.compare("ne", value, 0)
    state.define(operation.tile, value)


def _load_scratchpad(build: TtirBuilder, access: PointerAccess, mask: SSAValue | None) -> SSAValue:
    """Inactive elements read the slot, and become 0."""
    element = access.memory.element
    offsets = access.byte_offsets(mask)
    bits = 8 * element_bytes(element)
    carrier = i64 if bits == 64 else i32
    loaded = build.result(tt.ScratchpadOp.load(offsets, bits, tt.tensor(carrier, access.sizes)))
    value = _from_bits(build, loaded, element)
    return value if mask is None else build.select(mask, value, build.filled(0, value.type))


def lower_store(state: TtirState, operation: StoreOp | ScatterOp) -> None:
    """`vk.store` and `vk.scatter`."""
    if operation.atomic is not None:
        lower_atomic(state, operation)
        return
    access = PointerAccess(state, operation)
    build, value, mask = state.build, state.value(operation.tile), access.mask()
    if element_of(operation.tile) == i1:
        value = build.unary(arith.ExtUIOp, value, access.memory.element)
    if not access.memory.is_scratchpad:
        build.add(tt.StoreOp(access.pointers(), value, mask))
        return
    offsets = access.byte_offsets(mask)
    bits = 8 * element_bytes(access.memory.element)
    build.add(tt.ScratchpadOp.store(offsets, _to_bits(build, value), bits))


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
