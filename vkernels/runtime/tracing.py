"""Trace the kernel calls of a process, as JSON that Perfetto and Chrome show; docs/tracing.md."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from vkernels.compiler import timeline
from vkernels.compiler.timeline import LoadedCode, Span
from vkernels.ir.write_file import write_file

from .coordinator import get_priority
from .coordinator.pause_log import Pause, logging_pauses
from .coordinator.priority import LEVELS, has_priorities
from .events import LaunchEvent, on_launch
from .gaps import Filled

MICROSECONDS = 1e6
CALL, RUN, PAUSE, GAP = "call", "run", "pause", "gap"


@dataclass(frozen=True)
class TracedSpan:
    """A span of time in a thread, in seconds of `time.perf_counter()`. `kind`: call, run, gap, build, plan, compile,
    wait, pause, or the direction of a transfer.

    `about`: what a viewer shows beside it.
    """

    kind: str
    name: str
    thread: int
    start: float
    end: float
    about: Mapping[str, Any] = field(default_factory=dict)


class Trace:
    """Kernel calls, and the work for them. Threads add to it without waiting for each other.

    `spans`: in the order in which they were told. `threads`: names of threads and of devices' queues, by number.
    """

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.spans: list[TracedSpan] = []
        self.threads: dict[int, str] = {}
        self._own, self._numbers = threading.local(), count(1)
        self._native: dict[int, list[tuple[float, int]]] = {}
        self._queues: dict[str, int] = {}

    def called(self, event: LaunchEvent) -> None:
        """Add a call, and within it the time that its code ran."""
        called, thread, priority = event.called, self._thread(), get_priority()
        ended: float | None = getattr(self._own, "ended", None)
        self._own.ended = event.end
        if ended is not None and ended < event.start:
            self.spans.append(TracedSpan(GAP, GAP, thread, ended, event.start, {"priority": priority}))
        about = {
            "priority": priority, "gap": None if ended is None else event.start - ended,
            "source": _place(called.file, called.line), "device": event.device, "slice": event.slice,
            "rung": event.rung, "launches": event.launches, "swap_bytes": event.swap_bytes,
            "cached": event.cache_hit, "sizes": dict(called.sizes), "dtypes": dict(called.dtypes),
            "constants": {name: str(value) for name, value in called.constants.items()},
        }  # fmt: skip
        self.spans.append(TracedSpan(CALL, event.kernel, thread, event.start, event.end, about))
        self.spans.append(TracedSpan(RUN, RUN, thread, event.ran, event.end, {"kernel": event.kernel}))

    def ended(self, span: Span) -> None:
        """Add work for a kernel, or a transfer."""
        work = span.work
        about: dict[str, Any] = {"kernel": work.kernel, "source": _place(work.file, work.line)}
        if not work.kernel:
            about = {"bytes": work.bytes}
        track = self._track_of_queue(span.queue) if span.queue else self._thread()
        self.spans.append(TracedSpan(work.what, work.what, track, span.start, span.end, about))

    def loaded(self, code: LoadedCode) -> None:
        """Nothing: loading is part of compiling."""

    def paused(self, pauses: Sequence[Pause], left_out: int = 0) -> None:
        """Add pauses of threads, helpers among them, for calls of higher priority. `left_out`: those without room."""
        for pause in pauses:
            about = {"priority": pause.priority, "left_out": left_out} if left_out else {"priority": pause.priority}
            self.spans.append(TracedSpan(PAUSE, PAUSE, self._track_of(pause), pause.start, pause.end, about))

    def fill_gaps(self) -> None:
        """Note in each gap how many of its seconds calls of lower priority ran in other threads."""
        calls = [(span.about["priority"], (span.start, span.end)) for span in self.spans if span.kind == CALL]
        below = {
            name: Filled.of(interval for other, interval in calls if LEVELS[other] < level)
            for name, level in LEVELS.items()
        }
        for at, span in enumerate(self.spans):
            if span.kind == GAP:
                seconds = below[span.about["priority"]].seconds(span.start, span.end)
                self.spans[at] = replace(span, about={**span.about, "filled": seconds})

    def _track_of_queue(self, queue: str) -> int:
        """The number of a device's queue, which is shown like a thread."""
        if queue not in self._queues:
            self.threads.setdefault(self._queues.setdefault(queue, next(self._numbers)), queue)
        return self._queues[queue]

    def _track_of(self, pause: Pause) -> int:
        """The number of the thread that paused: the last that had this address by then, or else a helper."""
        known = self._native.setdefault(pause.thread, [])
        numbers = [number for since, number in known if since <= pause.end]
        if numbers:
            return numbers[-1]
        number = next(self._numbers)
        known.insert(0, (0.0, number))
        self.threads[number] = f"helper of {pause.priority} priority"
        return number

    def _thread(self) -> int:
        """The number of this thread; that of no other, also if that ends and its `ident` is used again."""
        number: int | None = getattr(self._own, "number", None)
        if number is None:
            number = self._own.number = next(self._numbers)
            self.threads[number] = threading.current_thread().name
            if has_priorities():
                from .pool import this_thread

                self._native.setdefault(this_thread(), []).append((time.perf_counter(), number))
        return number

    def as_json(self) -> dict[str, Any]:
        """The trace in the trace event format."""
        process = os.getpid()
        names: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in self.threads.items()
        ]
        spans = [
            {
                "ph": "X", "cat": f"vkernels,{span.kind}", "name": span.name, "pid": process,
                "tid": span.thread, "ts": (span.start - self.begun) * MICROSECONDS,
                "dur": (span.end - span.start) * MICROSECONDS, "args": dict(span.about),
            }
            for span in sorted(self.spans, key=lambda each: (each.start, -each.end))
        ]  # fmt: skip
        return {"displayTimeUnit": "ms", "traceEvents": [*names, *spans]}

    def write(self, file: Path) -> None:
        """Write the trace. Raises `FileError`."""
        write_file(file, json.dumps(self.as_json(), separators=(",", ":")) + "\n")


@contextmanager
def tracing() -> Iterator[Trace]:
    """Trace the kernel calls of all threads while the block runs."""
    trace = Trace()
    with logging_pauses() as log:
        try:
            with on_launch(trace.called), timeline.listening(trace):
                yield trace
        finally:
            trace.paused(log.pauses(), log.left_out)
            trace.fill_gaps()


def _place(file: str, line: int) -> str:
    return f"{file}:{line}" if file else ""
