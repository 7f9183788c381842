"""The addresses of an access's elements, and the mask of its active elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from vkernels.ir.dialect import AccessOp, arith, axes_of, tt

from ..common import is_tile, unsupported
from .builder import Number
from .state import I32_RANGE, SCRATCHPAD_ALIGNMENT, TtirState
from .tiles import along, axes_and_sizes, element_bytes, only_element


@dataclass(frozen=True)
class _Dimension:
    """One dimension's index: axis → coefficient, a scalar offset, an index tile and its axes; stride and size."""

    terms: Mapping[str, int]
    offset: Number
    tile: SSAValue | None
    axes: tuple[str, ...]
    stride: Number
    size: Number | None
    is_guarded: bool

    @property
    def varies_along(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.terms, *self.axes)))


class PointerAccess:
    """The addresses of a load or store, and the mask of its active elements.

    Starts of programs and chunks are added to the base as one scalar. The rest is a small number for each axis, so that
    Triton can see which elements lie side by side.

    `groups`: axes that are one dimension of the pointers together, the last of them fastest; without any each axis is
    one.
    """

    def __init__(self, state: TtirState, operation: AccessOp, groups: Sequence[tuple[str, ...]] | None = None):
        self.state, self.build, self.operation = state, state.build, operation
        self.memory = state.memory(operation.base)
        self.axes, lengths = axes_and_sizes(operation.tile.type)
        self.lengths = dict(zip(self.axes, lengths, strict=True))
        self.groups = tuple((axis,) for axis in self.axes) if groups is None else tuple(groups)
        self.names = tuple("/".join(group) for group in self.groups)
        self.sizes = tuple(prod(self.lengths[axis] for axis in group) for group in self.groups)
        self.dimensions = [self._dimension(number) for number in range(len(operation.index))]

    def _dimension(self, number: int) -> _Dimension:
        terms, offset = dict(self.operation.index.data[number].terms), self.operation.offset_of(number)
        memory, is_guarded = self.memory, number in self.operation.guarded_dimensions
        place = (memory.strides[number], memory.sizes[number], is_guarded)
        if offset is not None and is_tile(offset):
            tile = self.state.value(offset)
            if prod(tt.shape(tile.type)) == 1 and tt.element(tile.type) == i64:
                return _Dimension(terms, only_element(self.build, tile), None, (), *place)
            return _Dimension(terms, 0, tile, axes_of(offset), *place)
        return _Dimension(terms, 0 if offset is None else self.state.number(offset), None, (), *place)

    # Addresses

    def pointers(self) -> SSAValue:
        """Pointers into global memory, one an element."""
        build, start = self.build, self._start()
        base = self.memory.base
        if start != 0:
            base = build.pure(tt.AddPtrOp(base, build.number(start)))
        pointers = build.splat(base, self.sizes)
        for element in (i64, i32):
            offsets = self._offsets(element)
            if offsets is not None:
                pointers = build.pure(tt.AddPtrOp(pointers, offsets))
        return pointers

    def elements(self, type_: Attribute) -> SSAValue:
        """The places of all elements, counted in elements from the memory's first: i32, or i64 for far memory."""
        build = self.build
        total = build.splat(build.number(self._start(type_), type_), self.sizes)
        for element in (i64, i32):
            if (offsets := self._offsets(element)) is not None:
                total = build.binary(arith.AddiOp, total, build.cast(offsets, type_))
        return total

    def positions(self, dimension: int) -> SSAValue:
        """The index of all elements in one dimension, i64."""
        place = self.dimensions[dimension]
        names = self._dimensions_of(*place.varies_along)
        return along(self.build, self._index(place, names), names, self.names, self.sizes)

    def byte_offsets(self, mask: SSAValue | None) -> SSAValue:
        """Byte offsets into the scratchpad, i32, one an element; the slot's where the mask is false."""
        build, size = self.build, element_bytes(self.memory.element)
        start = build.product(self._start(i32), size, i32)
        start = build.sum(start, self.memory.base, i32)
        first = build.splat(build.number(start, i32), self.sizes)
        offsets = self._offsets(i32, size)
        places = first if offsets is None else build.binary(arith.AddiOp, first, offsets)
        return places if mask is None else build.select(mask, places, build.splat(self.state.slot.result, self.sizes))

    def alignment(self, mask: SSAValue | None) -> int:
        """Bytes that the offsets of all elements in the scratchpad are multiples of, as far as is known; 16 at most.
        With a mask some are in the slot."""
        if mask is not None:
            return 1
        found = [SCRATCHPAD_ALIGNMENT]
        for dimension in self.dimensions:
            offset, stride = self.build.known(dimension.offset), self.build.known(dimension.stride)
            factors = [factor for axis, factor in dimension.terms.items() if self.lengths[axis] > 1]
            factors.append(1 if dimension.tile is not None or not isinstance(offset, int) else offset)
            found.append(
                gcd(*factors) * (stride if isinstance(stride, int) else 1) * element_bytes(self.memory.element)
            )
        return gcd(*found)

    def _start(self, type_: Attribute = i64) -> Number:
        build = self.build
        start: Number = 0
        for dimension in self.dimensions:
            if dimension.offset != 0:
                offset, stride = (self._as(type_, number) for number in (dimension.offset, dimension.stride))
                start = build.sum(start, build.product(offset, stride, type_), type_)
        return start

    def _as(self, type_: Attribute, number: Number) -> Number:
        number = self.build.known(number)
        return number if isinstance(number, int) else self.build.number(number, type_)

    def _offsets(self, element: Attribute, scale: int = 1) -> SSAValue | None:
        """The sum of the offsets that are computed in `element`, i32 or i64, times `scale`; None for none."""
        parts = [self._along_axis(axis, size, element, scale) for axis, size in self.lengths.items()]
        parts += [self._from_tile(dimension, element, scale) for dimension in self.dimensions]
        total = None
        for part in parts:
            if part is not None:
                total = part if total is None else self.build.binary(arith.AddiOp, total, part)
        return total

    def _along_axis(self, axis: str, size: int, element: Attribute, scale: int) -> SSAValue | None:
        step = self._step(axis)
        if step == 0 or size == 1:
            return None
        reach = abs(step) * (size - 1) if isinstance(step, int) else I32_RANGE
        is_far = self.memory.is_far and reach >= I32_RANGE
        if is_far != (element == i64):
            return None
        build = self.build
        positions = build.cast(self._positions(axis), element)
        moved = self._times(positions, build.product(step, scale, element))
        return along(build, moved, self._dimensions_of(axis), self.names, self.sizes)

    def _dimensions_of(self, *axes: str) -> tuple[str, ...]:
        """The dimensions of the pointers that some axes are in."""
        pairs = zip(self.names, self.groups, strict=True)
        return tuple(name for name, group in pairs if not {*axes}.isdisjoint(group))

    def _positions(self, axis: str) -> SSAValue:
        """The positions along an axis, i32, of the elements along its dimension."""
        (place,) = (place for place, group in enumerate(self.groups) if axis in group)
        group, count = self.groups[place], self.sizes[place]
        after = prod(self.lengths[other] for other in group[group.index(axis) + 1 :])
        found, size = self.build.range(count), self.lengths[axis]
        if size == 1 < count:
            return self.build.filled(0, found.type)
        if after > 1:
            found = self.build.binary(arith.DivUIOp, found, after)
        return found if size * after == count else self.build.binary(arith.RemUIOp, found, size)

    def _below(self, axis: str, count: Number) -> SSAValue:
        """Which elements along an axis's dimension are at positions below a count, i64: i1."""
        build, positions = self.build, self._positions(axis)
        limit = build.integer(arith.MinSIOp, build.integer(arith.MaxSIOp, count, 0), self.lengths[axis])
        return build.compare("slt", positions, build.splat(build.number(limit, i32), tt.shape(positions.type)))

    def _step(self, axis: str) -> Number:
        """Elements that one position along an axis moves, index tiles aside; i64 where the memory is far."""
        build, type_ = self.build, i64 if self.memory.is_far else i32
        step: Number = 0
        for dimension in self.dimensions:
            if axis in dimension.terms:
                stride = self._as(type_, dimension.stride)
                step = build.sum(step, build.product(dimension.terms[axis], stride, type_), type_)
        return step

    def _from_tile(self, dimension: _Dimension, element: Attribute, scale: int) -> SSAValue | None:
        if dimension.tile is None or dimension.stride == 0 or self.memory.is_far != (element == i64):
            return None
        stride = self.build.product(self._as(element, dimension.stride), scale, element)
        moved = self._times(self.build.cast(dimension.tile, element), stride)
        return along(self.build, moved, dimension.axes, self.axes, self.sizes)

    def _times(self, tile: SSAValue, factor: Number) -> SSAValue:
        if factor == 1:
            return tile
        if isinstance(factor, int):
            return self.build.binary(arith.MuliOp, tile, factor)
        return self.build.binary(arith.MuliOp, tile, self.build.splat(factor, tt.shape(tile.type)))

    # Masks

    def mask(self) -> SSAValue | None:
        """Which elements are active: i1, one an element; None for all."""
        conditions: dict[tuple[str, ...], SSAValue] = {}
        for names, condition in self._conditions():
            before = conditions.get(names)
            conditions[names] = condition if before is None else self.build.binary(arith.AndIOp, before, condition)
        result = None
        for names, condition in sorted(conditions.items(), key=lambda item: len(item[0])):
            whole = along(self.build, condition, names, self.names, self.sizes)
            result = whole if result is None else self.build.binary(arith.AndIOp, result, whole)
        return result

    def _conditions(self) -> list[tuple[tuple[str, ...], SSAValue]]:
        """Which elements are active along some dimensions of the pointers."""
        found: list[tuple[tuple[str, ...], SSAValue]] = []
        for axis, count in self.operation.bounds.items():
            known = self.state.number(count)
            if not isinstance(known, int) or known < self.lengths[axis]:
                found.append((self._dimensions_of(axis), self._below(axis, known)))
        if self.operation.mask is not None:
            found.append((self.axes, self.state.value(self.operation.mask)))
        for dimension in self.dimensions:
            if dimension.is_guarded:
                found += self._guard(dimension)
        return found

    def _guard(self, dimension: _Dimension) -> list[tuple[tuple[str, ...], SSAValue]]:
        build, size = self.build, dimension.size
        if size is None:
            raise unsupported(self.operation, "a guarded dimension's size is not declared with vk.size")
        if dimension.tile is None and list(dimension.terms.values()) == [1]:
            (axis,) = dimension.terms
            first = build.integer(arith.SubiOp, 0, dimension.offset)
            end = build.sum(size, first)
            starts = self._below(axis, first)
            place = self._dimensions_of(axis)
            return [(place, build.binary(arith.XOrIOp, starts, 1)), (place, self._below(axis, end))]
        names = self._dimensions_of(*dimension.varies_along)
        index = self._index(dimension, names)
        limit = build.splat(build.number(size), tt.shape(index.type))
        return [(names, build.compare("ult", index, limit))]

    def _index(self, dimension: _Dimension, names: tuple[str, ...]) -> SSAValue:
        """A dimension's index as i64, along the dimensions of the pointers along which it varies."""
        build = self.build
        sizes = [size for name, size in zip(self.names, self.sizes, strict=True) if name in names]
        index = build.splat(build.number(dimension.offset), sizes)
        for axis, coefficient in dimension.terms.items():
            positions = build.cast(self._positions(axis), i64)
            moved = along(build, self._times(positions, coefficient), self._dimensions_of(axis), names, sizes)
            index = build.binary(arith.AddiOp, index, moved)
        if dimension.tile is not None:
            tile = along(build, build.cast(dimension.tile, i64), dimension.axes, names, sizes)
            index = build.binary(arith.AddiOp, index, tile)
        return index
