"""Which tensors a kernel's text stores into, read without building it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..operation import references_of

if TYPE_CHECKING:
    from ..kernel import Function, Kernel


def written_tensors(function: Kernel | Function, seen: frozenset[int] = frozenset()) -> set[str]:
    """The parameters that a function, or a helper that it calls, may store into."""
    from ..kernel import Function as Helper

    written: set[str] = set()
    for node in ast.walk(function.source.definition):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            written |= set(_base(node))
        elif isinstance(node, ast.Call):
            called = _find(function.function, node.func)
            if isinstance(called, Helper) and id(called) not in seen:
                written |= _passed(node, called, written_tensors(called, seen | {id(called)}))
            elif references_of(called) and node.args and called.__name__ != "load":
                written |= set(_base(node.args[0]))
    return written


def _base(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        yield node.value.id


def _passed(node: ast.Call, called: Function, inner: set[str]) -> set[str]:
    arguments = called.source.definition.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    given = dict(zip(names, node.args, strict=False))
    given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None})
    return {value.id for name, value in given.items() if name in inner and isinstance(value, ast.Name)}


def _find(function: Callable[..., Any], node: ast.expr) -> Any:
    """What a dotted name in a function's text stands for outside of the function; None where it cannot be told."""
    if isinstance(node, ast.Attribute):
        return getattr(_find(function, node.value), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    if node.id in function.__code__.co_freevars and function.__closure__ is not None:
        return function.__closure__[function.__code__.co_freevars.index(node.id)].cell_contents
    return function.__globals__.get(node.id)
