"""The IR's element types of the language's dtypes, in memory and in computations.

Integers in the IR are signless, as in MLIR's arith dialect; the front end chooses signed or unsigned operations.
"""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E5M2Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from vkernels.ir.dialect import tile_type

from ..dtypes import DType
from ..values import Axis

_MEMORY: dict[str, Attribute] = {
    "bool": i1,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "uint8": i8,
    "uint16": i16,
    "uint32": i32,
    "uint64": i64,
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e5m2": Float8E5M2Type(),
    "float16": f16,
    "bfloat16": bf16,
    "float32": f32,
    "float64": f64,
}


def memory_element(dtype: DType) -> Attribute:
    """The element type of tensors and scratchpads."""
    return _MEMORY[dtype.name]


def computed_element(dtype: DType) -> Attribute:
    """The element type of tiles: f32 for shorter floats, else the type in memory."""
    return f32 if dtype.is_float and dtype.bits < 32 else _MEMORY[dtype.name]


def is_rounded(dtype: DType) -> bool:
    """Whether memory holds fewer bits than tiles."""
    return dtype.is_float and dtype.bits < 32


def type_of(element: Attribute, axes: tuple[Axis, ...]) -> Attribute:
    """The type of a tile; without axes, the element type."""
    return tile_type(element, [axis.name for axis in axes]) if axes else element


@lru_cache(maxsize=4096)
def _number(sign: str, value: float | int, element: Attribute) -> FloatAttr | IntegerAttr:
    if isinstance(element, IntegerType):
        return IntegerAttr(int(value), element)
    return FloatAttr(float(value), f64 if element == f64 else f32)


def number_attribute(value: float | int | bool, element: Attribute) -> FloatAttr | IntegerAttr:
    """A Python number as an attribute; the cache key includes the sign because -0.0 equals 0.0."""
    return _number("-" if str(value).startswith("-") else "+", value, element)
