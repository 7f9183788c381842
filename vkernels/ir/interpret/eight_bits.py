"""f8 in two forms, E4M3FN (no infinity, one NaN) and E5M2: values are held as the f32 values that they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type
from xdsl.ir import Attribute

FLOAT8 = (Float8E4M3FNType, Float8E5M2Type)


def from_bits(bits: npt.NDArray[np.uint8], element: Attribute) -> npt.NDArray[np.float32]:
    """The numbers that bits stand for."""
    return _values(type(element))[bits]


def to_bits(numbers: npt.NDArray[Any], element: Attribute) -> npt.NDArray[np.uint8]:
    """Bits of the nearest numbers, ties to even; past the greatest E4M3FN has the greatest, E5M2 infinity, as torch."""
    magnitudes = np.abs(_values(type(element))[:128].astype(np.float64))
    last = int(np.flatnonzero(np.isfinite(magnitudes))[-1])
    finite = magnitudes[: last + 1]
    steps = np.append(finite, 2 * finite[last] - finite[last - 1])
    between = (steps[1:] + steps[:-1]) / 2
    size = np.abs(np.asarray(numbers, np.float64))
    code = np.searchsorted(between, size)
    tied = code < len(between)
    tied &= size == between[np.minimum(code, last)]
    code = np.where(tied & (code % 2 == 1), code + 1, code)
    code = np.where(np.isnan(size), 127, np.minimum(code, 126)).astype(np.uint8)
    return np.asarray(code | (np.signbit(numbers).astype(np.uint8) << np.uint8(7)))


@cache
def _values(element: type[Attribute]) -> npt.NDArray[np.float32]:
    """The number of each of the 256 bit patterns."""
    exponent_bits, bias = (4, 7) if element is Float8E4M3FNType else (5, 15)
    fraction_bits = 7 - exponent_bits
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, (codes & (2**fraction_bits - 1)) / 2**fraction_bits
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if element is Float8E4M3FNType:
        values[127] = np.nan
    else:
        values[124:] = [np.inf, np.nan, np.nan, np.nan]
    return np.concatenate([values, -values]).astype(np.float32)
