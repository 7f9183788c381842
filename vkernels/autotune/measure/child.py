"""A measuring worker as its bench sees it: requests and answers as JSON, notes of what it is at, and how it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from vkernels.compiler.workers.jobs import CompileFailureReason
from vkernels.compiler.workers.process import WorkerEndedError, WorkerProcess

from .outcomes import FailureReason

SERVICE = f"{__package__}.worker:serve"

_REASONS = {
    CompileFailureReason.TIME_OUT: FailureReason.TIME_OUT,
    CompileFailureReason.OUT_OF_MEMORY: FailureReason.DOES_NOT_FIT,
}


class EndedError(Exception):
    """No answer will come: the worker is gone. `reason`: of its crash, or why it was ended; `at`: its last note."""

    def __init__(self, reason: FailureReason, text: str, at: dict[str, Any]):
        self.reason, self.text, self.at = reason, text, at
        super().__init__(text)


class MeasuringWorker(WorkerProcess):
    """A worker process that runs on some cores. For one thread, which also must end it with `kill`."""

    def __init__(self, cores: Sequence[int], service: str = SERVICE):
        """Raises `SetupError` where it cannot be started."""
        super().__init__(service, (",".join(map(str, cores)),), name="the process")

    def ask(self, request: dict[str, Any], seconds: float, waiting: float, memory_bytes: int) -> dict[str, Any]:
        """Send a request and wait for its answer. `seconds`: of wall time that it may take, without those that it says
        it waits for others (at most `waiting`); `memory_bytes`: resident, of it and its children.

        Raises `EndedError` when there will be none, and the worker is gone; `SetupError` where it cannot serve here.
        """
        at: dict[str, Any] = {"note": "starting", "of": 0}
        deadline, left = time.monotonic() + seconds, seconds
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
                    left, deadline = max(0.0, deadline - now), now + waiting
                elif was_waiting:
                    deadline = now + left
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
        return EndedError(reason, f"no end of {at['note']} in the time that there is", at)
    lines = [line for line in end.printed.text().splitlines() if line.strip()]
    return EndedError(reason, "\n".join([f"{end.message} while {at['note']}", *lines[-12:]])[:2000], at)
