"""Work that goes on beside calls, in threads of its own: it ends with the interpreter, and lets the process fork.

Threads, not child processes: what they make is native code of this process, a fresh process would take a second or two
to import what it needs, and one that is forked cannot use the threads of libraries that were loaded before. While
the caller waits, such a thread has the interpreter for itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from vkernels.ir.scarcity import scarcity_of

T = TypeVar("T")

FORK_SECONDS = 10.0
"""How long a fork waits for threads here to come to a point where nothing is half done."""


class AbandonedError(Exception):
    """The interpreter ends: what was being made is not needed any more."""


class _Gate:
    """Open while threads may work; a fork closes it and waits until none does, so that no lock of theirs is held.

    `holding`: how many calls want the interpreter for themselves: threads stop for them at their checkpoints.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.working = 0
        self.holding = 0
        self.closed = False

    def enter(self, whoever_holds: bool = True) -> None:
        with self.changed:
            while self.closed or (self.holding and not whoever_holds):
                self.changed.wait()
            self.working += 1

    def hold(self, more: int) -> None:
        with self.changed:
            self.holding += more
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
_mine = threading.local()


def begin(work: Callable[[], T], name: str) -> Future[T]:
    """Start some work in a thread of its own; the future has what comes of it.

    The work calls `checkpoint` now and then, and waits for other processes within `resting`. The interpreter's end
    waits for it until it does. Where the system has no more threads the work is done at once, in the caller's.
    """
    future: Future[T] = Future()
    try:
        threading.Thread(target=_run, args=(work, future), name=f"vkernels-{name}").start()
    except RuntimeError as error:
        if scarcity_of(error) is None:
            raise
        _run(work, future)
    return future


def checkpoint() -> None:
    """Let a fork happen here. Raises `AbandonedError` where the interpreter ends; elsewhere than in such work it does
    nothing."""
    if not getattr(_mine, "working", False):
        return
    if not threading.main_thread().is_alive():
        raise AbandonedError
    if _gate.closed or _gate.holding:
        _gate.leave()
        _gate.enter(whoever_holds=False)


@contextmanager
def holding() -> Iterator[None]:
    """Have such work wait at its checkpoints meanwhile: who holds must not wait for any of it."""
    gate = _gate
    gate.hold(1)
    try:
        yield
    finally:
        gate.hold(-1)


@contextmanager
def resting() -> Iterator[None]:
    """Wait for something within, holding no lock that anyone else needs."""
    if not getattr(_mine, "working", False):
        yield
        return
    _gate.leave()
    try:
        yield
    finally:
        _gate.enter()


def is_ending() -> bool:
    """Whether this is such work, and the interpreter ends."""
    return getattr(_mine, "working", False) and not threading.main_thread().is_alive()


def _run(work: Callable[[], T], future: Future[T]) -> None:
    _gate.enter()
    _mine.working = True
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _mine.working = False
        _gate.leave()


def _after_fork_in_child() -> None:
    """There are no such threads here."""
    global _gate
    _gate = _Gate()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _gate.close(), after_in_parent=lambda: _gate.open(), after_in_child=_after_fork_in_child
    )
