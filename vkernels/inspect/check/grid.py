"""The grid of a launch, written as on a command line: numbers that are computed of arguments and constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from vkernels.ir.errors import OptionError

MOST_CHARACTERS, MOST_PROGRAMS = 200, (1 << 31) - 1

Grid = tuple[int, ...]

_DOES: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_CALLS: dict[str, Callable[[int, int], int]] = {"cdiv": lambda one, other: -(-one // other), "min": min, "max": max}


def grid_of(text: str, known: Mapping[str, Any]) -> Grid:
    """The numbers of programs that a text like `cdiv(count, BLOCK), heads` means. `known`: numbers by name.

    Understood are whole numbers, names, + - * //, parentheses, cdiv, min and max of two. Raises `OptionError`.
    """
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"longer than {MOST_CHARACTERS} characters")
        body = ast.parse(text.strip(), mode="eval").body
        sizes = tuple(_number(each, known) for each in (body.elts if isinstance(body, ast.Tuple) else [body]))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
        said = "not an expression" if isinstance(error, SyntaxError) else error
        raise OptionError(f"--grid {text}: {said}") from None
    if not 1 <= len(sizes) <= 3 or not all(0 < size <= MOST_PROGRAMS for size in sizes):
        raise OptionError(f"--grid {text}: expected one to three numbers of programs, got {', '.join(map(str, sizes))}")
    return sizes


def _number(node: ast.expr, known: Mapping[str, Any]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in known:
                raise ValueError(f"there is no {name}; there are {', '.join(known) or 'no names'}")
            value = known[name]
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is no whole number")
            return value
        case ast.BinOp(left, operation, right) if type(operation) in _DOES:
            return _DOES[type(operation)](_number(left, known), _number(right, known))
        case ast.Call(func=ast.Name(id=name), args=[one, other], keywords=[]) if name in _CALLS:
            return _CALLS[name](_number(one, known), _number(other, known))
    raise ValueError("only whole numbers, names, + - * //, cdiv, min and max are understood")
