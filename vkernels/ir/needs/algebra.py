"""Expressions that stay as they were written, so that people can read them and building them costs little.

`most` and `least` of several, `pieces(a, b)` of b that a takes, `fits(a, b)`: 1 where a is at least b, else 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import sympy

Expr = Any
"""A sympy expression."""

_MOST, _LEAST, _PIECES, _FITS = (sympy.Function(name) for name in ("most", "least", "pieces", "fits"))

ZERO, ONE, HALF = sympy.Integer(0), sympy.Integer(1), sympy.Rational(1, 2)


def symbol(name: str) -> Expr:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def number(value: int | float) -> Expr:
    return sympy.Integer(value) if value == int(value) else sympy.Float(value)


def most(values: Iterable[Expr]) -> Expr:
    """The largest of some values, none of them below 0."""
    return _folded(_MOST, values, max)


def least(values: Iterable[Expr]) -> Expr:
    return _folded(_LEAST, values, min)


def either(values: Iterable[Expr]) -> Expr:
    """1 where any of some values, all 0 or 1, is 1."""
    listed = list(values)
    return ONE if ONE in listed else most(listed)


def pieces(whole: Expr, part: Expr) -> Expr:
    return ONE if whole == part else _PIECES(whole, part)


def fits(value: Expr, bound: Expr) -> Expr:
    return _FITS(value, bound)


def product(values: Iterable[Expr]) -> Expr:
    return sympy.Mul(*values)


def total(values: Iterable[Expr]) -> Expr:
    return sympy.Add(*values)


def _folded(function: Any, values: Iterable[Expr], fold: Any) -> Expr:
    distinct = list(dict.fromkeys(values))
    numbers = [value for value in distinct if value.is_number]
    others = [value for value in distinct if not value.is_number]
    if numbers and not (function is _MOST and fold(numbers) == 0 and others):
        others.insert(0, fold(numbers))
    if not others:
        return ZERO
    return others[0] if len(others) == 1 else function(*others)


def parts(expressions: Iterable[Expr]) -> Counter[Expr]:
    """All that some expressions are made of, each once, and how often it occurs in the others and by itself."""
    uses: Counter[Expr] = Counter()
    todo = list(expressions)
    while todo:
        expression = todo.pop()
        uses[expression] += 1
        if uses[expression] == 1:
            todo += expression.args
    return uses
