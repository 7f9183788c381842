"""Compute the polynomials of `coefficients.py`: `python -m vkernels.ir.passes.expand_math.fit` prints that file.

Each is the polynomial of least greatest weighted error on an interval (Remez's exchange, on a dense grid of Chebyshev
points, in 60 digits), its coefficients rounded to the target's precision one after another, lowest power first,
the rest fitted again each time. Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

Real = Any
"""A number of mpmath's, which has no types."""


def remez(values: Sequence[Real], basis: Sequence[Sequence[Real]], weights: Sequence[Real]) -> list[Real]:
    """Coefficients c minimising max |w (values - Σ c basis)| over the grid; a row of `basis` for each point."""
    terms, points = len(basis[0]), len(values)
    chosen = [round((points - 1) * (1 - np.cos(np.pi * k / terms)) / 2) for k in range(terms + 1)]
    coefficients: list[Real] = []
    for _ in range(30):
        system = mp.matrix(terms + 1, terms + 1)
        for row, p in enumerate(chosen):
            for column in range(terms):
                system[row, column] = basis[p][column]
            system[row, terms] = (-1) ** row / weights[p]
        solution = mp.lu_solve(system, mp.matrix([values[p] for p in chosen]))
        coefficients, level = list(solution[:terms]), abs(solution[terms])
        error = [w * (v - mp.fdot(coefficients, b)) for v, b, w in zip(values, basis, weights, strict=True)]
        chosen = extrema(error, terms + 1)
        if max(map(abs, error)) <= level * mp.mpf("1.0001"):
            break
    return coefficients


def extrema(error: Sequence[Real], count: int) -> list[int]:
    """Indices of `count` alternating extrema, the largest run of them."""
    found: list[int] = []
    for index, value in enumerate(error):
        if not found or (value > 0) != (error[found[-1]] > 0):
            found.append(index)
        elif abs(value) > abs(error[found[-1]]):
            found[-1] = index
    while len(found) > count:
        found.pop(0 if abs(error[found[0]]) < abs(error[found[-1]]) else -1)
    if len(found) < count:
        raise ValueError(f"{len(found)} alternations where {count} are needed: more digits, or fewer terms")
    return found


def fit(
    function: Callable[[Real], Real],
    interval: tuple[float, float],
    powers: Sequence[int],
    weight: Callable[[Real], Real],
    bits: int,
    fixed: int = 0,
) -> tuple[float, ...]:
    """Coefficients of `powers` for `function`, each with `bits` bits; `weight` of the error is usually 1 / function."""
    low, high = map(mp.mpf, interval)
    count = 40 * len(powers)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / count) for k in range(count)]
    grid = [x for x in grid if x != 0]
    values, weights = [function(x) for x in grid], [weight(x) for x in grid]
    rounded: list[float] = []
    while len(rounded) < len(powers):
        rest = powers[len(rounded) :]
        coefficients = remez(values, [[x**p for p in rest] for x in grid], weights)
        value = round_to(coefficients[0], bits)
        values = [v - value * x ** rest[0] for v, x in zip(values, grid, strict=True)]
        rounded.append(value)
    error = max(abs(w * v) for v, w in zip(values, weights, strict=True))
    print(f"# error 2^{float(mp.log(error, 2)):.1f}, powers {powers[0]} to {powers[-1]} on {interval}", flush=True)
    return tuple(rounded)


def round_to(value: Real, bits: int) -> float:
    """The nearest float of so many significant bits."""
    exponent = int(mp.floor(mp.log(abs(value), 2))) + 1
    return float(mp.ldexp(mp.nint(mp.ldexp(value, bits - exponent)), exponent - bits))


def log_tail(x: Real) -> Real:
    """(log(1 + x) - x) / x², the part of the logarithm after its first term."""
    return (mp.log1p(x) - x) / x**2


def relative(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """Weights that make errors relative."""
    return lambda x: 1 / abs(function(x))
