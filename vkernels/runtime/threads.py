"""The thread pool of this process: its size, and its end at a fork and at exit."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from vkernels.ir.errors import OptionError
from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.targets.host_cpu import usable_cores

if TYPE_CHECKING:
    from .pool import Pool
    from .python_pool import PythonPool


_lock = fork_safe_lock()
_pool: Pool | PythonPool | None = None
_threads: int | None = None
_on_change: list[Callable[[], None]] = []


def get_threads() -> int:
    """Threads that a call may use: as set with `set_threads`, else all cores that this process may use."""
    return usable_cores() if _threads is None else _threads


def set_threads(number: int) -> None:
    """Let calls use this many threads, the calling one among them. Raises `OptionError` for less than one."""
    global _threads
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise OptionError(f"threads: expected a whole number of at least 1, got {number!r}")
    if number == _threads:  # calls are bound for as many
        return
    _threads = number
    for forget in _on_change:
        forget()


def on_threads_change(forget: Callable[[], None]) -> None:
    """Call `forget` when the number of threads changes, and after a fork: bound calls are invalid then."""
    _on_change.append(forget)


def the_pool() -> Pool | PythonPool:
    """The process's pool, made at first use."""
    global _pool
    if _pool is None:
        from .pool import Pool, is_native
        from .python_pool import PythonPool

        with _lock:
            _pool = _pool or (Pool() if is_native() else PythonPool())
    return _pool


def _stop() -> None:
    if _pool is not None:
        _pool.stop()


def _after_fork_in_child() -> None:
    global _pool
    _pool = None
    for forget in _on_change:
        forget()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
