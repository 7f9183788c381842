"""Tell listeners what happens on the way to code: spans of work, and code that was loaded. docs/tracing.md."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from vkernels.ir.fork_safe import fork_safe_lock

from .protocols import KernelLike, file_of, line_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """Work for a kernel: `what` is build (its text becomes IR), plan, compile, load (code of a bundle), or wait (a
    call, for its part of the cores). `file`, `line`: of its function.

    A transfer of swapped memory is work for no kernel: `what` is its direction, and `bytes` its size.
    """

    what: str
    kernel: str = ""
    file: str = ""
    line: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Span:
    """Work, and `time.perf_counter()` when it began and ended, in the thread that tells of it.

    `queue`: the queue of a device that did it instead, such as `cuda:0 to host`.
    """

    work: Work
    start: float
    end: float
    queue: str = ""


@dataclass(frozen=True)
class LoadedCode:
    """Native code in memory: the address of each of its functions by name, and the object file that it came from.

    `work`: during which it was loaded, if that is known.
    """

    work: Work | None
    addresses: Mapping[str, int]
    object: bytes


class TimelineListener(Protocol):
    """Is told of all work in the process, by the thread that does it."""

    def ended(self, span: Span) -> None: ...
    def loaded(self, code: LoadedCode) -> None: ...


class LateTeller(Protocol):
    """Tells of work that a device does after the thread that asked for it has gone on."""

    def tell_all(self) -> None:
        """Wait for the work that was asked for, and tell of it."""


LISTENERS: tuple[TimelineListener, ...] = ()
"""Those of this process; replaced, never changed."""
LATE: weakref.WeakSet[LateTeller] = weakref.WeakSet()
"""They tell all before a listener leaves."""
_lock = fork_safe_lock()


class _Threads(threading.local):
    work: Work | None = None


_threads = _Threads()


@contextmanager
def listening(listener: TimelineListener) -> Iterator[None]:
    """Tell a listener of all work while the block runs."""
    global LISTENERS
    with _lock:
        LISTENERS = (*LISTENERS, listener)
    try:
        yield
    finally:
        for late in [*LATE]:
            try:
                late.tell_all()
            except Exception:
                _log.exception("work of a device is missing in the timeline")
        with _lock:
            LISTENERS = tuple(each for each in LISTENERS if each is not listener)


@contextmanager
def working(what: str, kernel: KernelLike) -> Iterator[None]:
    """Tell the listeners of the block's work for a kernel, also if it fails."""
    if not LISTENERS:
        yield
        return
    with _told(Work(what, kernel.name, file_of(kernel), line_of(kernel))):
        yield


@contextmanager
def moving(direction: str, bytes: int) -> Iterator[None]:
    """Tell the listeners of a transfer that the block makes, also if it fails."""
    if not LISTENERS:
        yield
        return
    with _told(Work(direction, bytes=bytes)):
        yield


def moved(direction: str, bytes: int, start: float, end: float, queue: str) -> None:
    """Tell the listeners of a transfer that a queue of a device made."""
    span = Span(Work(direction, bytes=bytes), start, end, queue)
    _tell(lambda listener: listener.ended(span))


@contextmanager
def _told(work: Work) -> Iterator[None]:
    before, _threads.work, start = _threads.work, work, time.perf_counter()
    try:
        yield
    finally:
        span = Span(work, start, time.perf_counter())
        _threads.work = before
        _tell(lambda listener: listener.ended(span))


def note_loaded(addresses: Mapping[str, int], object: bytes) -> None:
    """Tell the listeners of native code."""
    if LISTENERS:
        code = LoadedCode(_threads.work, addresses, object)
        _tell(lambda listener: listener.loaded(code))


def _tell(what: Callable[[TimelineListener], object]) -> None:
    """Tell all listeners. What they raise is logged: the kernel is compiled all the same."""
    for listener in LISTENERS:
        try:
            what(listener)
        except Exception:
            _log.exception("a listener of the timeline failed")
