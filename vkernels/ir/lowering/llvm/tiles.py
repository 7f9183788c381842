"""The layout of a tile in registers: vectors along the lane axis, everything else unrolled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation

from ...dialect import axes_of, element_of, sizes_of
from ...dialect.types import MemoryType
from ..common import constant_elements, is_half, is_quarter, unsupported
from .emit import LlvmEmitter


@dataclass(frozen=True)
class Lanes:
    """The axis along vector registers (None: no vectors), and the elements of one register, a power of two."""

    axis: str | None
    width: int

    def pieces(self, size: int) -> tuple[tuple[int, int], ...]:
        """`size` elements as (start, width): whole registers, then smaller and smaller powers of two."""
        result = []
        start, width = 0, self.width
        while start < size:
            while width > size - start:
                width //= 2
            result.append((start, width))
            start += width
        return tuple(result)


class Register(NamedTuple):
    """One register of a layout: its row's positions, and its piece's number, start and width."""

    positions: Mapping[str, int]
    piece: int
    start: int
    width: int


@dataclass(frozen=True)
class RegisterLayout:
    """The registers of a tile: one a row and piece, rows outermost.

    A row is a position on every axis but the lane axis; a piece is a stretch (start, width) of the lane axis,
    a vector or, of width 1, a scalar. A tile without the lane axis has one piece of width 1.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    lanes: str | None
    pieces: tuple[tuple[int, int], ...]

    @cached_property
    def row_axes(self) -> tuple[tuple[str, int], ...]:
        """Axis and size of every axis but the lane axis."""
        return tuple((a, n) for a, n in zip(self.axes, self.sizes, strict=True) if a != self.lanes)

    @property
    def has_lanes(self) -> bool:
        return self.lanes in self.axes

    def size_of(self, axis: str) -> int:
        return self.sizes[self.axes.index(axis)]

    def rows(self) -> Iterator[dict[str, int]]:
        """The positions of every row, last axis fastest."""
        names = [axis for axis, _ in self.row_axes]
        for positions in product(*(range(size) for _, size in self.row_axes)):
            yield dict(zip(names, positions, strict=True))

    def register(self, positions: Mapping[str, int], piece: int) -> int:
        """The number of the register of a row and piece; a tile without the lane axis has one for all pieces."""
        row = 0
        for axis, size in self.row_axes:
            row = row * size + positions[axis]
        return row * len(self.pieces) + (piece if self.has_lanes else 0)

    def registers(self) -> Iterator[Register]:
        """Every register, in order."""
        for positions in self.rows():
            for piece, (start, width) in enumerate(self.pieces):
                yield Register(positions, piece, start, width)

    def widths(self) -> list[int]:
        """The width of every register, in order."""
        return [width for _, width in self.pieces] * prod(size for _, size in self.row_axes)


def layout_of(type_: Attribute, lanes: Lanes) -> RegisterLayout:
    """The layout of a tile or scalar type."""
    axes, sizes = axes_of(type_), tuple(sizes_of(type_).values())
    pieces = lanes.pieces(sizes[axes.index(lanes.axis)]) if lanes.axis in axes else ((0, 1),)
    return RegisterLayout(axes, sizes, lanes.axis, pieces)


@dataclass(frozen=True)
class RegisterTile:
    """A tile's value: its layout, the MLIR type of an element in registers, and the SSA names of its registers."""

    layout: RegisterLayout
    element: str
    names: Sequence[str]

    def at(self, positions: Mapping[str, int], piece: int = 0) -> str:
        """The register of a row and piece."""
        return self.names[self.layout.register(positions, piece)]

    def varies_along(self, axis: str) -> bool:
        """Whether registers differ along an axis: those of a broadcast do not."""
        if axis == self.layout.lanes:
            return True
        every = self.layout.registers()
        return any(self.at(r.positions, r.piece) != self.at({**r.positions, axis: 0}, r.piece) for r in every)

    def spread(self, emit: LlvmEmitter, register: Register) -> str:
        """The elements at a register of a layout with more axes: a scalar is repeated in every lane."""
        name = self.at(register.positions, register.piece)
        return name if self.layout.has_lanes else emit.splat(name, self.element, register.width)


def register_element(element: Attribute, operation: Operation) -> str:
    """The MLIR type of an element in a register; f16, bf16 and f8, which are only moved and converted, are their bits.

    Raises `UnsupportedError` for an element type that has no native form.
    """
    if isinstance(element, IntegerType) and element.width.data in (1, 8, 16, 32, 64):
        return f"i{element.width.data}"
    if isinstance(element, IndexType):
        return "i64"
    if is_half(element):
        return "i16"
    if is_quarter(element):
        return "i8"
    if isinstance(element, AnyFloat) and str(element) in ("f32", "f64"):
        return str(element)
    raise unsupported(operation, f"elements of {element} have no native form on a CPU")


def memory_element(element: Attribute, operation: Operation) -> str:
    """The MLIR type of an element in memory: as in registers, but a byte for i1."""
    return "i8" if element == IntegerType(1) else register_element(element, operation)


def element_bytes(element: str) -> int:
    """Bytes of an element's MLIR type in memory."""
    return max(1, int(element[1:]) // 8)


def natural_width(root: Operation, lanes: str | None, register_bytes: int) -> int:
    """Elements of a register such that the widest element that the kernel computes with fills it.

    Index tiles (i64) count only where the kernel computes with nothing else; f16 and bf16 are computed as f32.
    """
    if lanes is None:
        return 1
    floats, integers = set(), set()
    for operation in root.walk():
        for value in (*operation.results, *operation.operands):
            if isinstance(value.type, TensorType) and lanes in axes_of(value):
                element = element_of(value)
                if isinstance(element, AnyFloat):
                    floats.add(max(4, element.bitwidth // 8))
                elif isinstance(element, IntegerType) and element.width.data > 1:
                    integers.add(element.width.data // 8)
    narrow = integers - {8}
    widest = max(floats or narrow or integers or {4})
    return max(1, register_bytes // widest)


def scratch_bytes(type_: MemoryType, operation: Operation) -> int:
    """Bytes of a scratchpad or of swap space, all of whose dimensions are numbers."""
    return constant_elements(type_, operation) * element_bytes(memory_element(type_.element, operation))
