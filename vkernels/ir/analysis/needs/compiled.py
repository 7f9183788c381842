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

from .algebra import HALF, Expr, parts

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
    for expression in expressions:
        if not isinstance(expression, Expr):
            raise TypeError(f"needs have no {type(expression).__name__}: {expression}")
    names: dict[Expr, str] = {symbol: f"a{number}" for number, symbol in enumerate(symbols)}
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
            if expression.operands and uses[expression] > 1:
                lines.append(f"x{len(lines)} = {found}")
                found = f"x{len(lines) - 1}"
            names[expression] = found
        return found

    return [text(expression) for expression in expressions]


def _written(expression: Expr, text: Callable[[Expr], str]) -> str:
    """An expression in Python, in parentheses where that is needed."""
    head, args = expression.head, expression.args
    if head == "number":
        (value,) = args
        if isinstance(value, float):
            return repr(value)
        return f"({value.numerator} / {value.denominator})" if value.denominator != 1 else f"({value.numerator})"
    if head == "sum":
        return f"({' + '.join(map(text, args))})"
    if head == "product":
        below = [part for part in args if part.head == "power" and part.args[1] == -1]
        above = [text(part) for part in args if part not in below]
        if not below:
            return f"({' * '.join(above)})"
        return f"({' * '.join(above) or '1'} / ({' * '.join(text(part.args[0]) for part in below)}))"
    if head == "power":
        base, exponent = args
        return f"sqrt({text(base)})" if exponent == HALF else f"({text(base)} ** {text(exponent)})"
    return f"{head}({', '.join(map(text, args))})"
