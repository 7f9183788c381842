"""Functions of the math dialect in higher precision, and errors in units in the last place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special
from xdsl.dialects import math
from xdsl.ir import Operation

Array = np.ndarray


@dataclass(frozen=True)
class Function:
    """One function: its operation, operands, a reference on arrays (of f64 or long double) and one of mpmath's."""

    kind: type[Operation]
    operands: int
    arrays: Callable[..., Array]
    exact: Callable[..., Any]


def _power(x: Any, y: Any) -> Any:
    return mp.power(x, y)


FUNCTIONS = {
    "acos": Function(math.AcosOp, 1, np.arccos, mp.acos),
    "acosh": Function(math.AcoshOp, 1, np.arccosh, mp.acosh),
    "asin": Function(math.AsinOp, 1, np.arcsin, mp.asin),
    "asinh": Function(math.AsinhOp, 1, np.arcsinh, mp.asinh),
    "atan": Function(math.AtanOp, 1, np.arctan, mp.atan),
    "atan2": Function(math.Atan2Op, 2, np.arctan2, mp.atan2),
    "atanh": Function(math.AtanhOp, 1, np.arctanh, mp.atanh),
    "cbrt": Function(math.CbrtOp, 1, np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "cos": Function(math.CosOp, 1, np.cos, mp.cos),
    "cosh": Function(math.CoshOp, 1, np.cosh, mp.cosh),
    "erf": Function(math.ErfOp, 1, scipy.special.erf, mp.erf),
    "exp": Function(math.ExpOp, 1, np.exp, mp.exp),
    "exp2": Function(math.Exp2Op, 1, np.exp2, lambda x: mp.power(2, x)),
    "expm1": Function(math.ExpM1Op, 1, np.expm1, mp.expm1),
    "log": Function(math.LogOp, 1, np.log, mp.log),
    "log10": Function(math.Log10Op, 1, np.log10, mp.log10),
    "log1p": Function(math.Log1pOp, 1, np.log1p, mp.log1p),
    "log2": Function(math.Log2Op, 1, np.log2, lambda x: mp.log(x) / mp.ln2),
    "powf": Function(math.PowFOp, 2, np.power, _power),
    "rsqrt": Function(math.RsqrtOp, 1, lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "sin": Function(math.SinOp, 1, np.sin, mp.sin),
    "sinh": Function(math.SinhOp, 1, np.sinh, mp.sinh),
    "tan": Function(math.TanOp, 1, np.tan, mp.tan),
    "tanh": Function(math.TanhOp, 1, np.tanh, mp.tanh),
}

WIDER = {"float32": np.float64, "float64": np.longdouble}
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant >= 63
"""Whether NumPy's long double is more than f64; erf of SciPy's never is."""

INTERESTING = [
    0.0, 1.0, 0.5, 2.0, 1.5, 3.0, 4.0, 10.0, 1e-8, 1e8, 0.25, 0.75, 2.5, 1e5, np.pi / 4, np.pi / 2, np.pi, 2 * np.pi,
    3 * np.pi / 4, np.e, np.log(2) / 2, np.sqrt(0.5), np.sqrt(2), 0.41421356, 2.41421356, 88.72284, 89.415985, 103.97,
    87.33655, 126.0, 127.0, 128.0, 149.0, 150.0, 709.782712893384, 710.475860073944, 745.133219101941, 708.396418532264,
    1022.0, 1023.0, 1024.0, 1074.0, 1075.0, 4.0, 6.0, 16384.0, 2.0**28, 2.0**30, 2.0**40, 2.0**53, np.inf, np.nan,
]  # fmt: skip
"""Where formulas change, and where results do."""


def edges(dtype: str) -> Array:
    """Values where a function or its formula may change, their neighbours, and the least and greatest of the dtype."""
    limits = np.finfo(dtype)
    values = np.array([*INTERESTING, limits.tiny, limits.max, limits.smallest_subnormal, limits.eps], dtype)
    with np.errstate(all="ignore"):
        near = [values, np.nextafter(values, np.inf, dtype=dtype), np.nextafter(values, -np.inf, dtype=dtype)]
    both = np.concatenate(near)
    return np.concatenate([both, -both])


def samples(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """`count` numbers: half of any bits, each exponent as likely, the rest as large as arguments mostly are."""
    integers = {"float32": np.uint32, "float64": np.uint64}[dtype]
    bits = rng.integers(0, np.iinfo(integers).max, count // 2, dtype=integers, endpoint=True).view(dtype)
    usual = rng.normal(0, rng.choice([0.3, 1, 3, 30], count - count // 2)).astype(dtype)
    return rng.permutation(np.concatenate([bits, usual]))


def errors(got: Array, want: Array) -> Array:
    """|got - want| in units in the last place of got's dtype at `want`, which has a wider one.

    Infinite where one is NaN and the other not, where the signs differ, and where one is infinite, but for the
    last half unit before the overflow threshold.
    """
    limits = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        exponent = np.clip(np.frexp(want)[1] - 1, limits.minexp, limits.maxexp - 1)
        unit = np.ldexp(want.dtype.type(1), exponent - limits.nmant)
        error = np.abs(got.astype(want.dtype) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    nan = np.isnan(got) != np.isnan(want)
    sign = np.signbit(got) != np.signbit(rounded)
    result = np.where(same, np.where(np.isfinite(error), error, 0), error)
    return np.where(nan | (sign & ~np.isnan(want)), np.inf, result).astype(np.float64)


def exact_error(function: Function, got: float, operands: tuple[float, ...], dtype: str) -> float:
    """The same for one finite result and mpmath's value, in 400 digits."""
    limits = np.finfo(dtype)
    with mp.workdps(420):
        want = function.exact(*(mp.mpf(float(x)) for x in operands))
        if isinstance(want, mp.mpc):
            raise ValueError(f"a complex result at {operands}")
        if want == 0:
            return 0.0 if got == 0 else float("inf")
        exponent = max(int(mp.floor(mp.log(abs(want), 2))), int(limits.minexp))
        return float(abs(mp.mpf(float(got)) - want) / mp.ldexp(1, exponent - limits.nmant))
