"""Kernels as written and as mapped, and what they declare: sizes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, TensorType, f64, i1, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from .assembly import (
    Below,
    listed,
    parse_argument,
    parse_attributes,
    parse_name,
    print_argument,
    print_body,
    print_location,
    spelled,
)
from .attributes import axes_of
from .compute import PureOp
from .types import ScratchType, TensorArgumentType


class _FunctionOp(IRDLOperation):
    """A named body whose block arguments are the kernel's parameters, in the author's order."""

    LANES: ClassVar[bool] = False
    """Whether the operation says which axis lies along vector registers."""

    sym_name = prop_def(StringAttr)
    parameters = prop_def(ArrayAttr[StringAttr])
    """The parameters' names."""
    facts = opt_prop_def(DictionaryAttr)
    """Facts that are known at compile time: see `vkernels.ir.facts`."""
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(self, name: str, parameters: Sequence[tuple[str, Attribute]], facts: DictionaryAttr | None = None):
        block = Block(arg_types=[type_ for _, type_ in parameters])
        for (label, _), argument in zip(parameters, block.args, strict=True):
            argument.name_hint = label
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "parameters": ArrayAttr(StringAttr(label) for label, _ in parameters),
                "facts": facts,
            },
            regions=[Region(block)],
        )

    def parameter(self, name: str) -> SSAValue:
        """The block argument of a parameter, by name."""
        return self.body.block.args[[p.data for p in self.parameters].index(name)]

    def verify_(self) -> None:
        names, arguments = [p.data for p in self.parameters], self.body.block.args
        if len(names) != len(arguments):
            raise VerifyException(f"{len(names)} names of parameters for {len(arguments)} block arguments")
        if len(set(names)) != len(names):
            raise VerifyException(f"a parameter's name appears twice in {', '.join(names)}")
        for name, argument in zip(names, arguments, strict=True):
            if argument.type not in (f64, i64, i1) and not isinstance(argument.type, TensorArgumentType):
                raise VerifyException(f"parameter {name} is {argument.type}, expected a !vk.tensor, f64, i64 or i1")
        _verify_values(self.body.block, set())
        if self.facts is not None:
            _verify_facts(self.facts, dict(zip(names, self.body.block.arg_types, strict=True)))

    # Assembly: `vk.kernel @softmax(%x: !vk.tensor<[M], f32>, %eps: f64) facts {...} attributes {...} { ... }`.

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            arguments = zip(self.parameters, self.body.block.args, strict=True)
            printer.print_list(arguments, lambda pair: _print_parameter(printer, pair[0].data, pair[1]))
        if (lanes := self.properties.get("lanes")) is not None:
            printer.print_string(f" lanes {spelled(lanes.data)}" if isinstance(lanes, StringAttr) else "")
        if self.facts is not None:
            printer.print_string(" facts ")
            printer.print_attribute(self.facts)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        parameters = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_parameter(parser))
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "parameters": ArrayAttr(StringAttr(label) for label, _ in parameters),
        }
        if cls.LANES and parser.parse_optional_keyword("lanes") is not None:
            properties["lanes"] = StringAttr(parse_name(parser, "axis name"))
        if parser.parse_optional_keyword("facts") is not None:
            properties["facts"] = DictionaryAttr(parser.parse_optional_dictionary_attr_dict())
        return cls.create(
            properties=properties,
            attributes=parse_attributes(parser),
            regions=[parser.parse_region([argument for _, argument in parameters])],
        )


def _print_parameter(printer: Printer, name: str, argument: BlockArgument) -> None:
    print_argument(printer, argument, name)
    printer.print_string(": ")
    printer.print_attribute(argument.type)
    print_location(printer, argument)


def _parse_parameter(parser: Parser) -> tuple[str, Parser.Argument]:
    name, unresolved = parse_argument(parser)
    parser.parse_punctuation(":")
    argument = unresolved.resolve(parser.parse_type())
    argument.location = parser.parse_optional_location()
    return name, argument


def _verify_values(block: Block, known: set[SSAValue]) -> None:
    """Every operand is defined before its use, in this block or one around it, and every tensor is a tile.

    xDSL leaves the order to its users.
    """
    mine: list[SSAValue] = list(block.args)
    known.update(mine)
    for op in block.ops:
        for operand in op.operands:
            if operand not in known:
                raise VerifyException(f"an operand of {op.name}, of type {operand.type}, is used before it is defined")
        for region in op.regions:
            for inner in region.blocks:
                _verify_values(inner, known)
        for result in op.results:
            axes_of(result)
        known.update(op.results)
        mine += op.results
    known.difference_update(mine)


def _verify_facts(facts: DictionaryAttr, parameters: dict[str, Attribute]) -> None:
    """The facts' form, as `vkernels.ir.facts` reads it."""
    for key in ("sizes", "multiples", "strides"):
        entries = facts.data.get(key)
        if not isinstance(entries, DictionaryAttr):
            raise VerifyException(f"the facts' {key} are {entries}, expected a dictionary")
        for name, value in entries.data.items():
            if key == "strides":
                _verify_strides(name, value, parameters)
            elif not isinstance(value, IntegerAttr):
                raise VerifyException(f"the facts' {key} give {name} as {value}, expected a number")
    for key in ("aligned", "large"):
        names = facts.data.get(key, ArrayAttr([]))
        if not isinstance(names, ArrayAttr) or not all(isinstance(name, StringAttr) for name in names):
            raise VerifyException(f"the facts' {key} are {names}, expected an array of names")


def _verify_strides(name: str, strides: Attribute, parameters: dict[str, Attribute]) -> None:
    tensor = parameters.get(name)
    if not isinstance(tensor, TensorArgumentType):
        raise VerifyException(f"the facts give strides of {name}, which is not a tensor parameter")
    if not isinstance(strides, ArrayAttr) or not all(isinstance(stride, IntegerAttr) for stride in strides):
        raise VerifyException(f"the strides of {name} are {strides}, expected an array of numbers")
    if len(strides) != len(tensor.shape):
        raise VerifyException(f"{len(strides)} strides for {name}, which has {len(tensor.shape)} dimensions")


@irdl_op_definition
class KernelOp(_FunctionOp):
    """A kernel as its author wrote it: one program that holds every position of every axis.

    A pass may split tile axes over programs and whole axes into chunks; the meaning does not change.
    """

    name = "vk.kernel"

    @property
    def analyses(self) -> dict[str, object]:
        """Cached analyses of the kernel, by name, valid until it changes (`vkernels.ir.analyses`)."""
        found: dict[str, object] = vars(self).setdefault("_analyses", {})
        return found

    def verify_(self) -> None:
        super().verify_()
        declared: set[str] = set()
        for op in self.body.block.ops:
            if isinstance(op, TileOp | WholeOp):
                if op.axis.data in declared:
                    raise VerifyException(f"axis {op.axis.data} is declared twice")
                declared.add(op.axis.data)
        for op in self.walk():
            for axis in _axes_named_by(op):
                if axis not in declared:
                    raise VerifyException(f"{op.name} names axis {axis}, declared are {listed(sorted(declared))}")


def _axes_named_by(op: Operation) -> Sequence[str]:
    """The axes of an operation's results that are tiles or scratchpads."""
    axes: list[str] = []
    for result in op.results:
        if isinstance(result.type, TensorType):
            axes += axes_of(result)
        elif isinstance(result.type, ScratchType):
            axes += [dimension for dimension in result.type.shape if isinstance(dimension, str)]
    return axes


@irdl_op_definition
class MappedOp(_FunctionOp):
    """A kernel mapped by a plan: buffers, then launches that run one after another. All tile sizes are constant.

    Only i64 arithmetic on sizes, `vk.buffer` and `vk.launch` stand at its top level.
    """

    name = "vk.mapped"
    LANES: ClassVar[bool] = True

    lanes = opt_prop_def(StringAttr)
    """The axis whose elements lie side by side in a vector register, where the target has them."""


@irdl_op_definition
class SizeOp(PureOp):
    """A size of the call, by the name that a tensor's declaration gives it."""

    name = "vk.size"

    size = prop_def(StringAttr)
    result = result_def(i64)

    assembly_format = "custom<Name>($size) attr-dict"

    def __init__(self, size: str):
        super().__init__(properties={"size": StringAttr(size)}, result_types=[i64])


class _AxisOp(IRDLOperation):
    axis = prop_def(StringAttr)
    extent = operand_def(i64)

    custom_directives = (Below,)
    assembly_format = "custom<Below>($axis) $extent attr-dict"

    def __init__(self, axis: str, extent: SSAValue):
        super().__init__(operands=[extent], properties={"axis": StringAttr(axis)})

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), KernelOp):
            raise VerifyException(f"axis {self.axis.data} is declared outside the top level of a vk.kernel")


@irdl_op_definition
class TileOp(_AxisOp):
    """Declare an axis whose positions, 0 up to `extent`, are split over programs: `vk.tile i < %M`."""

    name = "vk.tile"


@irdl_op_definition
class WholeOp(_AxisOp):
    """Declare an axis that a program holds whole, however long: `vk.whole j < %N`."""

    name = "vk.whole"
