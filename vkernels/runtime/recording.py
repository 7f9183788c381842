"""Record the kernel calls that a function makes, so that they can be replayed without it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from vkernels.ir.fork_safe import fork_safe_lock


class Recorder(Protocol):
    """Receives every kernel call of its thread."""

    def launched(self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any]) -> None: ...


class _Recorders(threading.local):
    current: Any = None


_recorders = _Recorders()
recording = 0
"""Threads that record; where there are none, calls do not look for a recorder."""


def current() -> Any:
    """The recorder of this thread, or None."""
    return _recorders.current if recording else None


class CallRecording:
    """Within, a recorder receives the kernel calls of this thread; blocks do not nest."""

    def __init__(self, recorder: Recorder):
        self._recorder = recorder

    def __enter__(self) -> None:
        global recording
        with _lock:
            recording += 1
        _recorders.current = self._recorder

    def __exit__(self, *_: object) -> None:
        global recording
        _recorders.current = None
        with _lock:
            recording -= 1


_lock = fork_safe_lock()
