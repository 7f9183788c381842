"""Tiles as Triton's tensors: element types, sizes, and axes matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, i1, i8, i64
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import MemoryType, arith, axes_of, element_of, sizes_of, tt
from vkernels.ir.errors import PlanError

from ..common import constant_elements, unsupported
from .builder import Number, TtirBuilder

_WIDTHS = (1, 8, 16, 32, 64)
_FLOATS = ("f8E4M3FN", "f8E5M2", "f16", "bf16", "f32", "f64")


def register_element(element: Attribute, operation: Operation) -> Attribute:
    """The element type that a tile's elements have in Triton. Raises `UnsupportedError` where there is none."""
    if isinstance(element, IndexType):
        return i64
    if isinstance(element, IntegerType) and element.width.data in _WIDTHS:
        return element
    if isinstance(element, AnyFloat) and str(element) in _FLOATS:
        return element
    raise unsupported(operation, f"elements of {element} have no form in Triton")


def memory_element(element: Attribute, operation: Operation) -> Attribute:
    """The element type in memory: as in registers, but a byte for i1."""
    return i8 if element == i1 else register_element(element, operation)


def element_bytes(element: Attribute) -> int:
    """Bytes of an element in memory."""
    assert isinstance(element, IntegerType | AnyFloat), "elements are floats or integers"
    bits: int = element.bitwidth
    return max(1, bits // 8)


def memory_bytes(type_: MemoryType, operation: Operation) -> int:
    """Bytes of a scratchpad or of swap space, all of whose dimensions are numbers."""
    return constant_elements(type_, operation) * element_bytes(memory_element(type_.element, operation))


def only_element(build: TtirBuilder, tile: SSAValue) -> Number:
    """The element of a tile of i64 that has one, as a scalar: what it is computed from is computed of scalars too."""
    op = tile.owner
    if isinstance(op, tt.SplatOp):
        return build.known(op.src)
    if isinstance(op, tt.ExpandDimsOp | tt.BroadcastOp | tt.ReshapeOp | tt.TransOp):
        return only_element(build, op.operands[0])
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return build.integer(type(op), only_element(build, op.lhs), only_element(build, op.rhs))
    return build.pure(tt.UnsplatOp(tile))


def lowered_type(type_: Attribute, operation: Operation) -> Attribute:
    """A tile's or scalar's type in Triton. Raises `PlanError` for sizes that a tensor of Triton's cannot have."""
    sizes = sizes_of(type_)
    for axis, size in sizes.items():
        if size < 1 or size & (size - 1):
            raise PlanError(
                f"{operation.name}: a tile holds {size} elements along {axis}; on a GPU that must be a power of two: "
                "choose tiles and chunks that are"
            )
    if prod(sizes.values()) > tt.MOST_ELEMENTS:
        raise PlanError(
            f"{operation.name}: a tile of {' x '.join(map(str, sizes.values()))} elements; on a GPU it holds "
            f"{tt.MOST_ELEMENTS} at most: choose smaller tiles or chunks"
        )
    return tt.tensor(register_element(element_of(type_), operation), list(sizes.values()))


def along(
    build: TtirBuilder, value: SSAValue, axes: Sequence[str], to: Sequence[str], sizes: Sequence[int]
) -> SSAValue:
    """A value with `axes`, repeated to have the axes `to`, whose sizes are given, in their order."""
    if not axes:
        return build.splat(value, sizes)
    order = [axes.index(axis) for axis in to if axis in axes]
    if order != sorted(order):
        value = build.pure(tt.TransOp(value, order))
    for number, axis in enumerate(to):
        if axis not in axes:
            value = build.pure(tt.ExpandDimsOp(value, number))
    return value if tt.shape(value.type) == tuple(sizes) else build.pure(tt.BroadcastOp(value, sizes))


def transposed(build: TtirBuilder, value: SSAValue, axes: Sequence[str], to: Sequence[str]) -> SSAValue:
    """A tile with its axes in another order."""
    return along(build, value, axes, to, [tt.shape(value.type)[axes.index(axis)] for axis in to])


def axes_and_sizes(type_: Attribute) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return axes_of(type_), tuple(sizes_of(type_).values())
