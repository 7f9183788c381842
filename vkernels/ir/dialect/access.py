"""Loads and stores: the operations that move tiles between memory and programs.

An access names, for each dimension of what it addresses, an index: a sum of axis positions times
coefficients and one offset, a scalar or a tile. Positions count from 0 along the tile, so in
mapped IR the start of a chunk is an offset. Three things make an element inactive: its position
along an axis is not below the axis's count (`within`), its mask is false (`where`), or the index
of a guarded dimension is outside of it (`guarding`). An inactive element loads 0 and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from .access_syntax import parse_access, parse_types, print_access, print_types
from .attributes import IndexAttr, axes_of, element_of, size_text, sizes_of, tile_type
from .compute import verify_unsigned
from .names import listed
from .types import MemoryType

_ANY = 0
"""The size of an axis that an index names only as positions: whatever the tile's is."""


class AccessOp(IRDLOperation):
    """What loads and stores share. Subclasses say whether offsets may be tiles and what moves."""

    GATHERS: ClassVar[bool]

    base = operand_def(MemoryType)
    offsets = var_operand_def()
    counts = var_operand_def(i64)
    mask = opt_operand_def()

    index = prop_def(ArrayAttr[IndexAttr])
    within = prop_def(ArrayAttr[StringAttr], default_value=ArrayAttr([]))
    guarded = prop_def(DenseArrayBase, default_value=DenseArrayBase.from_list(i64, []))

    @property
    def tile(self) -> SSAValue:
        """The value that is loaded or stored."""
        raise NotImplementedError

    @property
    def memory(self) -> MemoryType:
        """The type of what is addressed."""
        return cast(MemoryType, self.base.type)

    @property
    def bounds(self) -> dict[str, SSAValue]:
        """Axis → count: elements at positions not below the count are inactive."""
        return {axis.data: count for axis, count in zip(self.within, self.counts, strict=True)}

    @property
    def guarded_dimensions(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.guarded.iter_values())

    def offset_of(self, dimension: int) -> SSAValue | None:
        """The offset operand of a dimension's index, if it has one."""
        number = self.index.data[dimension].offset.data
        return self.offsets[number] if number >= 0 else None

    def verify_(self) -> None:
        base = self.memory
        if len(self.index) != len(base.shape):
            raise VerifyException(f"{len(self.index)} indices for {base}, which has {len(base.shape)} dimensions")
        if element_of(self.tile) != base.element:
            raise VerifyException(f"elements of {element_of(self.tile)} for {base}, which holds {base.element}")
        self._verify_offsets()
        self._verify_axes()
        self._verify_activity(len(base.shape))

    def _verify_offsets(self) -> None:
        used = [index.offset.data for index in self.index if index.offset.data >= 0]
        if used != list(range(len(self.offsets))):
            raise VerifyException(f"the indices use offsets {used}, but {len(self.offsets)} are given, in this order")
        for offset in self.offsets:
            element = element_of(offset)
            if isinstance(offset.type, TensorType):
                if not self.GATHERS:
                    raise VerifyException(
                        f"{self.name} takes scalar offsets; an index tile needs vk.gather or vk.scatter"
                    )
                if not isinstance(element, IntegerType) or element == i1:
                    raise VerifyException(f"an index tile must hold integers, not {element}")
            elif element != i64:
                raise VerifyException(f"a scalar offset must be i64, not {element}")
        if self.GATHERS and not any(isinstance(offset.type, TensorType) for offset in self.offsets):
            raise VerifyException(f"{self.name} needs an index tile; without one it is a vk.load or vk.store")

    def _verify_axes(self) -> None:
        sizes: dict[str, int] = {}
        for dimension, index in enumerate(self.index):
            offset = self.offset_of(dimension)
            named = sizes_of(offset) if offset is not None else {}
            for axis in (*(axis for axis, _ in index.terms), *named):
                sizes[axis] = named.get(axis, sizes.get(axis, _ANY))
        axes = axes_of(self.tile)
        if set(axes) != set(sizes):
            raise VerifyException(f"the indices name axes {listed(sorted(sizes))}, the tile {listed(axes)}")
        for axis, size in sizes_of(self.tile).items():
            if sizes[axis] not in (_ANY, size):
                shown, other = size_text(size), size_text(sizes[axis])
                raise VerifyException(f"axis {axis} has size {shown} in the tile and {other} in an index tile")

    def _verify_activity(self, rank: int) -> None:
        axes = axes_of(self.tile)
        if len(self.within) != len(self.counts):
            raise VerifyException(f"{len(self.within)} axes within {len(self.counts)} counts")
        if len(self.bounds) != len(self.within):
            raise VerifyException(f"an axis is bounded twice in {', '.join(axis.data for axis in self.within)}")
        for axis in self.bounds:
            if axis not in axes:
                raise VerifyException(f"axis {axis} is bounded, but the tile has {listed(axes)}")
        if self.mask is not None:
            expected = tile_type(i1, axes, sizes_of(self.tile).values())
            if self.mask.type != expected:
                raise VerifyException(f"the mask is {self.mask.type}, expected {expected}")
        for dimension in self.guarded_dimensions:
            if not 0 <= dimension < rank:
                raise VerifyException(f"dimension {dimension} is guarded, but there are {rank}")


Index = tuple[Sequence[tuple[str, int]], SSAValue | None]
"""One dimension's index when building: (axis, coefficient) terms, and the offset."""


def _operands_of(indices: Iterable[Index]) -> tuple[list[SSAValue], ArrayAttr[IndexAttr]]:
    offsets: list[SSAValue] = []
    plain: list[tuple[tuple[tuple[str, int], ...], int]] = []
    for terms, offset in indices:
        plain.append((tuple(terms), -1 if offset is None else len(offsets)))
        if offset is not None:
            offsets.append(offset)
    return offsets, _index_attribute(tuple(plain))


# Accesses are built often and their attributes are few; attributes never change, so operations share them.


@lru_cache(maxsize=1024)
def _index_attribute(indices: tuple[tuple[tuple[tuple[str, int], ...], int], ...]) -> ArrayAttr[IndexAttr]:
    return ArrayAttr(IndexAttr(terms, offset) for terms, offset in indices)


@lru_cache(maxsize=1024)
def _within(axes: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(StringAttr(axis) for axis in axes)


@lru_cache(maxsize=1024)
def _guarded(dimensions: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(dimensions))


class _ReadOp(AccessOp):
    result = result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @property
    def tile(self) -> SSAValue:
        return self.result

    def __init__(
        self,
        base: SSAValue | Operation,
        index: Iterable[Index],
        result: Attribute,
        *,
        bounds: Mapping[str, SSAValue] | None = None,
        mask: SSAValue | None = None,
        guarded: Sequence[int] = (),
    ):
        offsets, attributes = _operands_of(index)
        bounds = bounds or {}
        super().__init__(
            operands=[base, offsets, list(bounds.values()), [] if mask is None else [mask]],
            properties={
                "index": attributes,
                "within": _within(tuple(bounds)),
                "guarded": _guarded(tuple(guarded)),
            },
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        print_access(printer, self)
        print_types(printer, self, self.GATHERS)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        access = parse_access(parser)
        attributes, base, offsets = parse_types(parser, access, cls.GATHERS)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        operands = access.resolve(parser, base, offsets, result)
        return cls.build(
            operands=operands, properties=access.properties(), attributes=attributes, result_types=[result]
        )


@irdl_op_definition
class LoadOp(_ReadOp):
    """Read a tile at indices affine in its axes. Inactive elements are 0."""

    name = "vk.load"
    GATHERS: ClassVar[bool] = False


@irdl_op_definition
class GatherOp(_ReadOp):
    """Read a tile at indices of which at least one is a tile. A dimension that is not guarded must be in range:
    an index tile's values are the caller's, and the interpreters and checked kernels report what lies outside."""

    name = "vk.gather"
    GATHERS: ClassVar[bool] = True


ATOMICS = ("add", "max", "min", "maxui", "minui")
"""How atomic stores combine; the last two compare unsigned integers."""


class _WriteOp(AccessOp):
    value = operand_def()
    atomic = opt_prop_def(StringAttr)
    streaming = opt_prop_def(UnitAttr)
    """The element will not be read again soon: write past the caches where the target can."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())

    @property
    def tile(self) -> SSAValue:
        return self.value

    def __init__(
        self,
        value: SSAValue | Operation,
        base: SSAValue | Operation,
        index: Iterable[Index],
        *,
        bounds: Mapping[str, SSAValue] | None = None,
        mask: SSAValue | None = None,
        guarded: Sequence[int] = (),
        atomic: str | None = None,
    ):
        offsets, attributes = _operands_of(index)
        bounds = bounds or {}
        super().__init__(
            operands=[value, base, offsets, list(bounds.values()), [] if mask is None else [mask]],
            properties={
                "index": attributes,
                "within": _within(tuple(bounds)),
                "guarded": _guarded(tuple(guarded)),
                "atomic": None if atomic is None else StringAttr(atomic),
            },
        )

    def verify_(self) -> None:
        super().verify_()
        if self.atomic is not None and self.atomic.data not in ATOMICS:
            raise VerifyException(f'atomic "{self.atomic.data}" is not one of {", ".join(ATOMICS)}')
        if self.atomic is not None:
            verify_unsigned(f"atomic {self.atomic.data}", self.atomic.data, self.value)
        if self.atomic is not None and self.streaming is not None:
            raise VerifyException("an atomic access reads what it writes, so it cannot be streaming")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        how = f" atomic {self.atomic.data}" if self.atomic is not None else ""
        printer.print_string(f"{how}{' streaming' if self.streaming is not None else ''} in")
        print_access(printer, self)
        print_types(printer, self, self.GATHERS)
        printer.print_string(" <- ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = parser.parse_unresolved_operand()
        atomic = parser.parse_identifier() if parser.parse_optional_keyword("atomic") is not None else None
        streaming = parser.parse_optional_keyword("streaming") is not None
        parser.parse_keyword("in")
        access = parse_access(parser)
        attributes, base, offsets = parse_types(parser, access, cls.GATHERS)
        parser.parse_punctuation("<")
        parser.parse_punctuation("-")
        tile = parser.parse_type()
        operands = access.resolve(parser, base, offsets, tile)
        properties = access.properties()
        if atomic is not None:
            properties["atomic"] = StringAttr(atomic)
        if streaming:
            properties["streaming"] = UnitAttr()
        value = parser.resolve_operand(unresolved, tile)
        return cls.build(operands=[value, *operands], properties=properties, attributes=attributes)


@irdl_op_definition
class StoreOp(_WriteOp):
    """Write a tile at indices affine in its axes; `atomic` combines instead (add, max, min, maxui, minui).

    Inactive elements are not written."""

    name = "vk.store"
    GATHERS: ClassVar[bool] = False


@irdl_op_definition
class ScatterOp(_WriteOp):
    """Write a tile at indices of which at least one is a tile. Where two active elements name one place, either may
    remain, unless `atomic` combines them."""

    name = "vk.scatter"
    GATHERS: ClassVar[bool] = True
