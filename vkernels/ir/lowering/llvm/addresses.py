"""The addresses of an access's elements, and which of the elements are active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...dialect import AccessOp
from ..common import is_tile, unsupported
from .apart import known_lanes
from .constants import below
from .emit import NOTHING_BYTES, LlvmEmitter, Number, vector
from .state import AddressedMemory, LlvmState
from .tiles import Register, RegisterLayout, RegisterTile, element_bytes

LANES_BESIDE = 4
"""Lanes whose addresses begin at that of the first of them: a step times 1, 2 or 4 is part of an instruction."""


@dataclass(frozen=True)
class Address:
    """The elements of one register in memory.

    `step`: elements between neighbouring lanes; None where each lane has an address of its own, and then
    `pointer` names as many pointers as there are lanes, or `apart` are the elements from it to each lane. `mask`: which
    lanes are active, None for all. `first`, `beyond`: the first of elements that are active together, within
    `NOTHING_BYTES`, and the elements from there to the pointer; under a mask only.
    """

    pointer: str
    step: Number | None
    mask: str | None
    width: int
    apart: tuple[int, ...] = ()
    first: str = ""
    beyond: int = 0

    @property
    def distances(self) -> tuple[int, ...]:
        """The elements from the pointer to each lane, if they are known."""
        if self.apart or not isinstance(self.step, int):
            return self.apart
        return tuple(self.step * lane for lane in range(self.width))


@dataclass(frozen=True)
class _Dimension:
    """One dimension's index: axis → coefficient, a scalar offset, an index tile, and numbers that are `known` along the
    lanes; stride and size in elements."""

    terms: Mapping[str, int]
    offset: Number
    tile: RegisterTile | None
    stride: Number
    size: Number | None
    is_guarded: bool
    known: tuple[int, ...] = ()

    def varies_along(self, axis: str | None) -> bool:
        return axis in self.terms or self.is_found_along(axis)

    def is_found_along(self, axis: str | None) -> bool:
        """Whether an index tile says where each position along an axis lies; else it is a step from the one before."""
        return self.tile is not None and axis in self.tile.layout.axes


class AddressedAccess:
    """The addresses of a load or store, one for each register of its tile."""

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
        """One address a register, in the tile's order; its arithmetic is emitted when the caller takes it."""
        return map(self.place, self.layout.registers())

    def place(self, register: Register) -> Address:
        """The address of one register; its arithmetic is emitted now."""
        axis, together = self._together
        pointer, step, apart = self._lanes(self._row_pointer(register.positions), register)
        active, first, beyond = self._active(register), pointer, 0
        if active is not None and together > 1:
            beyond = register.positions[axis] % together
            first = self._row_pointer({**register.positions, axis: register.positions[axis] - beyond})
        return Address(pointer, step, active, register.width, apart, first, beyond * self.known_step(axis))

    def unmasked(self, register: Register) -> Address:
        """The address of a register of which all elements are active."""
        pointer, step, apart = self._lanes(self._row_pointer(register.positions), register)
        return Address(pointer, step, None, register.width, apart)

    @property
    def is_guarded(self) -> bool:
        """Whether elements may be beyond the tensor."""
        return any(dimension.is_guarded for dimension in self.dimensions)

    @property
    def is_scattered(self) -> bool:
        """Whether lanes, or rows, lie where an index tile or numbers say."""
        return any(dimension.tile is not None or dimension.known for dimension in self.dimensions)

    @cached_property
    def _together(self) -> tuple[str, int]:
        """An axis of a tile without lanes along which elements are active together, and how many of them at most."""
        if self.layout.has_lanes or not self.layout.row_axes:
            return "", 1
        axis, size = self.layout.row_axes[-1]
        step = self.known_step(axis)
        if self.masks_along(axis) or step < 1:
            return axis, 1
        return axis, min(size, 1 + (NOTHING_BYTES // element_bytes(self.memory.element) - 1) // step)

    def masks_along(self, axis: str) -> bool:
        """Whether some of a row's elements along an axis may be active and others not, or lie anywhere."""
        if axis in self.bounds or (self.mask is not None and self.mask.varies_along(axis)):
            return True
        return any(d.varies_along(axis) and (d.is_guarded or d.tile is not None) for d in self.dimensions)

    def known_step(self, axis: str) -> int:
        """Elements that one position along an axis moves; 0 where it is not known while compiling."""
        step = self.emit.known(self.step(axis))
        return step if isinstance(step, int) else 0

    def _dimension(self, number: int) -> _Dimension:
        offset = self.operation.offset_of(number)
        scalar: Number = 0
        tile, known, stride = None, None, self.memory.strides[number]
        if offset is not None and isinstance(stride, int) and number not in self.operation.guarded_dimensions:
            known = known_lanes(offset, self.layout.lanes)
        if known is not None:
            scalar = self.emit.known(self.state.scalar(known.base))
        elif offset is not None and is_tile(offset):
            tile = self.state.tile(offset)
        elif offset is not None:
            scalar = self.emit.known(self.state.scalar(offset))
        terms, is_guarded = self.operation.index.data[number].terms, number in self.operation.guarded_dimensions
        numbers = () if known is None else known.numbers
        return _Dimension(dict(terms), scalar, tile, stride, self.memory.sizes[number], is_guarded, numbers)

    def step(self, axis: str | None) -> Number:
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
            pointer = self.emit.offset(pointer, self.emit.multiply(position, self.step(axis)), self.memory.element)
        for dimension in self.dimensions:
            if dimension.tile is not None and not dimension.tile.layout.has_lanes:
                index = _wide(self.emit, dimension.tile, positions)
                pointer = self.emit.offset(pointer, self.emit.multiply(index, dimension.stride), self.memory.element)
        return pointer

    def _lanes(self, row: str, register: Register) -> tuple[str, Number | None, tuple[int, ...]]:
        """The pointer, step and distances of an `Address`, from the pointer of its row."""
        width = register.width
        step = self.step(self.layout.lanes) if self.layout.has_lanes else 0
        pointer = self.emit.offset(row, self.emit.multiply(register.start, step), self.memory.element)
        scattered = [d for d in self.dimensions if d.tile is not None and d.tile.layout.has_lanes]
        apart = self._apart(register)
        if not scattered and any(apart) and isinstance(step, int):
            if width == 1:
                return self.emit.offset(pointer, apart[0], self.memory.element), 0, ()
            return pointer, None, tuple(step * lane + distance for lane, distance in enumerate(apart))
        if not scattered and not any(apart):
            return pointer, step, ()
        total = self._spread(step, width)
        for dimension in scattered:
            assert dimension.tile is not None
            index = _wide(self.emit, dimension.tile, register.positions, register.piece, width)
            moved = self._times(index, dimension.stride, width)
            total = moved if total is None else self._add(total, moved, width)
        if any(apart):
            numbers = self.emit.constant(f"dense<{list(apart)}>" if width > 1 else str(apart[0]), vector("i64", width))
            total = numbers if total is None else self._add(total, numbers, width)
        assert total is not None
        return self.emit.offset(pointer, total, self.memory.element, width), 0 if width == 1 else None, ()

    def _apart(self, register: Register) -> list[int]:
        """Elements that numbers known along the lanes move each lane."""
        moved = [0] * register.width
        for dimension in self.dimensions:
            if dimension.known and isinstance(dimension.stride, int):
                numbers = dimension.known[register.start : register.start + register.width]
                moved = [one + number * dimension.stride for one, number in zip(moved, numbers, strict=True)]
        return moved

    def _spread(self, step: Number, width: int) -> str | None:
        """Lane number times a step, as a vector of i64; None for 0."""
        if step == 0 or width == 1:
            return None
        return self._times(self.emit.iota(0, width, "i64"), step, width)

    def _times(self, value: str, factor: Number, width: int) -> str:
        if factor == 1:
            return value
        return self.emit.pure(f"arith.muli {value}, {self._spread_number(factor, width)} : {vector('i64', width)}")

    def _spread_number(self, number: Number, width: int) -> str:
        """An i64 in every lane."""
        is_known = isinstance(number, int)
        return self.emit.filled(str(number), "i64", width) if is_known else self.emit.splat(str(number), "i64", width)

    def _add(self, a: str, b: str, width: int) -> str:
        return self.emit.pure(f"arith.addi {a}, {b} : {vector('i64', width)}")

    def pointers(self, place: Address) -> str:
        """The pointers of a place's lanes, as a vector."""
        if place.apart:
            numbers = self.emit.constant(f"dense<{list(place.apart)}>", vector("i64", place.width))
            return self.emit.offset(place.pointer, numbers, self.memory.element, place.width)
        if place.step is None or place.width == 1:
            return place.pointer
        offsets = self._spread(place.step, place.width)
        if offsets is None:
            return self.emit.splat(place.pointer, "!llvm.ptr", place.width)
        return self.emit.offset(place.pointer, offsets, self.memory.element, place.width)

    def lane_pointers(self, place: Address) -> list[str]:
        """The pointer of each of a place's lanes; none where an index finds each."""
        emit, element, step = self.emit, self.memory.element, place.step
        if place.apart:
            return [emit.offset(place.pointer, distance, element) for distance in place.apart]
        if step is None:
            return []
        found = [place.pointer]
        for lane in range(1, place.width):  # from the first of each few, as instructions add up to so many steps
            begin, beyond = divmod(lane, LANES_BESIDE)
            base, distance = (begin * LANES_BESIDE, beyond) if beyond else (lane - LANES_BESIDE, LANES_BESIDE)
            found.append(emit.offset(found[base], emit.multiply(distance, step), element))
        return found

    # Which elements are active

    def _active(self, register: Register) -> str | None:
        scalars, vectors = [], []
        for axis, count in self.bounds.items():
            if axis == self.layout.lanes:
                vectors.append(below(self.emit, count, register.start, register.width))
            else:
                scalars.append(below(self.emit, count, register.positions[axis], 1))
        if self.mask is not None:
            vectors.append(self.mask.at(register.positions, register.piece))
        for dimension in self.dimensions:
            if dimension.is_guarded:
                if dimension.size is None:
                    raise unsupported(self.operation, "a guarded dimension's size is not declared with vk.size")
                if self.layout.has_lanes and dimension.varies_along(self.layout.lanes):
                    vectors.extend(self._guard_lanes(dimension, dimension.size, register))
                else:
                    index = self.emit.number(self._row_index(dimension, register.positions))
                    scalars.append(self.emit.pure(f"arith.cmpi ult, {index}, {self.emit.number(dimension.size)} : i64"))
        if register.width == 1:
            return _all(self.emit, [*scalars, *vectors], "i1")
        row = _all(self.emit, scalars, "i1")
        if row is not None:
            vectors.append(self.emit.splat(row, "i1", register.width))
        return _all(self.emit, vectors, vector("i1", register.width))

    def _row_index(self, dimension: _Dimension, positions: Mapping[str, int]) -> Number:
        """A dimension's index at a row, without what varies along the lanes."""
        index = dimension.offset
        for axis, coefficient in dimension.terms.items():
            if axis != self.layout.lanes:
                index = self.emit.add(index, coefficient * positions[axis])
        if dimension.tile is not None and not dimension.tile.layout.has_lanes:
            index = self.emit.add(index, _wide(self.emit, dimension.tile, positions))
        return index

    def _guard_lanes(self, dimension: _Dimension, size: Number, register: Register) -> list[str]:
        emit, (positions, piece, start, width) = self.emit, register
        row = self._row_index(dimension, positions)
        coefficient = dimension.terms.get(self.layout.lanes or "", 0)
        scattered = dimension.tile if dimension.tile is not None and dimension.tile.layout.has_lanes else None
        if coefficient == 1 and scattered is None and width > 1:
            inside = below(emit, emit.add(size, emit.multiply(row, -1)), start, width)
            before = below(emit, emit.multiply(row, -1), start, width)
            ones = emit.filled("true", "i1", width)
            return [inside, emit.pure(f"arith.xori {before}, {ones} : {vector('i1', width)}")]
        index = self._spread_number(emit.add(row, coefficient * start), width)
        spread = self._spread(coefficient, width)
        if spread is not None:
            index = self._add(index, spread, width)
        if scattered is not None:
            index = self._add(index, _wide(emit, scattered, positions, piece, width), width)
        limit = self._spread_number(size, width)
        return [emit.pure(f"arith.cmpi ult, {index}, {limit} : {vector('i64', width)}")]


def load_word(access: AddressedAccess, place: Address, word: str) -> str:
    """The elements from a place on, as a word of this type; 0 where they are inactive."""
    emit, pointer = access.emit, place.pointer
    if place.mask is not None:
        pointer = emit.pure(f"arith.select {place.mask}, {pointer}, {emit.nothing()} : !llvm.ptr")
    align = element_bytes(access.memory.element)
    return emit.operation(f"llvm.load {pointer} {{alignment = {align} : i64}} : !llvm.ptr -> {word}")


def _wide(emit: LlvmEmitter, tile: RegisterTile, positions: Mapping[str, int], piece: int = 0, width: int = 1) -> str:
    """A register of an index tile as i64."""
    return emit.cast("arith.extsi", tile.at(positions, piece), tile.element, "i64", width)


def _all(emit: LlvmEmitter, conditions: list[str], type_: str) -> str | None:
    """Whether all conditions hold; None for none."""
    result: str | None = None
    for condition in dict.fromkeys(conditions):
        result = condition if result is None else emit.pure(f"arith.andi {result}, {condition} : {type_}")
    return result
