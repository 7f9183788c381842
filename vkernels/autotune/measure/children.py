"""Workers that wait for their next task, so that not every task pays for starting one."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from types import TracebackType

from .child import MeasuringWorker

MAX_IDLE_BYTES = 1 << 30
"""Bytes that a worker may hold and still be kept."""


class Children:
    """Idle workers by the cores that they run on. A context manager; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[tuple[tuple[int, ...], MeasuringWorker]] = []
        self._closed = False

    def take(self, cores: Sequence[int]) -> MeasuringWorker | None:
        """One that runs on these cores; None where there is none."""
        with self._lock:
            found = next((each for each in self._idle if each[0] == tuple(cores)), None)
            if found is not None:
                self._idle.remove(found)
        return None if found is None else found[1]

    def give(self, cores: Sequence[int], child: MeasuringWorker) -> None:
        """Keep one that has nothing to do, unless it has grown too large."""
        keep = child.alive and child.resident_bytes() <= MAX_IDLE_BYTES
        with self._lock:
            if keep and not self._closed:
                self._idle.append((tuple(cores), child))
                return
        child.kill()

    def close(self) -> None:
        """End them all; those given later too."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, child in idle:
            child.kill()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
