"""Calls that observers see: when each began and ended, and whether it was alone.

Nothing is in the way of calls that nobody observes: an observed call runs through an object of its own, which takes the
place of the code that it runs. Repeated calls of library functions run it, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from vkernels.ir.fork_safe import fork_safe_lock

from .threads import forget_calls

if TYPE_CHECKING:
    from vkernels.compiler.compilation import Compilation

    from .call_entry import Runnable
    from .events import LaunchRecord

See = Callable[[float, float, bool], object]
"""Receives the `time.perf_counter()` of a call's begin and end, and whether no other observed call ran meanwhile."""


class CallObserver(Protocol):
    """Observes calls on the CPU, in all threads."""

    def watch(self, compilation: Compilation, record: LaunchRecord) -> See | None:
        """What sees the calls of some code; None for calls that do not matter. Called when a thread binds the code."""
        ...


class ObservedCalls:
    """Runs calls, and tells what sees them."""

    def __init__(self, calls: Runnable, seen_by: Sequence[See]):
        self._calls, self._seen_by = calls, tuple(seen_by)
        self.is_repeatable = calls.is_repeatable

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Run the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        thread, is_alone = get_ident(), not _running
        _running.add(thread)
        stamp = next(_stamps)
        start = perf_counter()
        try:
            self._calls.run(addresses, scalars)
        finally:
            end = perf_counter()
            _running.discard(thread)
            is_alone = next(_stamps) == stamp + 1 and is_alone
        if self._calls.is_settled:
            for see in self._seen_by:
                see(start, end, is_alone)

    @property
    def is_settled(self) -> bool:
        """Whether it was found out on how many threads calls run."""
        return self._calls.is_settled

    def launch_record(self) -> LaunchRecord:
        """How calls are run now."""
        return self._calls.launch_record()


OBSERVERS: tuple[CallObserver, ...] = ()
"""Those of this process; replaced, never changed."""
_lock = fork_safe_lock()
_running: set[int] = set()
_stamps = count()


def observe(observer: CallObserver) -> None:
    """Let an observer see all later calls on the CPU. Calls are bound anew."""
    global OBSERVERS
    with _lock:
        OBSERVERS = (*OBSERVERS, observer)
    forget_calls()


def stop_observing(observer: CallObserver) -> None:
    """End what `observe` began. Calls are bound anew."""
    global OBSERVERS
    with _lock:
        OBSERVERS = tuple(each for each in OBSERVERS if each is not observer)
    forget_calls()


def observed(calls: Runnable, compilation: Compilation) -> Runnable:
    """The calls as observers see them; the same where there are none."""
    record = calls.launch_record()
    seen_by = [see for each in OBSERVERS if (see := each.watch(compilation, record)) is not None]
    return ObservedCalls(calls, seen_by) if seen_by else calls


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
