"""What runs on a machine that has joined: an actor for each slice, which has its turns run by a process of their own.

The process, not the actor, executes users' code and measures; where it dies, the actor says so and starts another.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from vkernels.autotune.measure.measuring_worker import EndedError, MeasuringWorker
from vkernels.ir.errors import SetupError

from .records import Answer, Offer, TurnRequest, decoded, encoded

SERVICE = f"{__package__}.turn:serve"
OFFERS, LEAVE = "VKERNELS_FARM_OFFERS", "VKERNELS_FARM_LEAVE"
"""Variables of a machine's Ray processes: its offers as JSON, and a file that is made when the farm stops."""
START_SECONDS, LATE = 120.0, 3.0
"""Seconds that a turn may take beside its length, and the multiple of its length, before its process is ended."""
LOCK_SECONDS = 3600.0
MEMORY_BYTES = 1 << 62


class SliceActor:
    """Runs the turns of one slice, one after another. `cancel` and `leave` may be called meanwhile."""

    def __init__(self, cores: Sequence[int] = ()):
        self._cores = tuple(cores)
        self._process: MeasuringWorker | None = None
        self._owner = ""

    def offers(self) -> str:
        """The machine's offers, as JSON."""
        return os.environ.get(OFFERS, "[]")

    def run(self, request: str) -> str:
        """Run a turn; returns its `Answer` as JSON."""
        return encoded(self._run(decoded(request, TurnRequest, "a turn")))

    def cancel(self) -> None:
        """End the present turn, as if its process had crashed."""
        if (process := self._process) is not None:
            process.interrupt()

    def leave(self) -> None:
        """Let the machine leave the farm, which has stopped."""
        if path := os.environ.get(LEAVE):
            Path(path).touch()

    def _run(self, request: TurnRequest) -> Answer:
        began = time.monotonic()
        try:
            process = self._process_for(request)
            seconds = START_SECONDS + LATE * request.seconds
            answer = process.ask(msgspec.to_builtins(request), seconds, LOCK_SECONDS, MEMORY_BYTES)
            found: Answer = decoded(json.dumps(answer), Answer, "an answer")
            return found
        except EndedError as end:
            return Answer(time.monotonic() - began, error=end.text, kind="ended")
        except SetupError as error:
            return Answer(time.monotonic() - began, error=str(error), kind="ended")

    def _process_for(self, request: TurnRequest) -> MeasuringWorker:
        """The process for a turn: one that executed no other user's files."""
        owner = request.by.partition(", job ")[0] if request.files else ""
        if self._process is not None and (owner != self._owner or not self._process.alive):
            self._process.kill()
            self._process = None
        if self._process is None:
            self._process, self._owner = MeasuringWorker(self._cores, SERVICE), owner
        return self._process


def offers_in(text: str) -> list[Offer]:
    """Read a machine's offers. Raises `FileError`."""
    found: list[Offer] = decoded(text, list[Offer], "a machine's offers")
    return found
