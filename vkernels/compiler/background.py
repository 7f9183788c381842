"""Background threads, which compile beside calls: they end with the interpreter, and let the process fork.

Threads, not child processes: they make native code of this process; a fresh process would take a second or two to
import what it needs, and a forked one cannot use the threads of libraries that were loaded before.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from vkernels.ir.system_resources import scarcity_of

_log = logging.getLogger(__name__)

T = TypeVar("T")

FORK_SECONDS = 10.0
"""How long a fork waits for the threads to reach a checkpoint."""


class AbandonedError(Exception):
    """The interpreter ends: the work is not needed any more."""


class _Gate:
    """Open while threads may work. A fork closes it and waits until no thread works, so that none holds a lock.

    `pauses`: how many calls want the interpreter for themselves; threads wait for them at their checkpoints.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.working = 0
        self.pauses = 0
        self.closed = False

    def enter(self, despite_pauses: bool = True) -> None:
        with self.changed:
            while self.closed or (self.pauses and not despite_pauses):
                self.changed.wait()
            self.working += 1

    def pause(self, more: int) -> None:
        with self.changed:
            self.pauses += more
            self.changed.notify_all()

    def leave(self) -> None:
        with self.changed:
            self.working -= 1
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.wait_for(lambda: self.working == 0, FORK_SECONDS)

    def open(self) -> None:
        with self.changed:
            self.closed = False
            self.changed.notify_all()


_gate = _Gate()
_held_in_forks: list[threading.Lock] = []
_thread = threading.local()


def hold_in_forks(lock: threading.Lock) -> None:
    """Hold a lock while the process forks, so that no child inherits what another thread does under it.

    It is acquired after background threads have stopped at a checkpoint: one of them may need it to get there.
    """
    _held_in_forks.append(lock)


def start_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Start some work in a thread of its own.

    The work calls `checkpoint` now and then, and waits for other processes within `release_gate`: the interpreter ends
    there. Where the system has no more threads the work is done at once, in the caller's thread.
    """
    future: Future[T] = Future()
    try:
        threading.Thread(target=_run, args=(work, future), name=f"vkernels-{name}").start()
    except RuntimeError as error:
        if scarcity_of(error) is None:
            raise
        _run(work, future)
    return future


class InBackground(Generic[T]):
    """What is made in the background when it is first asked for. Where that fails there is none."""

    def __init__(self, make: Callable[[], T], name: str, what: str):
        self._make, self._name, self._what = make, name, what
        self._made: Future[T] | None = None

    def __call__(self) -> T | None:
        if self._made is None:
            self._made = start_in_background(self._make, self._name)
            self._made.add_done_callback(self._log_failure)
        return self._made.result() if self._made.done() and self._made.exception() is None else None

    def _log_failure(self, made: Future[T]) -> None:
        if error := made.exception():
            _log.info("%s has no code for %s: %s", self._name, self._what, error)


def checkpoint() -> None:
    """Let a fork happen here, in a background thread; in other threads do nothing. Raises `AbandonedError` where the
    interpreter ends."""
    if not in_background():
        return
    if not threading.main_thread().is_alive():
        raise AbandonedError
    if _gate.closed or _gate.pauses:
        _gate.leave()
        _gate.enter(despite_pauses=False)


@contextmanager
def pause_compiles() -> Iterator[None]:
    """Let background threads wait at their checkpoints within; the caller must not wait for any of them."""
    gate = _gate
    gate.pause(1)
    try:
        yield
    finally:
        gate.pause(-1)


@contextmanager
def release_gate() -> Iterator[None]:
    """Let a fork happen within, while the caller waits for something and holds no lock."""
    if not in_background():
        yield
        return
    _gate.leave()
    try:
        yield
    finally:
        _gate.enter()


def in_background() -> bool:
    """Whether this is a background thread."""
    return getattr(_thread, "working", False)


def is_ending() -> bool:
    """Whether this is a background thread, and the interpreter ends."""
    return in_background() and not threading.main_thread().is_alive()


def _run(work: Callable[[], T], future: Future[T]) -> None:
    _gate.enter()
    _thread.working = True
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _thread.working = False
        _gate.leave()


def _before_fork() -> None:
    _gate.close()
    for lock in _held_in_forks:
        lock.acquire()


def _after_fork_in_parent() -> None:
    for lock in _held_in_forks:
        lock.release()
    _gate.open()


def _after_fork_in_child() -> None:
    global _gate
    for lock in _held_in_forks:
        lock.release()
    _gate = _Gate()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
