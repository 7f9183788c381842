"""Expressions in Python against the same expressions gone through in exact fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from vkernels.ir.analysis.needs.algebra import (
    HALF,
    Expr,
    compiled,
    fits,
    least,
    most,
    number,
    of_arrays,
    of_numbers,
    parts,
    pieces,
    product,
    symbol,
    total,
)
from vkernels.library.catalogue import CATALOGUE, CatalogueEntry

from .kernels import Library

SEED = 20261121
KERNELS = {entry.name: entry for entry in CATALOGUE}
EXACT: dict[str, Any] = {
    "most": max,
    "least": min,
    "pieces": lambda whole, part: math.ceil(whole / part),
    "fits": lambda value, bound: int(value >= bound),
}


def exact(expression: Any, known: dict[str, Fraction], found: dict[Any, Fraction]) -> Fraction:
    """The value of sympy's form of an expression; roots, which are no fractions, to 50 digits."""
    if expression in found:
        return found[expression]
    inner = [exact(part, known, found) for part in expression.args]
    if expression.is_Symbol:
        value = known[str(expression)]
    elif expression.is_Rational:
        value = Fraction(int(expression.p), int(expression.q))
    elif expression.is_Float:
        value = Fraction(float(expression))
    elif expression.is_Add:
        value = sum(inner, start=Fraction(0))
    elif expression.is_Mul:
        value = math.prod(inner, start=Fraction(1))
    elif expression.is_Pow and inner[1].denominator == 1:
        value = inner[0] ** inner[1]
    elif expression.is_Pow:
        base, power = (sympy.Rational(part.numerator, part.denominator) for part in inner)
        value = Fraction(str(sympy.N(base**power, 50)))
    else:
        value = Fraction(EXACT[expression.func.__name__](*inner))
    found[expression] = value
    return value


def any_value(name: str, rng: random.Random) -> Fraction:
    if name.startswith("fit."):
        return Fraction(rng.randint(1, 64), 32)
    if name.startswith(("held.", "shared.", "memory.", "copies.", "packed.", "device.")) and name != "device.warp":
        return Fraction(rng.randint(0, 1))
    return Fraction(rng.choice((1, 2, 3, 8, 32, 1000, 65537)))


@pytest.mark.sample(11)
@pytest.mark.parametrize("entry", KERNELS.values(), ids=KERNELS)
def test_compiled_needs_have_the_values_of_their_expressions(entry: CatalogueEntry) -> None:
    print(f"seed: {SEED}")
    rng = random.Random(f"{SEED} {entry.name}")
    last = Library(entry).needs.phases[-1]
    expressions = [value for value in vars(last).values() if isinstance(value, Expr)]
    names = sorted(part.args[0] for part in parts(expressions) if part.is_symbol)
    code = compiled(names, expressions)
    draws = [[any_value(name, rng) for name in names] for _ in range(5)]
    arrays = of_arrays(code)(*(np.array([float(draw[n]) for draw in draws]) for n in range(len(names))))
    for row, draw in enumerate(draws):
        known, found = dict(zip(names, draw, strict=True)), dict[Any, Fraction]()
        expected = [float(exact(sympy.sympify(each), known, found)) for each in expressions]
        assert of_numbers(code)(*map(float, draw)) == pytest.approx(expected, rel=1e-12)
        mine = [float(np.broadcast_to(value, len(draws))[row]) for value in arrays]
        assert mine == pytest.approx(expected, rel=1e-12)


def test_every_kind_of_expression_is_written_as_what_it_means() -> None:
    a, b = symbol("a"), symbol("b")
    values = {
        a + 2 * b - 3: 10.0, a / (b * 4): 7 / 12, 1 / a: 1 / 7, b**2: 9.0, a**HALF: math.sqrt(7),
        a**-HALF: 1 / math.sqrt(7), number(0.25) * a: 1.75, (1 - a) * b: -18.0, pieces(a, b): 3,
        fits(a, b): 1, fits(b, a): 0, most((a, b, number(5))): 7, least((a, b, number(5))): 3, product(()): 1,
        total(()): 0,
    }  # fmt: skip
    assert of_numbers(compiled(["a", "b"], list(values)))(7, 3) == pytest.approx(list(values.values()))


@pytest.mark.parametrize("name", ["class", "a1", "x0", "most", "values", "__import__('os')", "a b", ""])
def test_no_name_of_a_size_can_become_code(name: str) -> None:
    names = [name or "_", "plain"]
    strange, plain = map(symbol, names)
    code = compiled(names, [strange + 2 * plain, most((strange, plain)) + (strange + plain) ** 2])
    assert of_numbers(code)(5, 3) == [11, 69]


def test_an_expression_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="Tuple"):
        compiled([], [sympy.Tuple(1, 2)])


def test_shared_parts_are_gone_through_once() -> None:
    part = symbol("a")
    for _ in range(60):  # 2^60 terms as a tree
        part = most((part + 1, fits(part, number(2)))) / 2
    assert of_numbers(compiled(["a"], [part]))(1.0) == [1.0]


def test_like_terms_and_powers_are_collected() -> None:
    a, b = symbol("a"), symbol("b")
    assert a + b - a == b
    assert 2 * (a + b) == a + b + b + a
    assert a * b / a == b
    assert (a / b) ** 2 == a * a / (b * b)
    assert 1 - (a + b) + b == 1 - a
    assert a * 0 == 0
    assert total([number(2), number(3)]) == 5
    assert a**HALF * a**HALF == a


def test_sympy_takes_an_expression_and_prints_it() -> None:
    a, b = symbol("a"), symbol("b")
    x, y = sympy.symbols("a b", integer=True, nonnegative=True)
    assert sympy.simplify((a * a - b * b) / (a - b)) == x + y
    assert str(2 * a + pieces(b, number(4)) / 3) == "2*a + pieces(b, 4)/3"
