"""What a function's text says of names, before anything is built."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def assigned_names(statements: Iterable[ast.stmt]) -> list[str]:
    """The names that statements assign, in order, each once; the variables of `for` are not among them."""
    names: dict[str, None] = {}
    for statement in statements:
        names.update(dict.fromkeys(_assigned(statement)))
    return list(names)


def _assigned(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from target_names(target)
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        yield from target_names(statement.target)
    elif isinstance(statement, ast.For | ast.While | ast.If):
        yield from assigned_names(statement.body)
        yield from assigned_names(statement.orelse)


def target_names(target: ast.expr) -> Iterator[str]:
    """The names that an assignment's target binds; subscripts bind none."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from target_names(element)
