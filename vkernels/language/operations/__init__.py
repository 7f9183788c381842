"""Every operation of the language, by family."""

from .activations import gelu, relu, sigmoid, silu
from .axes import range, size, tile, whole
from .checks import device_assert, phase, print
from .contraction import dot
from .elementwise import (
    abs,
    bits,
    cast,
    ceil,
    clamp,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    pow,
    round,
    rsqrt,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
)
from .memory import atomic_add, atomic_max, atomic_min, load, scratch, store
from .randomness import random, random_bits
from .reductions import all, any, argmax, argmin, max, mean, min, product, sum
from .scans import cumulative_max, cumulative_min, cumulative_product, cumulative_sum
from .shapes import broadcast, full, full_like, reshape, transpose, zeros, zeros_like

__all__ = [
    "abs", "all", "any", "argmax", "argmin", "atomic_add", "atomic_max", "atomic_min", "bits", "broadcast", "cast",
    "ceil", "clamp", "cos", "cumulative_max", "cumulative_min", "cumulative_product", "cumulative_sum",
    "device_assert", "dot", "erf", "exp", "exp2", "expm1", "floor", "fma", "full", "full_like", "gelu", "isinf",
    "isnan", "load", "log", "log1p", "log2", "max", "maximum", "mean", "min", "minimum", "phase", "pow", "print",
    "product", "random", "random_bits", "range", "relu", "reshape", "round", "rsqrt", "scratch", "sigmoid", "silu",
    "sin", "size", "sqrt", "store", "sum", "tanh", "tile", "transpose", "trunc", "where", "whole", "zeros",
    "zeros_like",
]  # fmt: skip
