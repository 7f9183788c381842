"""Every operation of the language, by family."""

from .combining import reduce, scan
from .complex_numbers import complex, conj, imag, real
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
    gelu,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    pow,
    relu,
    round,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
)
from .kinds import compute_dtype
from .memory import atomic_add, atomic_cas, atomic_exchange, atomic_max, atomic_min, load, scratch, store
from .ordering import argsort, sort, topk
from .randomness import random, random_bits
from .reductions import (
    all,
    any,
    argmax,
    argmin,
    cumulative_max,
    cumulative_min,
    cumulative_product,
    cumulative_sum,
    dot,
    max,
    mean,
    min,
    product,
    sum,
)
from .shapes import broadcast, full, full_like, reshape, transpose, zeros, zeros_like
from .structure import device_assert, phase, print, range, size, tile, whole

__all__ = [
    "abs", "all", "any", "argmax", "argmin", "argsort", "atomic_add", "atomic_cas", "atomic_exchange", "atomic_max",
    "atomic_min", "bits", "broadcast", "cast", "ceil", "clamp", "complex", "compute_dtype", "conj", "cos",
    "cumulative_max", "cumulative_min", "cumulative_product", "cumulative_sum", "device_assert", "dot", "erf", "exp",
    "exp2", "expm1", "floor", "fma", "full", "full_like", "gelu", "imag", "isinf", "isnan", "load", "log", "log1p",
    "log2", "max", "maximum", "mean", "min", "minimum", "phase", "pow", "print", "product", "random", "random_bits",
    "range", "real", "reduce", "relu", "reshape", "round", "rsqrt", "scan", "scratch", "sigmoid", "silu", "sin",
    "size", "sort", "sqrt", "store", "sum", "tanh", "tile", "topk", "transpose", "trunc", "where", "whole", "zeros",
    "zeros_like",
]  # fmt: skip
