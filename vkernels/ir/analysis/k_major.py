"""Tensors whose elements dots contract along one dimension: these can be copied so that it is contiguous (K-major)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..dialect import DotOp, LoadOp, TensorArgumentType, arith
from ..plan import Plan

MOST_COPIED = 64
"""Elements of both sides of the tile that a program copies, at most: whole lines of both tensors, for elements of 2
bytes. Of the contracted dimension it copies more where the other side has fewer."""


@dataclass(frozen=True)
class Contracted:
    """A tensor that dots contract: the `axis` that alone indexes this `dimension`, the tensor's `shape`, and the axes
    that index each dimension."""

    axis: str
    dimension: int
    shape: tuple[str | int, ...]
    axes: tuple[tuple[str, ...], ...]

    def sides(self, plan: Plan, across: int) -> tuple[int, int]:
        """Elements of the tile that a program copies: of the dimension `across`, and of the contracted one."""

        def size(axes: tuple[str, ...], most: int) -> int:
            taken = max((plan.tiles.get(axis) or plan.chunks.get(axis, 1) for axis in axes), default=1)
            return min(most, 1 << (taken - 1).bit_length())

        side = size(self.axes[across], MOST_COPIED)
        return side, size((self.axis,), MOST_COPIED**2 // side)

    def across(self, contiguous: int | None = None) -> int | None:
        """The dimension that a program copies a part of beside the contracted one: that which is `contiguous` in the
        tensor, or else the last one. None where there is no other."""
        others = [place for place in range(len(self.shape)) if place != self.dimension]
        return contiguous if contiguous in others else max(others, default=None)

    def programs(self, plan: Plan, sizes: Mapping[str, int]) -> int:
        """Programs that copy the tensor, where the last of the other dimensions is contiguous."""
        lengths, across = self._lengths(sizes), self.across()
        side, other = self.sides(plan, self.dimension if across is None else across)[::-1]
        parts = {self.dimension: side, across: other}
        return prod(-(-length // parts.get(place, 1)) for place, length in enumerate(lengths))

    def _lengths(self, sizes: Mapping[str, int]) -> list[int]:
        return [sizes.get(length, 1) if isinstance(length, str) else length for length in self.shape]


def contracted_by_dots(tensor: SSAValue) -> Contracted | None:
    """How dots contract a tensor that they alone take.

    None where there are several, where the tensor is not only loaded, or where its elements go elsewhere too.
    """
    if not isinstance(tensor.type, TensorArgumentType):
        return None
    found = {_dimension(use.operation) for use in tensor.uses}
    (only,) = found if len(found) == 1 else (None,)
    if only is None:
        return None
    indices = [use.operation.index for use in tensor.uses if isinstance(use.operation, LoadOp)]
    axes = tuple(tuple({axis for index in each for axis, _ in index.terms}) for each in zip(*indices, strict=True))
    return Contracted(*only, tuple(tensor.type.shape), tuple(tuple(sorted(each)) for each in axes))


def contracted_axis(op: Operation) -> str | None:
    """The axis that dots contract of what an operation loads, if they alone take it."""
    users = [*_users(op.result)] if isinstance(op, LoadOp) else []
    axes = {dot.axis.data if isinstance(dot, DotOp) else None for dot in users}
    return axes.pop() if len(axes) == 1 else None


def _dimension(op: Operation) -> tuple[str, int] | None:
    """The axis that dots contract of what an operation loads, and the dimension that it alone indexes."""
    axis = contracted_axis(op)
    if not isinstance(op, LoadOp) or axis is None or op.mask is not None or axis in op.bounds:
        return None
    places = [place for place, index in enumerate(op.index) if axis in dict(index.terms)]
    if len(places) != 1 or op.index.data[places[0]].terms != ((axis, 1),) or op.offset_of(places[0]) is not None:
        return None
    if places[0] in op.guarded_dimensions or any(_is_tile(offset) for offset in op.offsets):
        return None
    return axis, places[0]


def _users(value: SSAValue) -> Iterator[Operation]:
    """The operations that take a value, converted or not."""
    for use in value.uses:
        if isinstance(use.operation, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp):
            yield from _users(use.operation.results[0])
        else:
            yield use.operation


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)
