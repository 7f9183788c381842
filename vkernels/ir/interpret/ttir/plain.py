"""Operations of plain Triton kernels that our own code for GPUs does not have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import Operation

from ...dialect import tt
from ..numbers import Array, dtype_of, rounded
from ..state import Handler
from .access import TtirInterpreter

_SYMBOL = re.compile(r"__(?:nv_(?:fast_)?(?P<nv>\w+)|ocml_(?:native_)?(?P<ocml>\w+)_f(?:16|32|64))")


def _each(function: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python's numbers for arrays of f64; NaN where it has no value."""

    def value(*numbers: float) -> float:
        try:
            return function(*map(float, numbers))
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(value, otypes=[np.float64])


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt",
        "cbrt", "fabs", "floor", "ceil", "trunc", "rint", "fmod", "hypot", "fmin", "fmax", "copysign",
    )},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "nearbyint": np.rint, "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp10": lambda x: np.power(10.0, x),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "fma": lambda x, y, z: x * y + z,
    "erf": _each(math.erf), "erfc": _each(math.erfc), "tgamma": _each(math.gamma), "lgamma": _each(math.lgamma),
}  # fmt: skip
"""Functions of CUDA's and of AMD's device libraries by name, computed in f64 and rounded once."""


def device_function(symbol: str) -> Callable[..., Array] | None:
    """The function of a symbol such as `__nv_tanhf` or `__ocml_tanh_f32`; None for others."""
    found = _SYMBOL.fullmatch(symbol)
    if found is None:
        return None
    name = found["ocml"] or found["nv"]
    return FUNCTIONS.get(name) or (FUNCTIONS.get(name.removesuffix("f")) if found["nv"] else None)


def _extern(_: TtirInterpreter, op: tt.ExternOp, *values: Array) -> Array:
    function = device_function(op.symbol.data)
    assert function is not None, "the parser refuses others"
    return rounded(function(*(np.asarray(value, np.float64) for value in values)), tt.element(op.result.type))


def _gather(run: TtirInterpreter, op: tt.GatherOp, source: Array, indices: Array) -> Array:
    axis = op.axis.value.data
    wrong = (indices < 0) | (indices >= source.shape[axis])
    if wrong.any():
        index, size = int(indices[wrong].flat[0]), source.shape[axis]
        raise run.state.fault(op, f"tt.gather has an index of {index} in a dimension of {size}")
    return np.take_along_axis(source, indices.astype(np.int64), axis)


def _histogram(run: TtirInterpreter, op: tt.HistogramOp, source: Array, mask: Array | None = None) -> Array:
    (bins,) = tt.shape(op.result.type)
    counted = source if mask is None else source[mask]
    wrong = (counted < 0) | (counted >= bins)
    if wrong.any():
        raise run.state.fault(op, f"tt.histogram has a value of {int(counted[wrong].flat[0])} for {bins} bins")
    return np.bincount(counted, minlength=bins).astype(dtype_of(tt.element(op.result.type)))


TT_PLAIN_HANDLERS: dict[type[Operation], Handler] = {
    tt.SplitOp: lambda _, op, value: (value[..., 0], value[..., 1]),
    tt.CatOp: lambda _, op, left, right: np.concatenate((left, right)),
    tt.GatherOp: _gather,
    tt.HistogramOp: _histogram,
    tt.ExternOp: _extern,
}
