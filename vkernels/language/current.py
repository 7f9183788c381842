"""The builder at work: what operations and operators speak to, and the mistakes that they report to it."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import SourceError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .frontend.builder import KernelBuilder

_current: ContextVar[KernelBuilder | None] = ContextVar("vkernels_builder", default=None)


class Mistake(Exception):
    """The author's mistake, found where the place in the text is not known; the front end adds the place.

    `culprit` is the argument at fault, or its name where it is given by keyword; without one it is the whole call.
    """

    def __init__(self, kind: type[SourceError], message: str, help: str = "", culprit: Any = None):
        super().__init__(message)
        self.kind, self.message, self.help, self.culprit = kind, message, help, culprit


def current() -> KernelBuilder:
    """The builder of the kernel that is being built. Raises `UnsupportedError` outside a kernel."""
    builder = _current.get()
    if builder is None:
        raise UnsupportedError(
            "tile operations work inside a kernel only",
            help="Write them in a function decorated with `@vk.kernel`, and call that with tensors.",
        )
    return builder


@contextmanager
def building(builder: KernelBuilder) -> Iterator[None]:
    """Let operations speak to this builder."""
    token = _current.set(builder)
    try:
        yield
    finally:
        _current.reset(token)


def is_building() -> bool:
    """Whether a kernel is being built."""
    return _current.get() is not None
