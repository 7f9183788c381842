"""Tell the timeline of transfers on a GPU's streams, which run later than they are asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vkernels.compiler import timeline

from .cuda_api import Cuda
from .device import Lane

MOST_UNTOLD = 256
"""Transfers that wait to be told; beyond that, those that have ended are told by the thread that asks for one."""


@dataclass(frozen=True)
class Asked:
    """A transfer between two timed events on its lane's stream."""

    lane: Lane
    size: int
    begin: Any
    end: Any


class StreamSpans:
    """The transfers of one GPU that were not told yet. Without listeners, a transfer looks at one tuple."""

    def __init__(self, cuda: Cuda, name: str):
        self._cuda, self._name, self._lock = cuda, name, threading.Lock()
        self._asked: list[Asked] = []
        self._zero: tuple[Any, float] | None = None
        """An event, and when it was recorded, by the host's clock."""

    @contextmanager
    def moving(self, lane: Lane, size: int, stream: Any) -> Iterator[None]:
        """The transfer that the block asks of a stream is told once it has ended."""
        if not timeline.LISTENERS:
            yield
            return
        self._begin_to_tell()
        begin, end = self._cuda.timed_event(), self._cuda.timed_event()
        begin.record(stream)
        yield
        end.record(stream)
        with self._lock:
            self._asked.append(Asked(lane, size, begin, end))
        if len(self._asked) > MOST_UNTOLD:
            self._tell(wait=False)

    def tell_all(self) -> None:
        """Wait for the transfers that were asked for, and tell of them."""
        self._tell(wait=True)

    def _begin_to_tell(self) -> None:
        with self._lock:
            if self._zero is None:
                event = self._cuda.timed_event()
                event.record(self._cuda.stream())  # which has no work to wait for
                event.synchronize()
                self._zero = event, time.perf_counter()
                timeline.LATE.add(self)

    def _tell(self, wait: bool) -> None:
        with self._lock:
            if self._zero is None:
                return
            asked, self._asked, (zero, at) = self._asked, [], self._zero
            for each in asked:
                if wait:
                    each.end.synchronize()
                elif not each.end.query():
                    self._asked.append(each)
                    continue
                start, end = (at + zero.elapsed_time(event) / 1e3 for event in (each.begin, each.end))
                timeline.moved(each.lane.value, each.size, start, end, f"{self._name} {each.lane.value}")
