"""What runs on a machine that has joined: an actor for each slice, which has its turns run by a process of their own.

The process, not the actor, executes users' code and measures; where it dies, the actor says so and starts another.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from vkernels.autotune.measure.measuring_worker import EndedError, MeasuringWorker
from vkernels.ir.errors import SetupError

from .records import Answer, Offer, TurnRequest, decoded, encoded

SERVICE = f"{__package__}.turn:serve"
OFFERS, LEAVE, PATH = "VKERNELS_FARM_OFFERS", "VKERNELS_FARM_LEAVE", "VKERNELS_FARM_PATH"
"""Variables of a machine's Ray processes: its offers as JSON, a file that is made when the farm stops, and the folders
that Python imports from on this machine, as JSON."""
OURS = ("RAY_", "VKERNELS_FARM_")
"""Beginnings of the names of variables that turns do not get."""
START_SECONDS, LATE = 120.0, 3.0
"""Seconds that a turn may take beside its length, and the multiple of its length, before its process is ended."""
LOCK_SECONDS = 3600.0
MEMORY_BYTES = 1 << 62


class SliceActor:
    """Runs the turns of one slice, one after another. `cancel` and `leave` may be called meanwhile."""

    def __init__(self, cores: Sequence[int] = ()):
        self._cores = tuple(cores)
        self._process: MeasuringWorker | None = None
        self._bundle: tuple[str, dict[str, str]] | None = None

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
        """The process for a turn: one that executed no other files, nor these for another user."""
        bundle = (request.by.rpartition(", job ")[0], request.files) if request.files else None
        if self._process is not None and (bundle != self._bundle or not self._process.alive):
            self._process.kill()
            self._process = None
        if self._process is None:
            self._process = MeasuringWorker(self._cores, SERVICE, *surroundings(os.environ))
            self._bundle = bundle
        return self._process


def surroundings(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str] | None]:
    """Variables of a turn's process, and the folders it imports from, given the variables of Ray's process.

    Ray's own path has the folder in which the head was started.
    """
    kept = {name: value for name, value in variables.items() if not name.startswith(OURS)}
    return kept, json.loads(variables[PATH]) if PATH in variables else None


def offers_in(text: str) -> list[Offer]:
    """Read a machine's offers. Raises `FileError`."""
    found: list[Offer] = decoded(text, list[Offer], "a machine's offers")
    return found
