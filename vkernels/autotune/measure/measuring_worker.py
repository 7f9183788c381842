"""Worker processes as a bench sees them: requests and answers as JSON, and idle workers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from threading import Lock
from typing import Any

from vkernels.compiler.workers.jobs import CompileFailureReason
from vkernels.compiler.workers.process import WorkerEndedError, WorkerProcess

from .measures import FailureReason

SERVICE = f"{__package__}.worker:serve"
MAX_IDLE_BYTES = 1 << 30
"""Workers that hold more memory are not kept."""

_REASONS = {
    CompileFailureReason.TIME_OUT: FailureReason.TIME_OUT,
    CompileFailureReason.OUT_OF_MEMORY: FailureReason.DOES_NOT_FIT,
}


class EndedError(Exception):
    """The worker has ended without an answer. `reason`: of its crash or termination; `at`: its last note."""

    def __init__(self, reason: FailureReason, text: str, at: dict[str, Any]):
        self.reason, self.text, self.at = reason, text, at
        super().__init__(text)


class MeasuringWorker(WorkerProcess):
    """A worker process that runs on some cores. For one thread, which must end it with `kill`."""

    def __init__(
        self, cores: Sequence[int], service: str = SERVICE, environment: Mapping[str, str] | None = None,
        path: Sequence[str] | None = None,
    ):  # fmt: skip
        """Start it. `environment`, `path`: variables, and folders to import from; by default those of this process.

        Raises `SetupError` if it cannot be started.
        """
        super().__init__(service, (",".join(map(str, cores)),), name="the process", environment=environment, path=path)

    def ask(
        self, request: dict[str, Any], seconds: float, waiting: float, memory_bytes: int, until: float = inf
    ) -> dict[str, Any]:  # fmt: skip
        """Send a request and wait for its answer.

        `seconds`: limit of wall time, without the time that the worker reports as waiting for others (limited by
        `waiting`); `memory_bytes`: limit of resident memory, including its children; `until`: limit of all this, on the
        monotonic clock.

        Raises `EndedError` if the worker ends without an answer, and `SetupError` if it cannot run here.
        """
        at: dict[str, Any] = {"note": "starting", "of": 0}
        deadline, left = min(until, time.monotonic() + seconds), seconds
        try:
            self.receive_ready(deadline, memory_bytes)
            self.send(json.dumps(request).encode(), deadline, memory_bytes)
            while True:
                answer = self._parsed(self.receive(deadline, memory_bytes), at)
                if "note" not in answer:
                    return answer
                now, was_waiting = time.monotonic(), at["note"] == "waiting"
                at = answer
                if at["note"] == "waiting":
                    left, deadline = max(0.0, deadline - now), min(until, now + waiting)
                elif was_waiting:
                    deadline = min(until, now + left)
        except WorkerEndedError as end:
            raise _ended(end, at) from None

    def _parsed(self, message: bytes, at: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = json.loads(message)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise EndedError(FailureReason.CRASH, "the worker answered nonsense", at)
        return answer


def _ended(end: WorkerEndedError, at: dict[str, Any]) -> EndedError:
    reason = _REASONS.get(end.reason, FailureReason.CRASH)
    if reason == FailureReason.TIME_OUT:
        return EndedError(reason, f"{at['note']} did not end within its time limit", at)
    lines = [line for line in end.printed.text().splitlines() if line.strip()]
    return EndedError(reason, "\n".join([f"{end.message} while {at['note']}", *lines[-12:]])[:2000], at)


class Children(AbstractContextManager["Children"]):
    """Idle workers by their cores, which save the time of starting new ones. For any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[tuple[tuple[int, ...], MeasuringWorker]] = []
        self._closed = False

    def take(self, cores: Sequence[int]) -> MeasuringWorker | None:
        """A worker that runs on these cores; None if there is none."""
        with self._lock:
            found = next((each for each in self._idle if each[0] == tuple(cores)), None)
            if found is None:
                return None
            self._idle.remove(found)
        return found[1]

    def give(self, cores: Sequence[int], child: MeasuringWorker) -> None:
        """Keep an idle worker, unless it has grown too large."""
        keep = child.alive and child.resident_bytes() <= MAX_IDLE_BYTES
        with self._lock:
            if keep and not self._closed:
                self._idle.append((tuple(cores), child))
                return
        child.kill()

    def close(self) -> None:
        """End all workers, also those given later."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, child in idle:
            child.kill()

    def __exit__(self, *error: object) -> None:
        self.close()
