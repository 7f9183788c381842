"""How wide the elements of an item are: of its results, and of what a dot takes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialect import DotOp, KernelOp, TensorArgumentType, element_of


@dataclass(frozen=True)
class ItemWidths:
    """Of an item: tiles among its results, those of 8 bytes, whether one of these is of floats; bytes of an element
    that a dot takes, 0 for what is no dot."""

    tiles: int
    wide: int
    in_float64: bool
    operand_bytes: int


def bytes_of(type_: Attribute) -> int:
    """Bytes of an element."""
    element = element_of(type_) if isinstance(type_, TensorType) else type_
    return max(1, element.bitwidth // 8) if isinstance(element, AnyFloat | IntegerType) else 8


def widths_of(item: Operation) -> ItemWidths:
    tiles = [element_of(result.type) for result in item.results if isinstance(result.type, TensorType)]
    wide = [element for element in tiles if bytes_of(element) == 8]
    operands = (item.left, item.right) if isinstance(item, DotOp) else ()
    return ItemWidths(
        len(tiles), len(wide), any(isinstance(element, AnyFloat) for element in wide),
        min((bytes_of(_narrowed(value).type) for value in operands), default=0),
    )  # fmt: skip


def _narrowed(value: SSAValue) -> SSAValue:
    """A dot's operand as tensor cores take it: before it is extended from f16 or bf16."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.extf":
        source = owner.operands[0]
        return source if isinstance(element_of(source.type), Float16Type | BFloat16Type) else value
    return value


def element_bytes(kernel: KernelOp) -> int:
    """Bytes of what most lanes compute in: 8 if any tensor holds 64-bit floats, else 4."""
    types = (argument.type for argument in kernel.body.block.args)
    return 8 if any(isinstance(each, TensorArgumentType) and str(each.element) == "f64" for each in types) else 4
