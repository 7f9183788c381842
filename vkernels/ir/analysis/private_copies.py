"""Which tensors that atomics update can have private copies, and where programs meet in them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations_with_replacement

from xdsl.dialects.builtin import AnyFloat, Float8E4M3FNType, Float8E5M2Type, IntegerType
from xdsl.ir import Attribute, SSAValue

from ..dialect import FetchOp, KernelOp, TensorArgumentType, TileOp
from .accesses import LOOPS, MemoryAccess, accesses_of, ancestors
from .meeting import fixed_axes

LINES = 128
"""Bytes between copies of one dimension: two lines of a cache, as neighbours are fetched together."""
ROWS = 8
"""Rows between copies of several dimensions."""


def private_tensors(kernel: KernelOp, distinct: bool) -> dict[SSAValue, str]:
    """The tensors that can have private copies, each with its only atomic operation: how elements are combined.

    They are not accessed otherwise, nor are others that may be the same tensor; with `distinct`, none is. The order of
    combining is free: an integer's sum wraps around, and the bound of a float's holds for any order.
    """
    found = _accesses(kernel)
    types = [tensor.type for tensor in found]
    able: dict[SSAValue, str] = {}
    for tensor, accesses in found.items():
        kind, *others = {access.atomic for access in accesses}
        if any(isinstance(access.op, FetchOp) for access in accesses):
            continue
        if kind and not others and (distinct or types.count(tensor.type) == 1) and _has_copies(tensor.type):
            able[tensor] = kind
    return able


def _accesses(kernel: KernelOp) -> dict[SSAValue, list[MemoryAccess]]:
    found: dict[SSAValue, list[MemoryAccess]] = {}
    for access in accesses_of(kernel):
        if isinstance(access.base.type, TensorArgumentType):
            found.setdefault(access.base, []).append(access)
    return found


def _has_copies(type_: Attribute) -> bool:
    assert isinstance(type_, TensorArgumentType)
    return len(type_.shape) > 0 and not isinstance(type_.element, Float8E4M3FNType | Float8E5M2Type)


def meeting_axes(kernel: KernelOp, tensors: Collection[SSAValue]) -> set[str]:
    """The tile axes along which programs may update the same element of one of these tensors.

    Updates that lack an axis are made by the first program along it alone.
    """
    tiles = {op.axis.data for op in kernel.body.block.ops if isinstance(op, TileOp)}
    meeting: set[str] = set()
    for tensor, accesses in _accesses(kernel).items():
        for one, other in combinations_with_replacement(accesses if tensor in tensors else (), 2):
            *_, loop = (None, *(op for op in ancestors(one.op) if isinstance(op, LOOPS)))
            fixed = fixed_axes(one, other, loop)
            meeting |= set() if fixed is None else (one.axes | other.axes) - fixed
    return meeting & tiles


def padding_of(tensor: TensorArgumentType) -> int:
    """By how much a copy's first dimension is longer than the tensor's, so that no line holds parts of two copies."""
    assert isinstance(tensor.element, AnyFloat | IntegerType)
    return ROWS if len(tensor.shape) > 1 else 8 * LINES // max(8, tensor.element.bitwidth)
