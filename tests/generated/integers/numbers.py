"""Integers of a dtype as Python's own whole numbers: which it holds, how they wrap, and what two dtypes promote to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, Any]
"""An array of Python's integers."""

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = (*SIGNED, *UNSIGNED)


def each(function: Callable[..., int], *arrays: Numbers) -> Numbers:
    """A function of whole numbers, element by element."""
    return np.frompyfunc(function, len(arrays), 1)(*arrays)


def bits_of(dtype: str) -> int:
    return int(dtype.removeprefix("u").removeprefix("int"))


def limits(dtype: str) -> tuple[int, int]:
    bits = bits_of(dtype)
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(numbers: Numbers, dtype: str) -> Numbers:
    """The numbers of a dtype that are these modulo 2 to its bits."""
    least, greatest = limits(dtype)
    return each(lambda n: (int(n) - least) % (greatest - least + 1) + least, numbers)


def promote(a: str, b: str) -> str | None:
    """The smallest dtype that holds all numbers of both, an unsigned one only where both are; None where none does."""
    found = [
        dtype
        for dtype in (UNSIGNED if a[0] == b[0] == "u" else SIGNED)
        if all(limits(dtype)[0] <= limits(each)[0] and limits(each)[1] <= limits(dtype)[1] for each in (a, b))
    ]
    return found[0] if found else None


def at_the_edges(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> Numbers:
    """Numbers around 0, around the least and the greatest, around the middle of unsigned ones, small and any."""
    least, greatest = limits(dtype)
    middle = (greatest + 1) // 2
    near = [n + d for n in (0, least, greatest, middle) for d in range(-3, 4) if least <= n + d <= greatest]
    count = math.prod(shape)
    drawn = [int(n) for n in random.integers(0, 2**64, count, np.uint64)]
    anywhere = wrap(np.array(drawn, object), dtype).reshape(-1)
    chosen = np.array([near[int(n)] for n in random.integers(0, len(near), count)], object)
    few = wrap(np.array([int(n) for n in random.integers(0, 70, count)], object), dtype)
    which = random.integers(0, 3, count)
    made = np.where(which == 0, anywhere, np.where(which == 1, few, chosen))
    return np.asarray(made, object).reshape(shape)


def as_float(numbers: Numbers, dtype: str, kind: str) -> np.ndarray[Any, Any]:
    """Integers of a dtype as floats, rounded once."""
    return numbers.astype(dtype).astype(kind)


def from_float(floats: np.ndarray[Any, Any], dtype: str) -> Numbers:
    """Towards 0; what does not fit is the nearest that does, and NaN 0."""
    least, greatest = limits(dtype)

    def convert(x: float) -> int:
        if math.isnan(x):
            return 0
        return (greatest if x > 0 else least) if math.isinf(x) else min(max(math.trunc(x), least), greatest)

    return each(lambda x: convert(float(x)), floats)


def power(base: int, exponent: int, bits: int) -> int:
    """Modulo 2 to the bits; with a negative exponent the reciprocal, rounded to 0, and 0 of 0."""
    if exponent >= 0:
        return pow(base, exponent, 1 << bits)
    return 0 if base not in (1, -1) else base if exponent % 2 else 1


def shifted(number: int, amount: int, dtype: str, left: bool) -> int:
    """An amount that is not below the width, negative ones included, shifts everything out."""
    inside = 0 <= amount < bits_of(dtype)
    if left:
        return number << amount if inside else 0
    return number >> amount if inside else -1 if number < 0 else 0
