"""Who is noting which calls of kernels a function makes, so that they can be repeated without it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol


class Recorder(Protocol):
    """Is told of every call that its thread makes, and of what makes them unfit to be repeated."""

    def launched(self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any]) -> None: ...


class _Recorders(threading.local):
    current: Any = None


_recorders = _Recorders()
recording = 0
"""How many threads record, so that calls need not look for their own recorder otherwise."""


def current() -> Any:
    """The recorder of this thread, or None."""
    return _recorders.current if recording else None


class Recording:
    """Lets a recorder know what this thread does, for the time of a `with` block; blocks do not nest."""

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


_lock = threading.Lock()
