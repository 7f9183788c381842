"""Where the elements of an access lie, and which of them are active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialect import AccessOp
from .constants import below, filled
from .emit import LlvmEmitter, Number, vector
from .failures import unsupported
from .state import AddressedMemory, LlvmState
from .tiles import RegisterLayout, RegisterTile


@dataclass(frozen=True)
class Address:
    """The elements of one register in memory.

    `step`: elements between neighbouring lanes; None where each lane has an address of its own, and then
    `pointer` names as many pointers as there are lanes. `mask`: which lanes are active, None for all.
    """

    pointer: str
    step: Number | None
    mask: str | None
    width: int


@dataclass(frozen=True)
class _Dimension:
    """One dimension's index: axis → coefficient, a scalar offset, an index tile; stride and size in elements."""

    terms: Mapping[str, int]
    offset: Number
    tile: RegisterTile | None
    stride: Number
    size: Number | None
    is_guarded: bool

    def varies_along(self, axis: str | None) -> bool:
        return axis in self.terms or (self.tile is not None and axis in self.tile.layout.axes)


class AddressedAccess:
    """The places of a load or store, one a register of its tile."""

    def __init__(self, state: LlvmState, operation: AccessOp):
        self.state, self.emit, self.operation = state, state.emit, operation
        self.memory: AddressedMemory = state.memory(operation.base)
        self.layout: RegisterLayout = state.layout(operation.tile.type)
        self.dimensions = [self._dimension(d) for d in range(len(operation.index))]
        self.bounds = {axis: self.emit.known(state.scalar(count)) for axis, count in operation.bounds.items()}
        self.mask = None if operation.mask is None else state.tile(operation.mask)
        start: Number = 0
        for dimension in self.dimensions:
            start = self.emit.add(start, self.emit.multiply(dimension.offset, dimension.stride))
        self.start = self.emit.offset(self.memory.pointer, start, self.memory.element)

    def places(self) -> Iterator[Address]:
        """One place a register, in the tile's order. What a place needs is emitted when it is asked for."""
        for positions in self.layout.rows():
            row = self._row_pointer(positions)
            for piece, (start, width) in enumerate(self.layout.pieces):
                pointer, step = self._lanes(row, positions, piece, start, width)
                yield Address(pointer, step, self._active(positions, piece, start, width), width)

    def _dimension(self, number: int) -> _Dimension:
        terms: dict[str, int] = {}
        for axis, coefficient in self.operation.index.data[number].terms:
            terms[axis] = terms.get(axis, 0) + coefficient
        offset = self.operation.offset_of(number)
        scalar, tile = self._offset(offset)
        memory = self.memory
        return _Dimension(
            terms, scalar, tile, memory.strides[number], memory.sizes[number],
            number in self.operation.guarded_dimensions,
        )  # fmt: skip

    def _offset(self, offset: SSAValue | None) -> tuple[Number, RegisterTile | None]:
        if offset is None:
            return 0, None
        tile = self.state.tile(offset)
        return (0, tile) if tile.layout.axes else (self.emit.known(tile.names[0]), None)

    def _step(self, axis: str | None) -> Number:
        """Elements that one position along an axis moves, index tiles aside."""
        step: Number = 0
        for dimension in self.dimensions:
            if axis is not None and axis in dimension.terms:
                step = self.emit.add(step, self.emit.multiply(dimension.terms[axis], dimension.stride))
        return step

    def _row_pointer(self, positions: Mapping[str, int]) -> str:
        """The first element of a row, index tiles that vary along the lanes aside."""
        pointer = self.start
        for axis, position in positions.items():
            pointer = self.emit.offset(pointer, self.emit.multiply(position, self._step(axis)), self.memory.element)
        for dimension in self.dimensions:
            if dimension.tile is not None and not dimension.tile.layout.has_lanes:
                index = _wide(self.emit, dimension.tile.at(positions), dimension.tile.element, 1)
                pointer = self.emit.offset(pointer, self.emit.multiply(index, dimension.stride), self.memory.element)
        return pointer

    def _lanes(
        self, row: str, positions: Mapping[str, int], piece: int, start: int, width: int
    ) -> tuple[str, Number | None]:
        step = self._step(self.layout.lanes) if self.layout.has_lanes else 0
        pointer = self.emit.offset(row, self.emit.multiply(start, step), self.memory.element)
        scattered = [d for d in self.dimensions if d.tile is not None and d.tile.layout.has_lanes]
        if not scattered:
            return pointer, step
        total = self._spread(step, width)
        for dimension in scattered:
            assert dimension.tile is not None
            index = _wide(self.emit, dimension.tile.at(positions, piece), dimension.tile.element, width)
            moved = self._times(index, dimension.stride, width)
            total = moved if total is None else self._vector_add(total, moved, width)
        assert total is not None
        return self.emit.offset(pointer, total, self.memory.element, width), 0 if width == 1 else None

    def _spread(self, step: Number, width: int) -> str | None:
        """Lane number times a step, as a vector of i64; None for 0."""
        if step == 0 or width == 1:
            return None
        return self._times(self.emit.iota(0, width, "i64"), step, width)

    def _times(self, value: str, factor: Number, width: int) -> str:
        if factor == 1:
            return value
        if isinstance(factor, int):
            other = filled(self.emit, str(factor), "i64", width)
        else:
            other = self.emit.splat(factor, "i64", width)
        return self.emit.pure(f"arith.muli {value}, {other} : {vector('i64', width)}")

    def _vector_add(self, a: str, b: str, width: int) -> str:
        return self.emit.pure(f"arith.addi {a}, {b} : {vector('i64', width)}")

    def pointers(self, place: Address) -> str:
        """The pointers of a place's lanes, as a vector."""
        if place.step is None or place.width == 1:
            return place.pointer
        offsets = self._spread(place.step, place.width)
        if offsets is None:
            return self.emit.splat(place.pointer, "!llvm.ptr", place.width)
        return self.emit.offset(place.pointer, offsets, self.memory.element, place.width)

    # Which elements are active

    def _active(self, positions: Mapping[str, int], piece: int, start: int, width: int) -> str | None:
        scalars, vectors = [], []
        for axis, count in self.bounds.items():
            if axis == self.layout.lanes:
                vectors.append(below(self.emit, count, start, width))
            else:
                scalars.append(below(self.emit, count, positions[axis], 1))
        if self.mask is not None:
            vectors.append(self.mask.at(positions, piece))
        for dimension in self.dimensions:
            if dimension.is_guarded:
                if dimension.size is None:
                    raise unsupported(self.operation, "a guarded dimension's size is not declared with vk.size")
                if self.layout.has_lanes and dimension.varies_along(self.layout.lanes):
                    vectors.extend(self._guard_lanes(dimension, dimension.size, positions, piece, start, width))
                else:
                    scalars.append(self._guard_row(dimension, dimension.size, positions))
        if width == 1:
            return _all(self.emit, [*scalars, *vectors], "i1")
        row = _all(self.emit, scalars, "i1")
        if row is not None:
            vectors.append(self.emit.splat(row, "i1", width))
        return _all(self.emit, vectors, vector("i1", width))

    def _row_index(self, dimension: _Dimension, positions: Mapping[str, int]) -> Number:
        """A dimension's index at a row, without what varies along the lanes."""
        index = dimension.offset
        for axis, coefficient in dimension.terms.items():
            if axis != self.layout.lanes:
                index = self.emit.add(index, coefficient * positions[axis])
        if dimension.tile is not None and not dimension.tile.layout.has_lanes:
            index = self.emit.add(index, _wide(self.emit, dimension.tile.at(positions), dimension.tile.element, 1))
        return index

    def _guard_row(self, dimension: _Dimension, size: Number, positions: Mapping[str, int]) -> str:
        index = self._row_index(dimension, positions)
        return self.emit.pure(f"arith.cmpi ult, {self.emit.number(index)}, {self.emit.number(size)} : i64")

    def _guard_lanes(
        self, dimension: _Dimension, size: Number, positions: Mapping[str, int], piece: int, start: int, width: int
    ) -> list[str]:
        emit, lanes = self.emit, self.layout.lanes
        row = self._row_index(dimension, positions)
        coefficient = dimension.terms.get(lanes, 0) if lanes is not None else 0
        scattered = dimension.tile is not None and dimension.tile.layout.has_lanes
        if coefficient == 1 and not scattered and width > 1:
            return [
                below(emit, emit.add(size, emit.multiply(row, -1)), start, width),
                self._negated(below(emit, emit.multiply(row, -1), start, width), width),
            ]
        first = emit.add(row, coefficient * start)
        index = filled(emit, str(first), "i64", width) if isinstance(first, int) else emit.splat(first, "i64", width)
        spread = self._spread(coefficient, width)
        if spread is not None:
            index = self._vector_add(index, spread, width)
        if dimension.tile is not None and scattered:
            tile = _wide(emit, dimension.tile.at(positions, piece), dimension.tile.element, width)
            index = self._vector_add(index, tile, width)
        limit = filled(emit, str(size), "i64", width) if isinstance(size, int) else emit.splat(size, "i64", width)
        return [emit.pure(f"arith.cmpi ult, {index}, {limit} : {vector('i64', width)}")]

    def _negated(self, mask: str, width: int) -> str:
        ones = filled(self.emit, "true", "i1", width)
        return self.emit.pure(f"arith.xori {mask}, {ones} : {vector('i1', width)}")


def _wide(emit: LlvmEmitter, index: str, element: str, width: int) -> str:
    """Indices as i64."""
    if element == "i64":
        return index
    return emit.pure(f"arith.extsi {index} : {vector(element, width)} to {vector('i64', width)}")


def _all(emit: LlvmEmitter, conditions: list[str], type_: str) -> str | None:
    """Whether all conditions hold; None for none."""
    result: str | None = None
    for condition in dict.fromkeys(conditions):
        result = condition if result is None else emit.pure(f"arith.andi {result}, {condition} : {type_}")
    return result
