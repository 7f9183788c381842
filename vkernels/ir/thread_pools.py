"""Threads of Python's for work beside each other, that say in our words where there are no more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from .system_resources import needing

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
