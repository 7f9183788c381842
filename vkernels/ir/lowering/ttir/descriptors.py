"""Loads and stores of boxes by descriptors of their tensors, which the program makes before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from vkernels.ir.dialect import AccessOp, LaunchOp, StoreOp, arith, axes_of_box, tt

from ..common import unsupported
from .builder import Number
from .parameters import ALIGNMENT
from .state import TtirState
from .tiles import axes_and_sizes, element_bytes, transposed


@dataclass(frozen=True)
class _Box:
    """A described access. `order`: the tensor's dimensions, that with elements side by side last; `axes`: of the tile,
    along each of them, None for a single position; `sizes`: of the box."""

    state: TtirState
    operation: AccessOp
    order: tuple[int, ...]
    axes: tuple[str | None, ...]
    sizes: tuple[int, ...]

    @property
    def named(self) -> tuple[str, ...]:
        """The tile's axes in the order of the box."""
        return tuple(axis for axis in self.axes if axis is not None)

    @property
    def named_sizes(self) -> list[int]:
        return [size for axis, size in zip(self.axes, self.sizes, strict=True) if axis is not None]

    def descriptor(self) -> SSAValue:
        """The descriptor; the builder finds the one that `make_descriptors` has made."""
        build, memory = self.state.build, self.state.memory(self.operation.base)
        sizes = [self._size(dimension) for dimension in self.order]
        # A stride of 0 is that of a dimension with one position, where any other does as well.
        strides = [self._stride(dimension) for dimension in self.order]
        made = tt.MakeTensorDescriptorOp(
            memory.base,
            [build.number(build.integer(arith.MaxSIOp, size, 1), i32) for size in sizes],
            [build.number(stride) for stride in strides],
            self.sizes,
        )
        return build.pure(made)

    def _size(self, dimension: int) -> Number:
        size = self.state.memory(self.operation.base).sizes[dimension]
        if size is None:
            raise unsupported(self.operation, "a described tensor's size is not declared with vk.size")
        return size

    def _stride(self, dimension: int) -> Number:
        memory, build = self.state.memory(self.operation.base), self.state.build
        stride, least = memory.strides[dimension], ALIGNMENT // element_bytes(memory.element)
        stride = stride if isinstance(stride, int) else build.number(stride)
        return stride if stride == 1 else build.integer(arith.MaxSIOp, stride, least)

    def indices(self) -> list[SSAValue]:
        """Where the box begins. A descriptor has no dimension without positions: boxes in one begin behind the one
        that it says."""
        build, found = self.state.build, []
        for dimension, axis in zip(self.order, self.axes, strict=True):
            offset = self.operation.offset_of(dimension)
            first: Number = 0 if offset is None else self.state.number(offset)
            size = build.known(self._size(dimension))
            may_be_empty = axis in self.operation.bounds or dimension in self.operation.guarded_dimensions
            if may_be_empty and (not isinstance(size, int) or size < 1):
                is_empty = build.compare("slt", build.number(size), 1)
                first = build.select(is_empty, 1, build.number(first))
            found.append(build.number(first, i32))
        return found


def make_descriptors(state: TtirState, launch: LaunchOp) -> None:
    """Make the descriptors of a launch, where its function begins: once a program, outside of all loops."""
    for op in launch.body.walk():
        if isinstance(op, AccessOp) and op.described is not None:
            state.build.location = op.location
            _box(state, op).descriptor()


def load_box(state: TtirState, operation: AccessOp) -> None:
    """A described load: 0 outside of the tensor."""
    box, build = _box(state, operation), state.build
    value = build.result(tt.DescriptorLoadOp(box.descriptor(), box.indices()))
    if len(box.named) < len(box.axes):
        value = build.pure(tt.ReshapeOp(value, box.named_sizes))
    state.define(operation.tile, transposed(build, value, box.named, axes_and_sizes(operation.tile.type)[0]))


def store_box(state: TtirState, operation: StoreOp) -> None:
    """A described store: nothing outside of the tensor."""
    box, build = _box(state, operation), state.build
    value = transposed(build, state.value(operation.value), axes_and_sizes(operation.tile.type)[0], box.named)
    if len(box.named) < len(box.axes):
        value = build.pure(tt.ReshapeOp(value, box.sizes))
    build.add(tt.DescriptorStoreOp(box.descriptor(), value, box.indices()))


def _box(state: TtirState, operation: AccessOp) -> _Box:
    memory, axes = state.memory(operation.base), axes_of_box(operation.index)
    assert axes is not None, "verified"
    sizes = dict(zip(*axes_and_sizes(operation.tile.type), strict=True))
    side_by_side = _contiguous(operation, memory.strides)
    order = (*(number for number in range(len(axes)) if number != side_by_side), side_by_side)
    ordered = tuple(axes[number] for number in order)
    return _Box(state, operation, order, ordered, tuple(1 if axis is None else sizes[axis] for axis in ordered))


def _contiguous(operation: AccessOp, strides: Sequence[Number]) -> int:
    found = [number for number, stride in enumerate(strides) if stride == 1]
    if len(found) != 1:
        raise unsupported(operation, "a described tensor has one dimension of known stride 1")
    return found[0]
