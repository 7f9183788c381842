"""Decorators that make functions operations of the language."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .current import current

P = ParamSpec("P")
R = TypeVar("R")

_IMPLEMENTATION = "__vk_operation__"
_REFERENCES = "__vk_references__"
_names: set[str] = set()


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function an operation: kernels call it; called anywhere else it raises `UnsupportedError`."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        current(f"vk.{function.__name__}")
        return function(*args, **kwargs)

    setattr(checked, _IMPLEMENTATION, function)
    _names.add(function.__name__)
    return checked


def place_operation(function: Callable[P, R]) -> Callable[P, R]:
    """Make an operation whose first argument is a subscript that is not loaded: `vk.atomic_add(total[i], x)`."""
    checked = operation(function)
    setattr(checked, _REFERENCES, (0,))
    return checked


def implementation_of(function: Any) -> Callable[..., Any] | None:
    """The function behind an operation; None for other values."""
    return getattr(function, _IMPLEMENTATION, None)


def references_of(function: Any) -> tuple[int, ...]:
    """The positions of arguments that are subscripts and are not loaded."""
    return getattr(function, _REFERENCES, ())


def operation_names() -> set[str]:
    """The names of all operations."""
    return _names
