"""The frame inside a kernel: ranges, phases, launches, and the memory that programs own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from .assembly import listed, parse_argument, parse_attributes, print_argument, print_body, print_location
from .attributes import axes_of, element_of
from .kernels import MappedOp
from .types import BufferType, ScratchType


@irdl_op_definition
class YieldOp(IRDLOperation):
    """End the body of a `vk.range` or `vk.phase` and hand on its values."""

    name = "vk.yield"

    values = var_operand_def()

    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue] = ()):
        super().__init__(operands=[values])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), RangeOp | PhaseOp):
            raise VerifyException("vk.yield outside the body of a vk.range or vk.phase")


def _verify_yield(body: Region, expected: Sequence[Attribute], what: str) -> None:
    last = body.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"the body ends with {last.name if last else 'nothing'}, expected vk.yield")
    if len(last.values) != len(expected):
        raise VerifyException(f"{len(last.values)} values are yielded for {len(expected)} {what}")
    for number, (value, type_) in enumerate(zip(last.values, expected, strict=True)):
        if value.type != type_:
            raise VerifyException(f"value {number} is yielded as {value.type}, expected {type_}")


def _print_yielding_body(printer: Printer, body: Region) -> None:
    """The body; a `vk.yield` without values, attributes and location is left out."""
    last = body.block.last_op
    is_plain = isinstance(last, YieldOp) and not (last.values or last.attributes)
    print_body(printer, body, terminator=printer.print_debuginfo or not is_plain)


def _parse_yielding_body(parser: Parser, arguments: Sequence[Parser.Argument]) -> Region:
    body = parser.parse_region(arguments)
    last = body.blocks.last.last_op if body.blocks.last is not None else None
    if body.blocks.last is not None and (last is None or not last.has_trait(IsTerminator)):
        body.blocks.last.add_op(YieldOp())
    return body


@irdl_op_definition
class RangeOp(IRDLOperation):
    """A sequential loop over `start` up to `stop`, step 1, carrying values; the body's first argument is the position.

    The bounds are both i64, or both tiles of i64 with the same axes: a ragged range, where each element
    makes its own number of steps and the position is a tile like the bounds. An element that has finished
    keeps its carried values, loads 0 and stores nothing; every carried value then has at least the bounds' axes.
    """

    name = "vk.range"

    start = operand_def()
    stop = operand_def()
    initial = var_operand_def()
    axis = prop_def(StringAttr)
    results_ = var_result_def()
    body = region_def("single_block")

    def __init__(self, axis: str, start: SSAValue, stop: SSAValue, initial: Sequence[SSAValue], body: Region):
        super().__init__(
            operands=[start, stop, initial],
            properties={"axis": StringAttr(axis)},
            result_types=[[value.type for value in initial]],
            regions=[body],
        )

    @property
    def is_ragged(self) -> bool:
        return isinstance(self.start.type, TensorType)

    @property
    def position(self) -> BlockArgument:
        return self.body.block.args[0]

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        return tuple(self.body.block.args[1:])

    def verify_(self) -> None:
        bounds = self.start.type
        if bounds != self.stop.type:
            raise VerifyException(f"the range starts at {bounds} and stops at {self.stop.type}, expected one type")
        if element_of(bounds) != i64:
            raise VerifyException(f"the range's bounds are {bounds}, expected i64 or a tile of i64")
        arguments = self.body.block.arg_types
        expected = (bounds, *self.initial.types)
        if arguments != expected:
            raise VerifyException(f"the body takes {_types(arguments)}, expected {_types(expected)}")
        if self.results_.types != self.initial.types:
            raise VerifyException(f"results are {_types(self.results_.types)}, expected {_types(self.initial.types)}")
        for value in self.initial if self.is_ragged else ():
            if missing := set(axes_of(bounds)) - set(axes_of(value)):
                raise VerifyException(f"{value.type} is carried by a ragged range, but lacks {listed(sorted(missing))}")
        _verify_yield(self.body, self.initial.types, "carried values")

    # Assembly: `vk.range %k = %lo to %hi : T carrying (%a = %init : U) { ... }`; T is left out if it is i64.

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_argument(printer, self.position, self.axis.data)
        print_location(printer, self.position)
        printer.print_string(" = ")
        printer.print_ssa_value(self.start)
        printer.print_string(" to ")
        printer.print_ssa_value(self.stop)
        if self.start.type != i64:
            printer.print_string(" : ")
            printer.print_attribute(self.start.type)
        if self.initial:
            printer.print_string(" carrying ")
            with printer.in_parens():
                printer.print_list(zip(self.carried, self.initial, strict=True), lambda p: _print_carried(printer, *p))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        _print_yielding_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        axis, position = parse_argument(parser)
        location = parser.parse_optional_location()
        parser.parse_punctuation("=")
        start = parser.parse_unresolved_operand()
        parser.parse_keyword("to")
        stop = parser.parse_unresolved_operand()
        bounds = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else i64
        carried: list[tuple[Parser.Argument, SSAValue]] = []
        if parser.parse_optional_keyword("carrying") is not None:
            carried = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_carried(parser))
        attributes = parse_attributes(parser)
        start_, stop_ = parser.resolve_operand(start, bounds), parser.resolve_operand(stop, bounds)
        first = parser.Argument(position.name, bounds, location)
        body = _parse_yielding_body(parser, [first, *(argument for argument, _ in carried)])
        op = cls(axis, start_, stop_, [value for _, value in carried], body)
        op.attributes.update(attributes)
        return op


def _types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


def _print_carried(printer: Printer, argument: BlockArgument, initial: SSAValue) -> None:
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(initial)
    printer.print_string(" : ")
    printer.print_attribute(argument.type)
    print_location(printer, argument)


def _parse_carried(parser: Parser) -> tuple[Parser.Argument, SSAValue]:
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    initial = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    type_ = parser.parse_type()
    resolved = parser.Argument(argument.name, type_, parser.parse_optional_location())
    return resolved, parser.resolve_operand(initial, type_)


@irdl_op_definition
class BoundaryOp(IRDLOperation):
    """The author's `vk.phase()`: everything before is complete before anything after begins.

    `grid`: in all programs, not just in one.
    """

    name = "vk.boundary"

    phase = opt_prop_def(StringAttr)
    """A name for the phase that begins."""
    grid = opt_prop_def(UnitAttr)

    def __init__(self, phase: str | None = None, grid: bool = False):
        name = None if phase is None else StringAttr(phase)
        super().__init__(properties={"phase": name, "grid": UnitAttr() if grid else None})

    def print(self, printer: Printer) -> None:
        if self.phase is not None:
            printer.print_string(" ")
            printer.print_string_literal(self.phase.data)
        if self.grid is not None:
            printer.print_string(" grid")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(parser.parse_optional_str_literal(), parser.parse_optional_keyword("grid") is not None)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class PhaseOp(IRDLOperation):
    """A maximal region that can be processed chunk by chunk; its results are what crosses into later phases.

    `grid`: all programs complete it, and a loop or conditional around it, before any goes on.
    """

    name = "vk.phase"

    phase = prop_def(StringAttr)
    grid = opt_prop_def(UnitAttr)
    results_ = var_result_def()
    body = region_def("single_block")

    def __init__(self, phase: str, results: Sequence[Attribute], body: Region):
        super().__init__(properties={"phase": StringAttr(phase)}, result_types=[results], regions=[body])

    def verify_(self) -> None:
        if arguments := self.body.block.arg_types:
            raise VerifyException(f"the body takes {_types(arguments)}, expected no arguments")
        _verify_yield(self.body, self.results_.types, "results")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.phase.data)
        if self.grid is not None:
            printer.print_string(" grid")
        if self.results_:
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(self.results_.types, printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        _print_yielding_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        phase = parser.parse_str_literal()
        is_grid = parser.parse_optional_keyword("grid") is not None
        results: Sequence[Attribute] = []
        if parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parse_attributes(parser)
        op = cls(phase, results, _parse_yielding_body(parser, []))
        op.grid = UnitAttr() if is_grid else None
        op.attributes.update(attributes)
        return op


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """Scratchpad of this program. As written its dimensions are axes and it is as large as they are;
    mapped, its dimensions are elements. An element must be stored before it is loaded."""

    name = "vk.scratch"

    label = prop_def(StringAttr)
    result = result_def(ScratchType)

    assembly_format = "$label attr-dict `:` type($result)"

    def __init__(self, label: str, type_: ScratchType):
        super().__init__(properties={"label": StringAttr(label)}, result_types=[type_])
        self.result.name_hint = label


@irdl_op_definition
class BufferOp(IRDLOperation):
    """Memory from the runtime, for a mapped kernel. At its top level it is shared by all programs and launches;
    inside a launch it belongs to one resident program (swap space). `?` dimensions take their sizes in order."""

    name = "vk.buffer"

    label = prop_def(StringAttr)
    sizes = var_operand_def(i64)
    result = result_def(BufferType)

    assembly_format = "$label ` ` `[` $sizes `]` attr-dict `:` type($result)"

    def __init__(self, label: str, sizes: Sequence[SSAValue], type_: BufferType):
        super().__init__(operands=[sizes], properties={"label": StringAttr(label)}, result_types=[type_])
        self.result.name_hint = label

    def verify_(self) -> None:
        unknown = self.result.type.shape.count(DYNAMIC_INDEX)
        if unknown != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {self.result.type}, which has {unknown} ?")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Run the body once for every program of a grid, in any order and at once; the block arguments are the
    program's coordinates, i64, and the last of them varies fastest. Launches of a kernel run one after another.
    The attribute `warps`: of a program at most, on GPUs; without it as many as the plan has."""

    name = "vk.launch"

    label = prop_def(StringAttr)
    grid = var_operand_def(i64)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(self, label: str, grid: Sequence[SSAValue], body: Region, warps: int | None = None):
        attributes = {} if warps is None else {"warps": IntegerAttr(warps, i64)}
        super().__init__(
            operands=[grid], properties={"label": StringAttr(label)}, attributes=attributes, regions=[body]
        )

    @property
    def warps(self) -> int | None:
        """Warps of a program at most, if there are not as many as the plan has."""
        warps = self.attributes.get("warps")
        return warps.value.data if isinstance(warps, IntegerAttr) else None

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), MappedOp):
            raise VerifyException(f'launch "{self.label.data}" is outside the top level of a vk.mapped')
        coordinates, expected = self.body.block.arg_types, (i64,) * len(self.grid)
        if coordinates != expected:
            raise VerifyException(f"the body takes {_types(coordinates)}, expected {_types(expected)}")

    # Assembly: `vk.launch "softmax" over (%p = %programs) { ... }`.

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" over ")
        with printer.in_parens():
            pairs = zip(self.body.block.args, self.grid, strict=True)
            printer.print_list(pairs, lambda pair: _print_coordinate(printer, *pair))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        label = parser.parse_str_literal()
        parser.parse_keyword("over")
        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_coordinate(parser))
        attributes = parse_attributes(parser)
        op = cls(label, [size for _, size in pairs], parser.parse_region([coordinate for coordinate, _ in pairs]))
        op.attributes.update(attributes)
        return op


def _print_coordinate(printer: Printer, coordinate: BlockArgument, size: SSAValue) -> None:
    printer.print_ssa_value(coordinate)
    print_location(printer, coordinate)
    printer.print_string(" = ")
    printer.print_ssa_value(size)


def _parse_coordinate(parser: Parser) -> tuple[Parser.Argument, SSAValue]:
    name = parser.parse_argument(expect_type=False).name
    coordinate = parser.Argument(name, i64, parser.parse_optional_location())
    parser.parse_punctuation("=")
    return coordinate, parser.parse_operand(i64)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Order a program's accesses to its scratchpad and swap space: every thread then sees all earlier writes."""

    name = "vk.barrier"

    assembly_format = "attr-dict"
