"""Subscripts: indices become index expressions, loads, stores, gathers, scatters and atomics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from vkernels.ir.dialect import GatherOp, Index, LoadOp, ScatterOp, StoreOp, arith
from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import RANK, DType, int32, int64
from ..operation import Mistake
from ..values import AddressableValue, Affine, Axis, Extent, Scratch, SubscriptReference, Tile
from .affine import as_affine
from .arithmetic import Arithmetic, is_number
from .describe import declaration, describe
from .emitter import listed
from .types import is_rounded, memory_element, type_of


@dataclass(frozen=True)
class Subscript:
    """An access: one index per dimension, the axes that it spans, and the dimensions whose index may be out of range.

    `gathers`: whether an index is a tile.
    """

    indices: tuple[Index, ...]
    axes: tuple[Axis, ...]
    guarded: tuple[int, ...]
    gathers: bool


class Accesses(Arithmetic):
    """The part of the builder that moves tiles."""

    def load(self, reference: SubscriptReference, mask: Any = None, inside: bool = False) -> Tile:
        """Load the tile at a subscript; elements out of range of a guarded dimension or with a false mask are 0.

        `inside`: the author promises that no element that is read is out of range.
        """
        memory = reference.memory
        access = self.access(reference)
        test = None if mask is None else self.mask(mask, access)
        op = (GatherOp if access.gathers else LoadOp)(
            memory.ssa,
            access.indices,
            type_of(memory_element(memory.dtype), access.axes),
            mask=test,
            guarded=() if inside else access.guarded,
        )
        return self.widened(self.result(op), memory.dtype, access.axes)

    def store(self, reference: SubscriptReference, value: Any, atomic: str | None = None, mask: Any = None) -> None:
        """Store a value at a subscript, converted to the memory's dtype and repeated along axes that it lacks."""
        memory = reference.memory
        access = self.access(reference)
        if atomic is not None and (extra := lacking(access, value, mask)):
            reference, value, mask = self._combined(reference, atomic, value, extra, mask)
            access = self.access(reference)
        tile = self.stored_tile(memory, access, value)
        ssa = tile.ssa
        if is_rounded(memory.dtype):
            element = memory_element(memory.dtype)
            ssa = self.result(arith.TruncFOp(ssa, type_of(element, access.axes)))
        test = None if mask is None else self.mask(mask, access)
        op = ScatterOp if access.gathers else StoreOp
        kind = None if atomic is None else combination(atomic, memory.dtype)
        self.insert(op(ssa, memory.ssa, access.indices, mask=test, guarded=access.guarded, atomic=kind))

    def _combined(
        self, reference: SubscriptReference, kind: str, value: Any, extra: Sequence[Axis], mask: Any
    ) -> tuple[SubscriptReference, Any, Any]:
        """A place, a value and a mask for an atomic whose place lacks `extra` axes of the value or the mask.

        The value is reduced along whole axes, as memory has it, where the mask is true. Tile axes join the place, so
        that all of their positions combine in one element.
        """
        operand, memory = self.operand(value), reference.memory
        _check_storable(memory, self.meet(operand)[0], value)
        is_longer = isinstance(operand, Tile) and operand.dtype.is_float and operand.dtype.bits > memory.dtype.bits
        tile = operand if is_longer else self.convert(operand, memory.dtype)
        assert isinstance(tile, Tile)
        along = tuple(axis for axis in extra if axis.kind == "whole")
        if any(axis in axes_of_value(mask) for axis in along):
            test = self._truth(mask)
            tile = self.where(test, tile, self.convert(_nothing(kind, tile.dtype), tile.dtype))
            found = self.reduced("max", self.convert(test, int32), tuple(axis for axis in along if axis in test.axes))
            mask = self.compare("!=", found, 0)
        if along:
            tile = self.broadcast(tile, tuple(dict.fromkeys((*tile.axes, *along))))
            tile = self.reduced("sum" if kind == "add" else kind, tile, along)
        return self.joined_place(reference, [axis for axis in extra if axis.kind == "tile"]), tile, mask

    def joined_place(self, reference: SubscriptReference, extra: Sequence[Axis]) -> SubscriptReference:
        """The same place for each position along more axes: its first index gets a tile of zeros along them."""
        if not extra or not reference.index:
            return reference
        nothing = self.broadcast(self.convert(0, int64), tuple(extra))
        first = self.binary("+", reference.index[0], nothing)
        return SubscriptReference(reference.memory, (first, *reference.index[1:]))

    def reduced(self, kind: str, tile: Tile, axes: tuple[Axis, ...]) -> Tile:
        """A tile combined along whole axes, in its own dtype; `WholeAxes` implements it."""
        raise NotImplementedError

    def _truth(self, mask: Any) -> Tile:
        tile = self.tile(mask)
        if not tile.dtype.is_bool:
            raise Mistake(TypeMismatchError, f"expected a mask of bool, found {describe(tile)}", culprit=mask)
        return tile

    def mask(self, mask: Any, access: Subscript) -> SSAValue | None:
        tile = self.tile(mask)
        if not tile.dtype.is_bool or any(axis not in access.axes for axis in tile.axes) or not access.axes:
            along = listed(access.axes) if access.axes else "no axis"
            raise Mistake(
                TypeMismatchError, f"expected a mask of bool along {along}, found {describe(tile)}", culprit=mask
            )
        return self.broadcast(tile, access.axes).ssa

    def stored_tile(self, memory: AddressableValue, access: Subscript, value: Any) -> Tile:
        """A value as it is stored at a place: in the memory's dtype, along the place's axes."""
        operand = self.operand(value)
        dtype, _ = self.meet(operand)
        _check_storable(memory, dtype, value)
        tile = self.convert(operand, memory.dtype) if is_number(operand) else operand
        assert isinstance(tile, Tile)
        if any(axis not in access.axes for axis in tile.axes):
            raise _extra_axes(memory, access, tile, value)
        if is_rounded(memory.dtype) and tile.dtype.is_float:
            return self.broadcast(tile, access.axes)  # truncf does the rest, from f32 or f64
        return self.broadcast(self.convert(tile, memory.dtype), access.axes)

    # Indices.

    def access(self, reference: SubscriptReference) -> Subscript:
        """Resolve a subscript. Raises the author's mistakes: number, kind and axes of the indices."""
        memory, extents = reference.memory, reference.memory.extents
        if len(reference.index) != len(extents):
            count = len(reference.index)
            raise Mistake(
                AxisError, f"{count} {'index is' if count == 1 else 'indices are'} given", declared(reference)
            )
        indices: list[Index] = []
        axes: dict[Axis, None] = {}
        guarded: list[int] = []
        gathers = False
        for dimension, (index, extent) in enumerate(zip(reference.index, extents, strict=True)):
            expression = self.index_expression(memory, dimension, index)
            if isinstance(memory, Scratch):
                _check_own_axis(memory, dimension, index)
            offset = self._offset(expression)
            terms = tuple((axis.name, coefficient) for axis, coefficient in expression.terms)
            indices.append((terms, None if offset is None else offset.ssa))
            axes.update(dict.fromkeys(() if offset is None else offset.axes))
            axes.update(dict.fromkeys(axis for axis, _ in expression.terms))
            gathers = gathers or (offset is not None and bool(offset.axes))
            if not stays_within(index, expression, extent):
                guarded.append(dimension)
        return Subscript(tuple(indices), tuple(axes), tuple(guarded), gathers)

    def index_expression(self, memory: AddressableValue, dimension: int, index: Any) -> Affine:
        """An index as a sum of axes. Raises the author's mistakes: its kind, and a number that is out of range."""
        expression = as_affine(index)
        if expression is None:
            raise _not_an_index(memory, dimension, index)
        constant, extent = expression.constant, memory.extents[dimension]
        if not expression.terms and expression.offset is None:
            if constant < 0:
                end = extent if isinstance(extent, int) else f'vk.size("{extent}")'
                meant = f" From the end it is `{end} - {-constant}`." if extent is not None else ""
                raise Mistake(AxisError, f"the index {constant} is negative", f"Indices count from 0.{meant}", index)
            if isinstance(extent, int) and constant >= extent:
                raise Mistake(
                    AxisError,
                    f"the index {constant} is outside of dimension {dimension} of `{memory.name}`",
                    f"It has {extent} positions, from 0.",
                    index,
                )
        return expression

    def _offset(self, expression: Affine) -> Tile | None:
        """The offset from the axes: none, an i64 scalar, or a tile of signed integers."""
        offset, constant = expression.offset, expression.constant
        if offset is None:
            if constant == 0 and expression.terms:
                return None
            return Tile(self.constant(constant, i64), int64)
        if offset.dtype.is_uint:
            offset = self._signed_index(offset)
        if constant:
            offset = self.binary("+", self.convert(offset, int64), constant)
        return offset if offset.axes else self.convert(offset, int64)

    def _signed_index(self, offset: Tile) -> Tile:
        """Unsigned integers as signed ones; values from 2⁶³ become the largest int64, which is out of range too."""
        if offset.dtype.bits < 64:
            return self.convert(offset, int32 if offset.axes and offset.dtype.bits < 32 else int64)
        return self.convert(self.extreme("min", offset, int64.limits[1]), int64)


def combination(kind: str, dtype: DType) -> str:
    """The IR's name of a combination (add, sum, product, max, min) of elements of a dtype."""
    return f"{kind}ui" if dtype.is_uint and kind in ("max", "min") else kind


def axes_of_value(value: Any) -> tuple[Axis, ...]:
    """The axes that a value of a kernel has as a tile."""
    if isinstance(value, Axis):
        return (value,)
    if isinstance(value, Affine):
        return (*(axis for axis, _ in value.terms), *axes_of_value(value.offset))
    return value.axes if isinstance(value, Tile) else ()


def lacking(access: Subscript, *values: Any) -> list[Axis]:
    """The axes of values that a place lacks, each once."""
    return [*dict.fromkeys(axis for each in values for axis in axes_of_value(each) if axis not in access.axes)]


def _nothing(kind: str, dtype: DType) -> float | int:
    """What changes no element where it is combined by add, max or min."""
    if kind == "add":
        return 0
    if dtype.is_float:
        return float("-inf") if kind == "max" else float("inf")
    low, high = dtype.limits
    return low if kind == "max" else high


def stays_within(index: Any, expression: Affine, extent: Extent) -> bool:
    """Whether every index is in range, or the caller is responsible for it (index tiles)."""
    if not expression.terms:
        offset = expression.offset
        if offset is None:
            return isinstance(extent, int)
        if expression.constant == 0 and extent is not None and offset.covers == extent:
            return True
        return bool(offset.axes)
    if expression.offset is not None or extent is None:
        return False
    axis, coefficient = expression.terms[0]
    if len(expression.terms) == 1 and coefficient == 1 and expression.constant == 0 and axis.extent == extent:
        return True
    return isinstance(extent, int) and _is_between(expression, extent)


def _is_between(expression: Affine, extent: int) -> bool:
    """Whether all values are from 0 to `extent` - 1; False if the extent of an axis is unknown."""
    low = high = expression.constant
    for axis, coefficient in expression.terms:
        if not isinstance(axis.extent, int):
            return False
        last = coefficient * (axis.extent - 1)
        low, high = low + min(0, last), high + max(0, last)
    return low >= 0 and high < extent


def _check_own_axis(scratch: Scratch, dimension: int, index: Any) -> None:
    axis = scratch.axes[dimension]
    if axis.kind == "tile" and index is not axis:
        raise Mistake(
            AxisError,
            f"dimension {dimension} of the scratchpad `{scratch.name}` is the tile axis `{axis.name}`, "
            f"found {describe(index)}",
            f"A program has only its own part of `{axis.name}`: index that dimension with `{axis.name}` itself.",
            index,
        )


def _check_storable(memory: AddressableValue, dtype: DType, value: Any) -> None:
    if RANK[dtype.kind] <= RANK[memory.dtype.kind]:
        return
    raise Mistake(
        TypeMismatchError,
        f"`{memory.name}` holds {memory.dtype.name}, found {describe(value)}",
        "Compare it with something: `… != 0`." if memory.dtype.is_bool else f"Convert it: `.to({memory.dtype!r})`.",
        value,
    )


def _extra_axes(memory: AddressableValue, access: Subscript, tile: Tile, value: Any) -> Mistake:
    """The mistake of a value with axes that its place lacks, with what helps for the first of them."""
    extra = [axis for axis in tile.axes if axis not in access.axes]
    first, name = extra[0].name, memory.name
    if extra[0].kind == "whole":
        help = f"Reduce it first, as in `vk.sum(…, axis={first})`, or index `{name}` with {listed(extra)}."
    elif not memory.extents:
        help = f'Declare `{name}` with one element, `"1"`: `vk.atomic_add({name}[0], …)` adds up all of it.'
    else:
        help = (
            f"The positions of `{first}` are split over programs. To add them up, `vk.atomic_add({name}[…], …)`, "
            f"or let one program reduce them: `{first} = vk.whole(…)`; or index `{name}` with {listed(extra)}."
        )
    return Mistake(
        AxisError,
        f"the value has the {'axis' if len(extra) == 1 else 'axes'} {listed(extra)}, "
        f"the place in `{memory.name}` {'only ' + listed(access.axes) if access.axes else 'has none'}",
        help,
        value,
    )


def _not_an_index(memory: AddressableValue, dimension: int, index: Any) -> Mistake:
    if isinstance(index, slice) or index is Ellipsis:
        extent = memory.extents[dimension]
        size = extent if isinstance(extent, int) else f'"{extent or "…"}"'
        help = f"An axis stands for all positions: `j = vk.whole({size})`, then index with `j`."
        return Mistake(UnsupportedError, "tensors are not sliced in kernels", help, index)
    help = "An index is an axis, an integer, integers of a tile, or a sum of these."
    if isinstance(index, Tile) and index.dtype.is_bool:
        help = "To choose by a mask, load all and write `vk.where(mask, …, …)`."
    elif isinstance(index, Tile):
        help = "Convert it: `.to(vk.int64)` rounds towards zero."
    return Mistake(TypeMismatchError, f"expected an index, found {describe(index)}", help, index)


def declared(reference: SubscriptReference) -> str:
    """The dimensions of a subscript's memory, and the indices that may have been meant."""
    memory = reference.memory
    fitting = [index.name for index in reference.index if isinstance(index, Axis) and index.extent in memory.extents]
    meant = ""
    if len(fitting) == len(memory.extents):
        meant = f" Did you mean `{memory.name}[{', '.join(fitting)}]`?"
    return f"{declaration(memory)}.{meant}"
