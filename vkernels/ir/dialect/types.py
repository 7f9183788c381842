"""Types of the vk dialect: tensors in memory, scratchpad, swap space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    IntAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .assembly import parse_name, spelled

Dimension = str | int
"""A dimension: a name (of a tensor's size, of a scratchpad's axis) or a number of elements."""


class MemoryType(ParametrizedAttribute, TypeAttribute):
    """Memory that loads and stores address: `!vk.<kind><[dimensions], element>`."""

    name: ClassVar[str]

    dimensions: ArrayAttr[StringAttr | IntAttr]
    element: Attribute

    def __init__(self, dimensions: Iterable[Dimension], element: Attribute):
        super().__init__(
            ArrayAttr(StringAttr(d) if isinstance(d, str) else IntAttr(d) for d in dimensions),
            element,
        )

    def verify(self) -> None:
        kind, shape = self.name.removeprefix("vk."), self.shape
        for dimension in shape:
            if isinstance(dimension, int) and dimension < 0 and dimension != DYNAMIC_INDEX:
                raise VerifyException(f"a {kind} has a dimension of {dimension}, expected 0 or more")
        if not _is_storable(self.element):
            raise VerifyException(f"a {kind} holds {self.element}, expected a float, i1, i8, i16, i32 or i64")

    @property
    def shape(self) -> tuple[Dimension, ...]:
        """One entry a dimension: a name, or a number (`DYNAMIC_INDEX` where it is not known)."""
        return tuple(d.data for d in self.dimensions)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dimensions = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _dimension(parser))
            parser.parse_punctuation(",")
            return [ArrayAttr(dimensions), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"[{', '.join(map(_spelled_dimension, self.shape))}], ")
            printer.print_attribute(self.element)


dataclass(frozen=True, init=False)(MemoryType)
# Not as a decorator: its fields must count in equality, while type checkers keep the constructor above.


def _is_storable(element: Attribute) -> bool:
    if isinstance(element, IntegerType):
        return element.width.data in (1, 8, 16, 32, 64) and element.signedness.data == Signedness.SIGNLESS
    return isinstance(element, AnyFloat)


def _spelled_dimension(dimension: Dimension) -> str:
    if isinstance(dimension, str):
        return spelled(dimension)
    return "?" if dimension == DYNAMIC_INDEX else str(dimension)


def _dimension(parser: AttrParser) -> StringAttr | IntAttr:
    if parser.parse_optional_punctuation("?") is not None:
        return IntAttr(DYNAMIC_INDEX)
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    return IntAttr(number) if number is not None else StringAttr(parse_name(parser, "dimension"))


@irdl_attr_definition
class TensorArgumentType(MemoryType):
    """A tensor that the caller passes, of any strides: `!vk.tensor<[M, 3], f32>`. Names are sizes of the call."""

    name = "vk.tensor"

    def verify(self) -> None:
        super().verify()
        if DYNAMIC_INDEX in self.shape:
            raise VerifyException("a tensor has a dimension of ?, expected the name of a size or a number")


@irdl_attr_definition
class ScratchType(MemoryType):
    """Scratchpad of one program. As written its dimensions are axes, `!vk.scratch<[n, i], f32>`;
    mapped they are elements, `!vk.scratch<[1024, 64], f32>`."""

    name = "vk.scratch"

    def verify(self) -> None:
        super().verify()
        if DYNAMIC_INDEX in self.shape:
            raise VerifyException("a scratch has a dimension of ?, expected an axis or a number")
        axes = [dimension for dimension in self.shape if isinstance(dimension, str)]
        if len(set(axes)) != len(axes):
            raise VerifyException(f"an axis appears twice in the scratch's dimensions {', '.join(axes)}")


@irdl_attr_definition
class BufferType(MemoryType):
    """Memory that the runtime provides to a mapped kernel: `!vk.buffer<[?, 16], f32>`.

    Contiguous, last dimension fastest. Swap space of one program, partial results and packed
    operands that cross launches live in it.
    """

    name = "vk.buffer"

    def verify(self) -> None:
        super().verify()
        for dimension in self.shape:
            if isinstance(dimension, str):
                raise VerifyException(f"a buffer has a dimension of {dimension}, expected ? or a number")


@irdl_attr_definition
class SpilledType(ParametrizedAttribute, TypeAttribute):
    """A tile spilled to the program's own memory: `!vk.spilled<tensor<4x16xf32, #vk.axes<i, j>>>`."""

    name = "vk.spilled"

    tile: Attribute

    def verify(self) -> None:
        if not isinstance(self.tile, TensorType):
            raise VerifyException(f"what is spilled is a tile, not {self.tile}")
