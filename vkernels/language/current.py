"""The builder of the kernel that is being built, and the mistakes that operations report to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

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
