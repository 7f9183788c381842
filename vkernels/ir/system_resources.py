"""Errors for resources that the system has run out of: disk space, threads, processes, memory, open files."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from .errors import Error, OutOfMemoryError, ResourceError

SCARCE = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "ENOMEM", "EAGAIN", "EMFILE", "ENFILE", "ENOLCK", "ENOBUFS")
    if hasattr(errno, name)
)
"""Error numbers of an `OSError` that the caller cannot help. (`EPERM`, `EROFS` and the like are not: another place
would do.)"""
NO_THREAD = ("can't start new thread", "can't create new thread")
"""Python's messages for a thread that cannot be started."""


NO_MEMORY = ("can't allocate memory", "not enough memory: you tried to allocate", "CUDA out of memory")
"""Torch's messages for lack of memory, in a `RuntimeError`."""


def scarcity_of(error: BaseException, what: str = "") -> Error | None:
    """The error as ours, where the system has no more of something; None of any other. `what`: what asked for it."""
    before = f"{what}: " if what else ""
    if isinstance(error, MemoryError):
        return OutOfMemoryError(f"{before}not enough memory{f': {error}' if str(error) else ''}")
    if isinstance(error, OSError) and error.errno in SCARCE:
        return ResourceError(f"{before}{error.strerror or error}")
    if isinstance(error, RuntimeError) and any(said in str(error) for said in NO_MEMORY):
        return OutOfMemoryError(f"{before}{error}")
    if isinstance(error, RuntimeError) and any(said in str(error) for said in NO_THREAD):
        return ResourceError(f"{before}no more threads can be started: a limit of this user or container is reached")
    return None


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Raise `ResourceError`, or `OutOfMemoryError`, where the system has no more of what something needs."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        scarce = scarcity_of(error, what)
        if scarce is None:
            raise
        raise scarce from error


P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(ThreadPoolExecutor):
    """A `ThreadPoolExecutor` whose work raises `ResourceError` when it is submitted and no thread can be started."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with needing("threads to work on"):
            return super().submit(function, *args, **kwargs)

    def __exit__(self, *error: Any) -> None:
        """Wait for what was submitted; what no thread began is left where an error ends it."""
        self.shutdown(wait=True, cancel_futures=error[0] is not None)
