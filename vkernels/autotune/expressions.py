"""Expressions of names, numbers and texts: parsed by Python's own parser, and evaluated here, never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

MAX_TEXT = 1000
"""Characters of a text, at most: so its nesting is bounded, too."""

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda value, group: value in group, ast.NotIn: lambda value, group: value not in group,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "len": len, "sum": sum}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub, ast.UAdd)


@dataclass(frozen=True)
class Expression:
    """A parsed text. `names`: those that it needs, in their order. `functions`: those that it may call."""

    text: str
    names: tuple[str, ...]
    tree: ast.expr
    functions: Mapping[str, Callable[..., Any]]

    def value(self, known: Mapping[str, Any]) -> Any:
        """The value with these values of names. Raises what Python's operators raise."""
        return _value(self.tree, known, self.functions)


def parse_expression(
    text: str,
    what: str,
    example: str,
    functions: Mapping[str, Callable[..., Any]] = FUNCTIONS,
    attributes: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Expression:
    """Parse a text. `what`: what it is, for messages. `attributes`: by name, those that the text may ask for.

    Raises `OptionError` for what is no expression of the allowed kind.
    """
    if len(text) > MAX_TEXT:
        raise OptionError(f"{what}: expected at most {MAX_TEXT} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OptionError(f"{what} {text!r}: expected an expression, as {example}: {error}") from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    named = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)
    for node in ast.walk(tree):
        _refuse(node, f"{what} {text!r}", functions, attributes)
    return Expression(text, tuple(dict.fromkeys(named)), tree, functions)


def _refuse(node: ast.AST, where: str, functions: Collection[str], attributes: Mapping[str, Collection[str]]) -> None:
    """Raise `OptionError` for what expressions cannot contain."""
    harmless = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Name, ast.Load, ast.Subscript, ast.Tuple, ast.List,
                ast.And, ast.Or)  # fmt: skip
    if isinstance(node, harmless) or type(node) in _OPERATORS:
        return
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | int | float | str)):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
        if not node.keywords:
            return
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in attributes:
        known = attributes[node.value.id]
        if node.attr in known:
            return
        raise OptionError(f"{where}: {node.value.id} has no {node.attr!r}; {did_you_mean(node.attr, list(known))}")
    shown = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
    raise OptionError(
        f"{where}: {shown!r} is not allowed; it may have names, numbers, texts, comparisons, and, or, not, "
        f"+ - * / // %, subscripts, and {', '.join(functions)}"
    )


def _value(node: ast.AST, known: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    def of(part: ast.AST) -> Any:
        return _value(part, known, functions)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            value = known[node.id]
            return MappingProxyType(value) if isinstance(value, dict) else value
        case ast.Attribute(value=ast.Name(id=name)):
            return getattr(known[name], node.attr)
        case ast.Tuple() | ast.List():
            return tuple(map(of, node.elts))
        case ast.Subscript():
            return of(node.value)[of(node.slice)]
        case ast.Call(func=ast.Name(id=name)):
            return functions[name](*map(of, node.args))
        case ast.BoolOp():
            results = (bool(of(each)) for each in node.values)
            return all(results) if isinstance(node.op, ast.And) else any(results)
        case ast.UnaryOp():
            return _applied(node.op, of(node.operand))
        case ast.BinOp():
            return _applied(node.op, of(node.left), of(node.right))
        case ast.Compare():
            values = list(map(of, (node.left, *node.comparators)))
            return all(_OPERATORS[type(op)](*pair) for op, pair in zip(node.ops, pairwise(values), strict=True))
    raise AssertionError("refused when it was parsed")


def _applied(op: ast.AST, *values: Any) -> Any:
    if isinstance(op, _ARITHMETIC) and not all(isinstance(value, bool | int | float) for value in values):
        raise TypeError("arithmetic is for numbers")
    return _OPERATORS[type(op)](*values)
