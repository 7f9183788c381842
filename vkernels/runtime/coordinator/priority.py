"""Priorities of calls: whose work goes first where several threads call kernels on a CPU."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.targets.host_cpu import usable_cores

from ..pool_board_ir import HIGH, LOW, NORMAL
from ..threads import get_threads, on_new_pool, the_pool
from . import gap_filling
from .board import Board, PriorityStats

if TYPE_CHECKING:
    from ..pool import Pool
    from ..python_pool import PythonPool
    from .shared_board import SharedBoard

LEVELS = {"low": LOW, "normal": NORMAL, "high": HIGH}
Level = Literal["low", "normal", "high"]
Function = TypeVar("Function", bound=Callable[..., Any])

_of_thread = threading.local()
_board: Board | None = None
_pause_log = 0
_making = threading.Lock()


class Priority(ContextDecorator):
    """What `priority` gives: a context, and a decorator."""

    def __init__(self, level: Level):
        self._level, self._before = level, ""

    def _recreate_cm(self) -> Priority:
        return Priority(self._level)

    def __call__(self, func: Function) -> Function:
        if inspect.iscoroutinefunction(func) or inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise OptionError(
                f"priority: {func.__name__} is a coroutine or a generator, which runs later than it is called; "
                "use `with vk.priority(...)` around its calls of kernels"
            )
        return super().__call__(func)

    def __enter__(self) -> None:
        self._before = get_priority()
        _set(self._level)

    def __exit__(self, *_: object) -> None:
        _set(self._before)


def priority(level: Level) -> Priority:
    """Set the priority of this thread's calls of kernels, within a `with` or as a decorator.

    `level`: "high", "normal", as without it, or "low". It concerns kernels on the CPU, where there is a native pool;
    see docs/sharing.md. Raises `OptionError` for another level, and for coroutines and generators as a decorator.
    """
    if not isinstance(level, str) or level not in LEVELS:
        raise OptionError(
            f"priority: expected high, normal or low, got {level!r}{did_you_mean(str(level), list(LEVELS))}"
        )
    return Priority(level)


def get_priority() -> str:
    """The priority of this thread's calls: "high", "normal" or "low"."""
    level: str = getattr(_of_thread, "level", "normal")
    return level


def priority_stats() -> dict[str, PriorityStats]:
    """Counters of calls by priority, the highest first; empty before the process used one."""
    board = _board
    return {} if board is None else {level: board.stats(LEVELS[level]) for level in reversed(LEVELS)}


def has_priorities() -> bool:
    """Whether priorities do anything here: on systems without a native pool they do not."""
    return _native_pool() is not None


def log_pauses(address: int) -> int:
    """Let threads note their pauses in a log at this address, or nowhere at 0; returns where they did before."""
    global _pause_log
    with _making:
        before, _pause_log = _pause_log, address
        if _board is not None:
            _board.log_pauses(address)
    return before


def joined_board() -> SharedBoard | None:
    """The board of all processes, if this one is on it."""
    return None if _board is None else _board.shared


def _set(level: str) -> None:
    if level == get_priority() and _board is not None:
        return
    gap_filling.in_use = True
    if pool := _native_pool():
        from ..pool import this_thread

        board = _the_board()
        if level != "normal":
            pool.reserve_for(LEVELS[level], get_threads())
        board.put(this_thread(), LEVELS[level])
    _of_thread.level = level


def _the_board() -> Board:
    """The process's board, which its pools share from now on."""
    global _board
    with _making:
        if _board is None:
            _board = Board(usable_cores())
            _board.log_pauses(_pause_log)
            on_new_pool(_join)
    return _board


def _native_pool() -> Pool | None:
    """The process's pool, if it knows priorities."""
    from ..pool import Pool

    pool = the_pool()
    return pool if isinstance(pool, Pool) else None


def _join(pool: Pool | PythonPool) -> None:
    """Give a pool the board, and helpers for the calls of the thread that is there, if it has a priority."""
    from ..pool import Pool

    if _board is None or not isinstance(pool, Pool):
        return
    is_shared = _board.join_others()
    pool.separate(_board.address)
    if is_shared:
        pool.hang_bell(NORMAL)
    level = LEVELS[get_priority()]
    if level != NORMAL:
        pool.reserve_for(level, get_threads())


def _after_fork_in_child() -> None:
    """Of all threads, only the one that forked is there."""
    global _making, _pause_log
    _making, _pause_log = threading.Lock(), 0
    if _board is not None:
        from ..pool import this_thread

        _board.clear(usable_cores())
        _board.put(this_thread(), LEVELS[get_priority()])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
