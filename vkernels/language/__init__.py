"""The language of kernels: decorators, annotations, dtypes, operations. `docs/language.md` is its reference."""

from typing import TYPE_CHECKING, Any

from .annotations import Constant, Parameter, Scalar, tunable
from .declaration import Function
from .dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
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
    uint8,
    uint16,
    uint32,
    uint64,
)
from .kernel import Kernel, function, kernel
from .operations import *
from .self_tuning import Tuning
from .values import Axis, Scratch, Tile

if TYPE_CHECKING:
    Tensor = Any  # in a kernel a `values.Tensor`; in a call a torch tensor, a NumPy array, …
else:
    from .values import Tensor

bool = bool_

__all__ = [
    "Axis", "Constant", "DType", "Function", "Kernel", "Parameter", "Scalar", "Scratch", "Tensor", "Tile", "Tuning",
    "abs", "all", "any", "argmax", "argmin", "argsort", "atomic_add", "atomic_cas", "atomic_exchange", "atomic_max",
    "atomic_min", "bfloat16", "bits", "bool", "bool_", "broadcast", "cast", "ceil", "clamp", "complex", "complex64",
    "complex128", "compute_dtype", "conj", "cos", "cumulative_max", "cumulative_min", "cumulative_product",
    "cumulative_sum", "device_assert", "dot", "erf", "exp", "exp2", "expm1", "float8_e4m3fn", "float8_e5m2", "float16",
    "float32", "float64", "floor", "fma", "full", "full_like", "function", "gelu", "imag", "int8", "int16", "int32",
    "int64", "isinf", "isnan", "kernel", "load", "log", "log1p", "log2", "max", "maximum", "mean", "min", "minimum",
    "phase", "pow", "print", "product", "promote", "random", "random_bits", "range", "real", "reduce", "relu",
    "reshape", "round", "rsqrt", "scan", "scratch", "sigmoid", "silu", "sin", "size", "sort", "sqrt", "store", "sum",
    "tanh", "tile", "topk", "transpose", "trunc", "tunable", "uint8", "uint16", "uint32", "uint64", "where", "whole",
    "zeros", "zeros_like",
]  # fmt: skip
