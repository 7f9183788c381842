"""Compute the polynomials of `coefficients.py`: `python -m vkernels.ir.transforms.expand_math.fit` prints that file.

Each polynomial minimises the largest weighted error on an interval (Remez's exchange, on a dense grid of Chebyshev
points, in 60 digits). Its coefficients are rounded to the target's precision one after another, highest power first,
and the lower ones are fitted again each time; or all at once, where that errs less than half as much: the exchange may
not converge for what is left of a function after its highest powers. Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

Real = Any
"""A number of mpmath, which has no types."""
Function = Callable[[Real], Real]
Target = tuple[Function, tuple[float, float], int, Function]
"""What a polynomial approximates: a function on an interval, with how many terms, and the weight of its error."""


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
    """Indices of the largest run of `count` alternating extrema."""
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


def fit(target: Target, bits: int) -> tuple[float, ...]:
    """Coefficients of the polynomial, lowest power first, each with `bits` bits; prints the weighted error."""
    function, interval, terms, weight = target
    low, high = map(mp.mpf, interval)
    count = 40 * terms
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / count) for k in range(count)]
    grid = [x for x in grid if x != 0]
    values, weights = [function(x) for x in grid], [weight(x) for x in grid]
    powers = [[x**p for p in range(terms)] for x in grid]

    def error(coefficients: Sequence[float]) -> Real:
        return max(abs(w * (v - mp.fdot(coefficients, b))) for v, w, b in zip(values, weights, powers, strict=True))

    at_once = remez(values, powers, weights)
    rounded: list[float] = []
    left = values
    for power in reversed(range(terms)):
        best = at_once if power == terms - 1 else remez(left, [b[: power + 1] for b in powers], weights)
        rounded.insert(0, round_to(best[-1], bits))
        left = [v - rounded[0] * b[power] for v, b in zip(left, powers, strict=True)]
    together = [round_to(each, bits) for each in at_once]
    found = together if 2 * error(together) < error(rounded) else rounded
    print(f"    # error 2^{float(mp.log(error(found), 2)):.1f} on {interval[0]:.5g} to {interval[1]:.5g}")
    return tuple(found)


def round_to(value: Real, bits: int) -> float:
    """The nearest float with `bits` significant bits."""
    exponent = int(mp.floor(mp.log(abs(value), 2))) + 1
    return float(mp.ldexp(mp.nint(mp.ldexp(value, bits - exponent)), exponent - bits))


def log_tail(x: Real) -> Real:
    """(log(1 + x) - x) / x², the part of the logarithm after its first term."""
    return (mp.log1p(x) - x) / x**2


def atanh_tail(z: Real) -> Real:
    """(atanh(s) / s - 1) / z with z = s²."""
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1) / z


def even(function: Function, end: float, terms: int, weight: Function) -> Target:
    """A polynomial in x², for 0 < x < `end`, from even functions of x."""
    return lambda z: function(mp.sqrt(z)), (2**-60, end**2), terms, lambda z: weight(mp.sqrt(z))


def targets(single: bool) -> dict[str, Target]:
    """The polynomials for f32 (`single`) or f64, by name.

    - exp(r) = 1 + r + r² exp; expm1(r) = r + r² expm1, its error relative to expm1; 2**r = 1 + r exp2.
    - log(1 + f) = f + f² log (f32); atanh(s) = s + s³ atanh and s + s³ / 3 + s⁵ pow, both of s² (f64).
    - sin(r) = r + r³ sin, cos(r) = 1 - r² / 2 + r⁴ cos, atan(t) = t + t³ atan, asin(t) = t + t³ asin, of squares.
    - erf(x) = x + x erf(x²) up to 1; beyond, erfc(x) = erfc(x - 5/2) (f32) or exp(log_erfc(x - 1)) (f64).
    """
    half, eighth, tangent, end = 0.34658, 0.7854, 0.41425, 0.02945
    single_logarithm: dict[str, Target] = {
        "log": (log_tail, (-0.2929, 0.4143), 9, lambda f: abs(f**2 / mp.log1p(f))),
    }
    single_complement: dict[str, Target] = {
        "erfc": (lambda t: mp.erfc(t + mp.mpf(5) / 2), (-1.5, 1.5), 15, lambda t: 1 / mp.erf(t + mp.mpf(5) / 2)),
    }
    double_complement: dict[str, Target] = {
        "log_erfc": (lambda t: mp.log(mp.erfc(1 + t)), (0.0, 5), 22, lambda t: mp.erfc(1 + t)),
    }
    double_logarithms: dict[str, Target] = {
        "atanh": (atanh_tail, (2**-60, end), 8, lambda z: z),
        "pow": (lambda z: (atanh_tail(z) - mp.mpf(1) / 3) / z, (2**-60, end), 8, lambda z: z**2),
    }

    def choose(for_single: int, for_double: int) -> int:
        return for_single if single else for_double

    def exp_tail(r: Real) -> Real:
        return (mp.expm1(r) - r) / r**2

    return {
        "exp": (exp_tail, (-half, half), choose(5, 10), lambda r: r**2 / mp.exp(r)),
        "expm1": (exp_tail, (-half, half), choose(6, 11), lambda r: abs(r**2 / mp.expm1(r))),
        "exp2": (lambda r: (mp.power(2, r) - 1) / r, (-0.5, 0.5), choose(7, 12), lambda r: abs(r) / mp.power(2, r)),
        **(single_logarithm if single else double_logarithms),
        "sin": even(lambda r: (mp.sin(r) - r) / r**3, eighth, choose(3, 6), lambda r: r**3 / mp.sin(r)),
        "cos": even(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, eighth, choose(3, 6), lambda r: r**4 / mp.cos(r)),
        "atan": even(lambda t: (mp.atan(t) - t) / t**3, tangent, choose(5, 11), lambda t: t**3 / mp.atan(t)),
        "asin": even(lambda t: (mp.asin(t) - t) / t**3, 0.5, choose(6, 13), lambda t: t**3 / mp.asin(t)),
        "erf": even(lambda x: mp.erf(x) / x - 1, 1.0, choose(7, 13), lambda x: x / mp.erf(x)),
        **(single_complement if single else double_complement),
    }


def main() -> None:
    """Fit and print every polynomial."""
    mp.mp.dps = 60
    print('"""Polynomials, as `fit.py` prints them: coefficients by name, lowest power first, for f32 and for f64."""')
    for table, bits in (("SINGLE", 24), ("DOUBLE", 53)):
        print(f"\n{table}: dict[str, tuple[float, ...]] = {{")
        for name, target in targets(single=table == "SINGLE").items():
            body = ",\n        ".join(map(repr, fit(target, bits)))
            print(f'    "{name}": (\n        {body},\n    ),', flush=True)
        print("}")


if __name__ == "__main__":
    main()
