"""The language of kernels: decorators, annotations, dtypes, operations. `docs/language.md` is its reference."""

from .annotations import Constant, Parameter, Scalar
from .budget import Budget
from .dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
)
from .kernel import Function, Kernel, function, kernel
from .operations import *  # noqa: F403
from .operations import __all__ as _operations
from .values import Axis, Scratch, Tensor, Tile

bool = bool_

__all__ = [
    *_operations, "Axis", "Budget", "Constant", "DType", "Function", "Kernel", "Parameter", "Scalar", "Scratch",
    "Tensor", "Tile", "bfloat16", "bool", "bool_", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "function", "int16", "int32", "int64", "int8", "kernel", "promote",
]  # fmt: skip
