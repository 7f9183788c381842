"""Boxes of tensors by descriptors: what hardware demands of them is checked, and what it leaves out of bounds is not
accessed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from ...analysis.descriptors import MOST_DIMENSIONS, why_not_of_sizes
from ...dialect import tt
from ...errors import ArgumentError
from ..numbers import Array, dtype_of, storage_of, to_storage
from ..state import Handler
from .access import DESCRIBED, TtirInterpreter, accesses_at
from .regions import TensorRegion

ALIGNMENT = 16
"""Bytes that the address and all strides but the last are multiples of."""


@dataclass(frozen=True)
class DescribedTensor:
    """A tensor that a launch passes as a descriptor: its memory, its sizes, and its strides in elements."""

    region: TensorRegion
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def at(self, pointer: np.int64, block: TensorType) -> _Descriptor:
        """The descriptor of boxes of this type. Raises `ArgumentError` for what NVIDIA's tensor maps cannot have."""
        if why := _why_not(int(pointer), self.sizes, self.strides, block):
            raise ArgumentError(f"`{self.region.name}`: the tensor of a descriptor {why}")
        return _Descriptor(int(pointer), self.sizes, self.strides, block)


@dataclass(frozen=True)
class _Descriptor:
    """A tensor in memory: where it begins, its sizes and its strides in elements; `block`: the type of its boxes."""

    pointer: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    block: TensorType

    def places(self, first: tuple[int, ...]) -> tuple[Array, Array]:
        """The pointers to a box's elements, and which of them are in the tensor."""
        shape = self.block.get_shape()
        pointers, inside = np.full(shape, self.pointer, np.int64), np.ones(shape, np.bool_)
        width = storage_of(self.block.element_type).itemsize
        for number, (start, size, stride) in enumerate(zip(first, self.sizes, self.strides, strict=True)):
            along = [-1 if d == number else 1 for d in range(len(shape))]
            positions = (start + np.arange(shape[number], dtype=np.int64)).reshape(along)
            pointers = pointers + positions * (stride * width)
            inside &= (positions >= 0) & (positions < size)
        return pointers, inside


def _why_not(base: int, sizes: tuple[int, ...], strides: tuple[int, ...], block: TensorType) -> str | None:
    """Why hardware has no descriptor of a tensor; None where it has one."""
    width = storage_of(block.element_type).itemsize
    reasons = (
        (len(sizes) > MOST_DIMENSIONS, f"has {len(sizes)} dimensions, more than {MOST_DIMENSIONS}"),
        (min(sizes) < 1, f"has sizes {sizes}, expected 1 or more"),
        (strides[-1] != 1, f"has a last stride of {strides[-1]}, expected 1"),
        (base % ALIGNMENT != 0, f"begins at an address that is no multiple of {ALIGNMENT}"),
        (
            any(stride * width % ALIGNMENT or stride < 1 for stride in strides[:-1]),
            f"has strides of {strides} elements, expected positive multiples of {ALIGNMENT} bytes",
        ),
    )
    return next((why for wrong, why in reasons if wrong), None)


def _make(run: TtirInterpreter, op: tt.MakeTensorDescriptorOp, base: np.int64, *numbers: np.generic) -> _Descriptor:
    """Raises `CheckError` for what a tensor map of NVIDIA's cannot have."""
    type_ = op.result.type
    assert isinstance(type_, tt.TensorDescriptorType), "verified"
    rank = len(numbers) // 2
    sizes, strides = (tuple(int(n) for n in part) for part in (numbers[:rank], numbers[rank:]))
    if why := _why_not(int(base), sizes, strides, type_.block):
        raise run.state.fault(op, f"{op.name}: the tensor {why}")
    if reason := why_not_of_sizes(type_.block.get_shape(), rank - 1, type_.block.element_type):
        raise run.state.fault(op, f"{op.name}: {reason}")
    return _Descriptor(int(base), sizes, strides, type_.block)


def _load(run: TtirInterpreter, op: tt.DescriptorLoadOp, descriptor: _Descriptor, *first: np.generic) -> Array:
    pointers, inside = descriptor.places(tuple(map(int, first)))
    type_ = op.result.type
    result = np.zeros(tt.shape(type_), dtype_of(tt.element(type_)))
    for access in accesses_at(run, op, "reads", type_, pointers, inside, DESCRIBED):
        result.reshape(-1)[access.lanes] = access.read()
    return result


def _store(
    run: TtirInterpreter, op: tt.DescriptorStoreOp, descriptor: _Descriptor, value: Array, *first: np.generic
) -> None:
    pointers, inside = descriptor.places(tuple(map(int, first)))
    type_ = op.src.type
    values = to_storage(np.broadcast_to(value, tt.shape(type_)), tt.element(type_)).reshape(-1)
    for access in accesses_at(run, op, "writes", type_, pointers, inside, DESCRIBED):
        access.write(values[access.lanes])


TT_DESCRIPTOR_HANDLERS: dict[type[Operation], Handler] = {
    tt.MakeTensorDescriptorOp: _make,
    tt.DescriptorLoadOp: _load,
    tt.DescriptorStoreOp: _store,
}
