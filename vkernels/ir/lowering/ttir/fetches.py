"""Atomic updates that give what was in memory before."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, i32, i64
from xdsl.dialects.scf import IfOp, YieldOp
from xdsl.ir import Block, Region, SSAValue

from vkernels.ir.dialect import FetchOp, element_of, tt

from ..common import is_half, unsupported
from .accesses import INTEGERS, extremum
from .addresses import PointerAccess
from .reductions import reduced
from .state import TtirState


def lower_fetch(state: TtirState, operation: FetchOp) -> None:
    """`vk.fetch`. Inactive elements give 0."""
    assert operation.atomic is not None, "verified"
    kind, element = operation.atomic.data, element_of(operation.tile)
    access = PointerAccess(state, operation)
    if access.memory.is_scratchpad:
        raise unsupported(operation, "atomics on the scratchpad have no form on a GPU; use a tensor")
    is_float = isinstance(element, AnyFloat) and not is_half(element)
    if element not in (i32, i64) and not is_float:
        raise unsupported(operation, f"there are no atomics on {element} with a result; use 32 or 64 bits")
    build, value, mask, pointers = state.build, state.value(operation.value), access.mask(), access.pointers()
    if kind == "compare":
        found = _compared(state, operation, access)
    elif kind == "add" and is_float:
        found = build.result(tt.AtomicOp(tt.Atomic.FADD, pointers, value, mask))
    elif kind == "exchange" and is_float:
        bits = IntegerType(element.bitwidth)  # type: ignore[attr-defined]
        places = build.pure(tt.BitcastOp(pointers, tt.tensor(tt.PointerType(bits), tt.shape(value.type))))
        old = build.result(tt.AtomicOp(tt.Atomic.XCHG, places, build.bitcast(value, bits), mask))
        found = build.bitcast(old, element)
    elif is_float:
        found = extremum(build, kind, pointers, value, mask)
    else:
        found = build.result(tt.AtomicOp(INTEGERS[kind], pointers, value, mask))
    zero = build.filled(0, found.type)
    state.define(operation.result, found if mask is None else build.select(mask, found, zero))


def _compared(state: TtirState, operation: FetchOp, access: PointerAccess) -> SSAValue:
    """Triton has no mask for it: where any element is active, inactive ones compare the tensor's first element with 0,
    to store 0 there. Where none is, the tensor may have no element."""
    build, value, mask, pointers = state.build, state.value(operation.value), access.mask(), access.pointers()
    assert operation.expected is not None, "verified"
    expected, element = state.value(operation.expected), tt.element(value.type)
    first = access.memory.base
    if isinstance(element, AnyFloat):
        bits = IntegerType(element.bitwidth)
        pointers = build.pure(tt.BitcastOp(pointers, tt.tensor(tt.PointerType(bits), tt.shape(value.type))))
        first = first if mask is None else build.pure(tt.BitcastOp(first, tt.PointerType(bits)))
        value, expected = build.bitcast(value, bits), build.bitcast(expected, bits)
    if mask is None:
        found = build.result(tt.AtomicCasOp(pointers, expected, value))
    else:
        pointers = build.select(mask, pointers, build.splat(first, tt.shape(value.type)))
        value, expected = (build.select(mask, each, build.filled(0, each.type)) for each in (value, expected))
        some, none = Block(), Block()
        with build.region(some):
            build.add(YieldOp(build.result(tt.AtomicCasOp(pointers, expected, value))))
        with build.region(none):
            build.add(YieldOp(build.filled(0, value.type)))
        found = build.result(IfOp(_any(state, mask), [value.type], Region(some), Region(none)))
    return build.bitcast(found, element) if isinstance(element, AnyFloat) else found


def _any(state: TtirState, mask: SSAValue) -> SSAValue:
    """Whether an element of a mask is true."""
    build = state.build
    shape = tt.shape(mask.type)
    if not shape:
        return mask
    found = build.select(mask, 1, build.filled(0, tt.tensor(i32, shape)))
    for _ in shape:
        found = reduced(state, found, 0, "max")
    return build.compare("ne", found, 0)
