"""Types of the vk dialect: tensors in memory, scratchpad, swap space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Dimension = str | int
"""A dimension: a name (of a tensor's size, of a scratchpad's axis) or a number of elements."""


class MemoryType(ParametrizedAttribute, TypeAttribute):
    """Something that loads and stores address: `!vk.<kind><[dimensions], element>`."""

    name: ClassVar[str]

    dimensions: ArrayAttr[StringAttr | IntAttr]
    element: Attribute

    def __init__(self, dimensions: Iterable[Dimension], element: Attribute):
        super().__init__(
            ArrayAttr(StringAttr(d) if isinstance(d, str) else IntAttr(d) for d in dimensions),
            element,
        )

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
            printer.print_string(f"[{', '.join('?' if d == DYNAMIC_INDEX else str(d) for d in self.shape)}], ")
            printer.print_attribute(self.element)


def _dimension(parser: AttrParser) -> StringAttr | IntAttr:
    if parser.parse_optional_punctuation("?") is not None:
        return IntAttr(DYNAMIC_INDEX)
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    return IntAttr(number) if number is not None else StringAttr(parser.parse_identifier("dimension"))


@irdl_attr_definition
class TensorArgumentType(MemoryType):
    """A tensor that the caller passes, of any strides: `!vk.tensor<[M, 3], f32>`. Names are sizes of the call."""

    name = "vk.tensor"


@irdl_attr_definition
class ScratchType(MemoryType):
    """Scratchpad of one program. As written its dimensions are axes, `!vk.scratch<[n, i], f32>`;
    mapped they are elements, `!vk.scratch<[1024, 64], f32>`."""

    name = "vk.scratch"


@irdl_attr_definition
class BufferType(MemoryType):
    """Memory that the runtime provides to a mapped kernel: `!vk.buffer<[?, 16], f32>`.

    Contiguous, last dimension fastest. Swap space of one program, partial results and packed
    operands that cross launches live in it.
    """

    name = "vk.buffer"
