"""Stores of vectors under a mask."""

from __future__ import annotations

from .emit import LlvmEmitter, vector

NARROWED = ("i8", "i16", "i32")
"""Elements that LLVM may narrow while it stores them."""


def can_store(element: str, width: int) -> bool:
    """Whether vectors of this width can be stored under a mask: not integers too few to fill a float, see below."""
    return element not in NARROWED or int(element[1:]) * width % 32 == 0


def store_masked(emit: LlvmEmitter, pointer: str, value: str, mask: str, element: str, width: int, align: int) -> None:
    """Store the lanes that the mask names. `align`: bytes."""
    if element in NARROWED:
        value = _apart_from_narrowing(emit, value, element, width)
    types = f"{vector(element, width)}, {vector('i1', width)} into !llvm.ptr"
    emit.line(f"llvm.intr.masked.store {value}, {pointer}, {mask} {{alignment = {align} : i32}} : {types}")


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
