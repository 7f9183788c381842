"""How wide the elements of an item are: of its results, and of what a dot takes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, Operation

from ..analysis.needs.traffic import SourceOf, narrow, operand_bytes, yielded
from ..analysis.scaled_operands import scaled_sides
from ..dialect import DotOp, KernelOp, TensorArgumentType, element_of
from ..limits import Limits
from ..tensor_formats import SCALED_FORMATS

EXACT_FLOAT8 = "exact float8"
_TENSOR_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "tf32", "i8": "int8"}


@dataclass(frozen=True)
class ItemWidths:
    """Of an item: tiles among its results, those of 8 bytes, whether one of these is of floats. Of a dot: bytes of an
    element that it takes, 0 for what is no dot, and `tensor_dtype`."""

    tiles: int
    wide: int
    in_float64: bool
    operand_bytes: int
    tensor_dtype: str = ""


def bytes_of(type_: Attribute) -> int:
    """Bytes of an element."""
    element = element_of(type_) if isinstance(type_, TensorType) else type_
    return max(1, element.bitwidth // 8) if isinstance(element, AnyFloat | IntegerType) else 8


def widths_of(item: Operation, source: SourceOf = yielded) -> ItemWidths:
    """`source`: where a phase's result comes from."""
    tiles = [element_of(result.type) for result in item.results if isinstance(result.type, TensorType)]
    wide = [element for element in tiles if bytes_of(element) == 8]
    of_dot = (operand_bytes(item, source), tensor_dtype(item, source)) if isinstance(item, DotOp) else (0, "")
    return ItemWidths(len(tiles), len(wide), any(isinstance(element, AnyFloat) for element in wide), *of_dot)


def tensor_dtype(op: DotOp, source: SourceOf = yielded) -> str:
    """What tensor cores take for a dot, as `tensor_rate` knows it; empty where they take none such."""
    if (sides := scaled_sides(op)) is not None:
        return sides[0].format
    wider = max((narrow(value, source) for value in (op.left, op.right)), key=lambda value: bytes_of(value.type))
    text, is_exact = str(element_of(wider.type)), op.precision.data == "ieee"
    if text == "f64" or (text == "f32" and is_exact):
        return ""
    if text.startswith("f8"):
        return EXACT_FLOAT8 if is_exact else "float8"
    return _TENSOR_DTYPES.get(text, text)


def tensor_rate(dtype: str, limits: Limits) -> float:
    """Multiply-adds a second of tensor cores for what dots take; 0 where the device has none for it.

    Where they read f8 from shared memory but add its products in fewer bits (sm_90), exact products are of f16.
    Block-scaled formats that they do not take become bf16.
    """
    if dtype in SCALED_FORMATS and dtype not in limits.tensor_multiply_adds:
        dtype = "bfloat16"
    if dtype == EXACT_FLOAT8:
        dtype = "float16" if limits.dots_from_shared and not limits.tensor_memory else "float8"
    if dtype == "float8" and dtype not in limits.tensor_multiply_adds:  # as f16, which holds it
        dtype = "float16"
    return limits.tensor_multiply_adds.get(dtype, 0.0)


def element_bytes(kernel: KernelOp) -> int:
    """Bytes of what most lanes compute in: 8 if any tensor holds 64-bit floats, else 4."""
    types = (argument.type for argument in kernel.body.block.args)
    return 8 if any(isinstance(each, TensorArgumentType) and str(each.element) == "f64" for each in types) else 4
