"""Attributes of the vk dialect: axes, and the index expressions of memory accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .assembly import listed, parse_name, spelled


@irdl_attr_definition
class AxesAttr(ParametrizedAttribute):
    """The axes of a tile, one name a dimension, outermost first: `#vk.axes<i, j>`.

    It is the encoding of the tile's tensor type, so upstream arith and math operations check
    that their operands have the same axes in the same order.
    """

    name = "vk.axes"

    axes: ArrayAttr[StringAttr]

    def __init__(self, axes: Iterable[str] | ArrayAttr[StringAttr]):
        super().__init__(axes if isinstance(axes, ArrayAttr) else ArrayAttr(StringAttr(axis) for axis in axes))

    @property
    def names(self) -> tuple[str, ...]:
        found: tuple[str, ...] | None = vars(self).get("_names")
        if found is None:  # cached: planning reads it tens of thousands of times
            found = vars(self)["_names"] = tuple(axis.data for axis in self.axes)
        return found

    def verify(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise VerifyException(f"an axis appears twice in {listed(self.names)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        names = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: parse_name(parser, "axis name"))
        return [ArrayAttr(StringAttr(name) for name in names)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(spelled, self.names)))


@irdl_attr_definition
class IndexAttr(ParametrizedAttribute):
    """The index of one dimension in an access: a sum of axis positions times coefficients, and an offset.

    `terms` pairs axes with coefficients; `offset` is the number of the access's offset operand
    that is added, or -1 for none. `#vk.index<[0] + i + 2 * j>` is `offsets[0] + i + 2j`.
    """

    name = "vk.index"

    axes: ArrayAttr[StringAttr]
    coefficients: ArrayAttr[IntAttr]
    offset: IntAttr

    def __init__(self, terms: Iterable[tuple[str, int]] = (), offset: int = -1):
        terms = tuple(terms)
        super().__init__(
            ArrayAttr(StringAttr(axis) for axis, _ in terms),
            ArrayAttr(IntAttr(coefficient) for _, coefficient in terms),
            IntAttr(offset),
        )

    @property
    def terms(self) -> tuple[tuple[str, int], ...]:
        return tuple((axis.data, c.data) for axis, c in zip(self.axes, self.coefficients, strict=True))

    def verify(self) -> None:
        axes = [axis for axis, _ in self.terms]
        if len(set(axes)) != len(axes):
            raise VerifyException(f"an axis appears twice in {self.text('[0]')}")
        for axis, coefficient in self.terms:
            if coefficient == 0:
                raise VerifyException(f"axis {axis} has coefficient 0; leave it out")
        if self.offset.data < -1:
            raise VerifyException(f"offset operand {self.offset.data}, expected its number or -1 for none")

    def text(self, offset: str) -> str:
        """The expression as an author would write it, `offset` standing for the offset operand."""
        parts = [offset] if self.offset.data >= 0 else []
        parts += [spelled(axis) if c == 1 else f"{c} * {spelled(axis)}" for axis, c in self.terms]
        return " + ".join(parts) if parts else "0"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """`<` a sum of `[0]`, `axis` and `3 * axis`, or a lone `0` `>`."""
        with parser.in_angle_brackets():
            return parse_index(parser, lambda: _parse_optional_offset(parser)).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text(f"[{self.offset.data}]"))


def _parse_optional_offset(parser: AttrParser) -> int | None:
    if parser.parse_optional_punctuation("[") is None:
        return None
    offset = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation("]")
    return offset


def parse_index(parser: AttrParser, parse_optional_offset: Callable[[], int | None]) -> IndexAttr:
    """A sum of `axis`, `3 * axis` and at most one offset, whose number the callback returns; or a lone `0`."""
    offset = -1
    terms: list[tuple[str, int]] = []
    while True:
        if (number := parse_optional_offset()) is not None:
            if offset >= 0:
                parser.raise_error("an index has one offset at most")
            offset = number
        elif (coefficient := parser.parse_optional_integer(allow_boolean=False)) is None:
            terms.append((parse_name(parser, "axis name"), 1))
        elif coefficient != 0:
            parser.parse_punctuation("*")
            terms.append((parse_name(parser, "axis name"), coefficient))
        if parser.parse_optional_punctuation("+") is None:
            return IndexAttr(terms, offset)


def axes_of(value: SSAValue | Attribute) -> tuple[str, ...]:
    """The axes of a tile, outermost first; none for a scalar."""
    type_ = value.type if isinstance(value, SSAValue) else value
    if not isinstance(type_, TensorType):
        return ()
    if not isinstance(type_.encoding, AxesAttr):
        raise VerifyException(f"{type_} is not a tile: its encoding names no axes")
    names = type_.encoding.names
    if len(names) != len(type_.shape.data):
        raise VerifyException(f"{type_} names {len(names)} axes for {len(type_.shape.data)} dimensions")
    return names


def tile_type(element: Attribute, axes: Iterable[str], sizes: Iterable[int] | None = None) -> Attribute:
    """The type of a tile: `tensor<?x?xf32, #vk.axes<i, j>>`, or the element's own type where there is no axis.

    `sizes` are elements along each axis; without them every size is unknown, as in vk IR as written.
    """
    axes = tuple(axes)
    if not axes:
        return element
    return _tile_type(element, axes, (DYNAMIC_INDEX,) * len(axes) if sizes is None else tuple(sizes))


@lru_cache(maxsize=1024)  # tile types are few, and every operation that is built needs one
def _tile_type(element: Attribute, axes: tuple[str, ...], sizes: tuple[int, ...]) -> Attribute:
    return TensorType(element, sizes, AxesAttr(axes))


def element_of(value: SSAValue | Attribute) -> Attribute:
    """The element type of a tile; a scalar's own type."""
    type_ = value.type if isinstance(value, SSAValue) else value
    return type_.element_type if isinstance(type_, TensorType) else type_


def sizes_of(value: SSAValue | Attribute) -> dict[str, int]:
    """Elements along each axis of a tile, `DYNAMIC_INDEX` where unknown; empty for a scalar."""
    type_ = value.type if isinstance(value, SSAValue) else value
    if not isinstance(type_, TensorType):
        return {}
    return dict(zip(axes_of(type_), type_.get_shape(), strict=True))


def size_text(size: int) -> str:
    """A tile's size along an axis, as its type shows it."""
    return "?" if size == DYNAMIC_INDEX else str(size)
