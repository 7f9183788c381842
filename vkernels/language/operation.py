"""Operations, the builder of the kernel that is being built, and the mistakes that operations report to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

from vkernels.ir.errors import SourceError, UnsupportedError


class ValueBuilder(Protocol):
    """What operators, methods and subscripts of values call; the front end's `KernelBuilder` implements it."""

    def binary(self, name: str, left: Any, right: Any) -> Any: ...
    def compare(self, name: str, left: Any, right: Any) -> Any: ...
    def unary(self, name: str, value: Any) -> Any: ...
    def cast(self, value: Any, dtype: Any) -> Any: ...
    def load(self, reference: Any) -> Any: ...
    def store(self, reference: Any, value: Any) -> None: ...
    def size(self, name: str) -> Any: ...


_current: ContextVar[ValueBuilder | None] = ContextVar("vkernels_builder", default=None)


class Mistake(Exception):
    """An author's mistake that is raised without a location; the front end adds the location.

    `culprit` is the argument at fault, or its name if it is passed by keyword; None for the whole call.
    """

    def __init__(self, kind: type[SourceError], message: str, help: str = "", culprit: Any = None):
        super().__init__(message)
        self.kind, self.message, self.help, self.culprit = kind, message, help, culprit


def current(caller: str = "an operator on tiles") -> ValueBuilder:
    """The builder of the kernel that is being built. Raises `UnsupportedError` outside a kernel, naming the caller."""
    builder = _current.get()
    if builder is None:
        raise UnsupportedError(
            f"{caller} works inside a kernel only",
            help="Write it in a function decorated with `@vk.kernel`, and call that with tensors.",
        )
    return builder


@contextmanager
def building(builder: ValueBuilder) -> Iterator[None]:
    """Make operations build with this builder."""
    token = _current.set(builder)
    try:
        yield
    finally:
        _current.reset(token)


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
