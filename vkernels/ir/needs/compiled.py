"""Expressions as a Python function, of numbers or of NumPy arrays.

What `sympy.lambdify` does, but for the few kinds of expressions that `algebra` makes, and in a hundredth of the time:
parts that several expressions share are gone through once, and computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import CodeType
from typing import Any

import sympy

from .algebra import Expr, parts

_NUMBERS: Mapping[str, Any] = {
    "most": max, "least": min, "pieces": lambda whole, part: math.ceil(whole / part),
    "fits": lambda value, bound: int(value >= bound), "sqrt": math.sqrt,
}  # fmt: skip


def _arrays() -> Mapping[str, Any]:
    import numpy as np

    return {
        "most": lambda *values: reduce(np.maximum, values),
        "least": lambda *values: reduce(np.minimum, values),
        "pieces": lambda whole, part: np.ceil(whole / part),
        "fits": lambda value, bound: np.where(value >= bound, 1, 0),
        "sqrt": np.sqrt,
    }


Function = Callable[..., Sequence[Any]]


def of_numbers(code: CodeType) -> Function:
    """What `compiled` made, as a function of numbers."""
    return _function(code, _NUMBERS)


def of_arrays(code: CodeType) -> Function:
    """The same of NumPy arrays, which are broadcast."""
    return _function(code, _arrays())


def compiled(symbols: Sequence[Expr], expressions: Sequence[Expr]) -> CodeType:
    """A function `values` of numbers in the order of `symbols` that returns a list of the expressions' values."""
    names = {symbol: f"a{number}" for number, symbol in enumerate(symbols)}
    head, lines = f"def values({', '.join(names.values())}):", list[str]()
    texts = _texts(expressions, names, lines)
    text = "\n    ".join((head, *lines, f"return [{', '.join(texts)}]"))
    return compile(text, "<needs>", "exec")


def _function(code: CodeType, functions: Mapping[str, Any]) -> Function:
    space = dict(functions)
    exec(code, space)
    found: Function = space["values"]
    return found


def _texts(expressions: Sequence[Expr], names: dict[Expr, str], lines: list[str]) -> list[str]:
    """Each expression in Python; lines before them compute what occurs more than once."""
    uses = parts(expressions)

    def text(expression: Expr) -> str:
        found = names.get(expression)
        if found is None:
            found = _written(expression, text)
            if expression.args and uses[expression] > 1:
                lines.append(f"x{len(lines)} = {found}")
                found = f"x{len(lines) - 1}"
            names[expression] = found
        return found

    return [text(expression) for expression in expressions]


def _written(expression: Expr, text: Callable[[Expr], str]) -> str:
    """An expression in Python, in parentheses where that is needed."""
    if expression.is_Rational:
        return f"({expression.p} / {expression.q})" if expression.q != 1 else f"({expression.p})"
    if expression.is_Float:
        return repr(float(expression))
    if expression.is_Add:
        return f"({' + '.join(map(text, expression.args))})"
    if expression.is_Mul:
        below = [part for part in expression.args if part.is_Pow and part.exp == -1]
        above = [text(part) for part in expression.args if part not in below]
        if not below:
            return f"({' * '.join(above)})"
        return f"({' * '.join(above) or '1'} / ({' * '.join(text(part.base) for part in below)}))"
    if expression.is_Pow:
        if expression.exp == sympy.S.Half:
            return f"sqrt({text(expression.base)})"
        return f"({text(expression.base)} ** {text(expression.exp)})"
    if isinstance(expression, sympy.Function):
        return f"{expression.func.__name__}({', '.join(map(text, expression.args))})"
    raise TypeError(f"needs have no {type(expression).__name__}: {expression}")
