"""The thread pool of this process: how many threads calls may use, and the pool's end at a fork and at exit."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkernels.ir.errors import OptionError
from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.targets.host_cpu import LAUNCH_SECONDS, SHARE_SECONDS, usable_cores

from .torch_team import torch_team

if TYPE_CHECKING:
    from .pool import Pool, Waiting
    from .python_pool import PythonPool


@dataclass(frozen=True)
class _Setting:
    """What `set_threads` was given, and the process that called it."""

    threads: int
    process: int


_lock = fork_safe_lock()
_pool: Pool | PythonPool | None = None
_setting: _Setting | None = None
_on_change: list[Callable[[], None]] = []
_on_pool: list[Callable[[Pool | PythonPool], None]] = []


def get_threads() -> int:
    """Threads that a call may use.

    As set with `set_threads`, else torch's number where torch is loaded, else `OMP_NUM_THREADS`, else all cores that
    this process may use. What is not set here is at most that many cores. One in a worker of torch's `DataLoader`,
    unless the worker itself sets another number.
    """
    if _setting is not None:
        return 1 if _setting.process != os.getpid() and _is_data_worker() else _setting.threads
    torch_threads = followed()
    wanted = _omp_threads() if torch_threads is None else torch_threads()
    return min(wanted, usable_cores()) if wanted else usable_cores()


def set_threads(number: int) -> None:
    """Let calls use this many threads, the calling one among them. Raises `OptionError` for less than one."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise OptionError(f"threads: expected a whole number of at least 1, got {number!r}")
    _set(_Setting(number, os.getpid()))


@contextmanager
def using_threads(number: int | None) -> Iterator[None]:
    """Set the number of threads within a `with`; None: no change."""
    if number is None or number == get_threads():  # setting it would bind all calls anew
        yield
        return
    before = _setting
    set_threads(number)
    try:
        yield
    finally:
        _set(before)


def followed() -> Callable[[], int] | None:
    """What tells the number of threads where it is torch's, and may change with any call; else None."""
    torch = sys.modules.get("torch") if _setting is None else None
    return getattr(torch, "get_num_threads", None)  # None too while torch is being imported


def forget_calls() -> None:
    """Bind all calls anew: the number of threads has changed."""
    for forget in _on_change:
        forget()


def _set(setting: _Setting | None) -> None:
    global _setting
    before, _setting = _setting, setting
    if before != setting:
        forget_calls()


def _omp_threads() -> int | None:
    """The first number of `OMP_NUM_THREADS`, which may be a list; None where it is none."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) else None


def _is_data_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


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
            if _pool is None:
                pool = Pool(_waiting()) if is_native() else PythonPool()
                for prepare in _on_pool:
                    prepare(pool)
                _pool = pool
    return _pool


def reserve(threads: int) -> None:
    """Have `threads` threads ready, with the calling one: torch's where it is loaded, as far as a call suits them.

    Raises `SetupError` where threads cannot be started.
    """
    pool = the_pool()
    if threads > 1 and pool.takes_team and (team := torch_team()) is not None:
        pool.join(team)
    pool.reserve(threads)


def on_new_pool(prepare: Callable[[Pool | PythonPool], None]) -> None:
    """Call `prepare` with the process's pool, now if it is there, and with the one that follows it after a fork."""
    with _lock:
        _on_pool.append(prepare)
        if _pool is not None:
            prepare(_pool)


def _waiting() -> Waiting:
    """How long the pool waits, and which calls it keeps on one thread, by what handing over was measured to cost.

    What was measured is kept by the processor's features, which LLVM tells. Processes that only run bundles load no
    LLVM, and take what is usual.
    """
    from .pool import Waiting

    if "llvmlite" not in sys.modules:
        return Waiting()
    from vkernels.targets.cpu_rates import known_cpu_rates

    rates = known_cpu_rates()
    if rates is None:
        return Waiting()
    share = rates.launch * SHARE_SECONDS / LAUNCH_SECONDS
    return Waiting(share=share, wake=max(share, rates.wake))


def _stop() -> None:
    if _pool is not None:
        _pool.stop()


def _after_fork_in_child() -> None:
    global _pool
    _pool = None
    forget_calls()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
