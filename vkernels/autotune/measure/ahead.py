"""Compiles candidates on all cores at once, before they are measured one after another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vkernels.inspect.task import Task
from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.system_resources import ThreadPool

from .child import EndedError, MeasuringWorker
from .effort import WorkerLimits
from .outcomes import Candidate, Failed, candidate_to_json, outcome_from_json

MAX_AT_ONCE = 4
"""Candidates at once, at most: the more a search asks for together, the less it knows of each."""


class PrecompileWorkers:
    """Processes that compile, one on each of some cores, started when they are needed, and anew after a candidate has
    ended one. Who measures finds the code on disk. For one thread."""

    def __init__(
        self, task: Task, cores: Sequence[int], threads: int, bounds: WorkerLimits, locks: Path | None
    ) -> None:
        """`threads`: of the calls that code is made for; `locks`: the folder of the cores' locks, as `Options` has."""
        self._cores, self._bounds = tuple(cores), bounds
        self._start = {
            "do": "start compiling", "task": task.to_request(), "threads": threads, "patience": bounds.lock_seconds,
            "locks": None if locks is None else str(locks),
        }  # fmt: skip
        self._children: list[MeasuringWorker | None] = [None] * len(self._cores)
        self._closed = False
        self._pool = ThreadPool(len(self._cores))

    def compile(self, candidates: Sequence[Candidate], seconds: float) -> list[Failed | None]:
        """What is wrong with each, as far as that shows. `seconds`: that one may take."""

        count = len(self._cores)

        def share(number: int) -> list[Failed | None]:
            return [self._compiled(number, each, seconds) for each in candidates[number::count]]

        found: list[Failed | None] = [None] * len(candidates)
        for number, failures in enumerate(self._pool.map(share, range(count))):
            found[number::count] = failures
        return found

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for child in self._children:
            if child is not None:
                child.interrupt()
        self._pool.shutdown()
        for child in self._children:
            if child is not None:
                child.kill()

    def _compiled(self, number: int, candidate: Candidate, seconds: float) -> Failed | None:
        """What is wrong with a candidate; None too where nothing was compiled: who measures it says why."""
        child = self._started(number)
        if child is None:
            return None
        bounds, request = self._bounds, {"do": "compile", "candidate": candidate_to_json(candidate)}
        try:
            answer = child.ask(request, seconds, bounds.lock_seconds + 1, bounds.memory_bytes)
            failed = None if answer.get("failed") is None else outcome_from_json(answer["failed"])
        except EndedError as end:
            return None if self._closed else Failed(end.reason, end.text)
        except FileError:
            return None
        return failed if isinstance(failed, Failed) else None

    def _started(self, number: int) -> MeasuringWorker | None:
        """The process on a core; None where none comes up."""
        child, bounds = self._children[number], self._bounds
        if self._closed:
            return None
        if child is not None and child.alive:
            return child
        with suppress(EndedError, SetupError):
            child = self._children[number] = MeasuringWorker(self._cores[number : number + 1])
            answer = child.ask(self._start, bounds.start_seconds, bounds.lock_seconds, bounds.memory_bytes)
            if "ready" in answer:
                return child
            child.kill()
        return None
