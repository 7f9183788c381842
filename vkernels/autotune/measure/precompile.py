"""Compile candidates on several cores at once, before they are measured one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.compiler.request import CompileTarget
from vkernels.inspect.task import Task, task_from_json
from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.limits import limits_from
from vkernels.ir.system_resources import ThreadPool
from vkernels.runtime.present_target import present_target
from vkernels.runtime.threads import set_threads

from ..arguments import scalars
from .lock import lock_names, locked_one
from .measures import Candidate, Failed, FailureReason, WorkerLimits, candidate_to_json, outcome_from_json
from .measuring_worker import Children, EndedError, MeasuringWorker
from .subject import classified, code_of

MAX_AT_ONCE, MAX_AT_ONCE_FOR_A_GPU = 4, 8
"""Maximal number of candidates at once: the more a search proposes together, the less it knows of each. Compiling for a
GPU takes seconds, of which measuring takes hundredths."""


class PrecompileWorkers:
    """Processes that compile, one on each of some cores. Those that measure find the code on disk. For one thread.

    Processes are started when they are needed, and again if a candidate has ended one.
    """

    def __init__(
        self,
        task: Task,
        cores: Sequence[int],
        threads: int,
        bounds: WorkerLimits,
        locks: Path | None,
        gpu: CompileTarget | None = None,
        until: float = inf,
        idle: Children | None = None,
    ) -> None:
        """`threads`: of the calls on a CPU that the code is for; `locks`: the folder of the cores' locks; `gpu`: that
        calls are on, so that the processes need not look for it; `until`: when compiling ends, on the monotonic clock;
        `idle`: processes that are taken before new ones are started, and get these back."""
        self._cores, self._bounds, self._until, self._idle = tuple(cores), bounds, until, idle
        self._start = {
            "do": "start compiling", "task": task.to_request(), "threads": threads, "patience": bounds.lock_seconds,
            "locks": None if locks is None else str(locks), "gpu": None if gpu is None else asdict(gpu),
        }  # fmt: skip
        self._children: list[MeasuringWorker | None] = [None] * len(self._cores)
        self._locks = [Lock() for _ in self._cores]
        """One thread at a time asks a process."""
        self._closed = False
        self._pool = ThreadPool(len(self._cores))

    def begin(self) -> None:
        """Start all processes, and do not wait for them."""
        for number in range(len(self._cores)):
            self._pool.submit(self._start_one, number)

    def compile(self, candidates: Sequence[Candidate], seconds: float) -> list[Failed | None]:
        """Compile candidates and return their failures. `seconds`: time limit of one."""
        count = len(self._cores)

        def share(number: int) -> list[Failed | None]:
            with self._locks[number]:
                return [self._compiled(number, each, seconds) for each in candidates[number::count]]

        found: list[Failed | None] = [None] * len(candidates)
        for number, failures in enumerate(self._pool.map(share, range(count))):
            found[number::count] = failures
        return found

    def close(self, keep: bool = True) -> None:
        """End all processes, or leave those that are idle to others. `keep`: nothing is being compiled."""
        self._closed = True
        idle = self._idle if keep else None
        for child in filter(None, self._children if idle is None else ()):
            child.interrupt()
        self._pool.shutdown()
        for core, each in zip(self._cores, self._children, strict=True):
            if each is not None and idle is not None:
                idle.give((core,), each)
            elif each is not None:
                each.kill()

    def _compiled(self, number: int, candidate: Candidate, seconds: float) -> Failed | None:
        """The failure of a candidate; None too if no process could compile it, which the measurement then reports."""
        child = self._started(number)
        if child is None:
            return None
        bounds, request = self._bounds, {"do": "compile", "candidate": candidate_to_json(candidate)}
        try:
            answer = child.ask(request, seconds, bounds.lock_seconds + 1, bounds.memory_bytes, self._until)
            failed = None if answer.get("failed") is None else outcome_from_json(answer["failed"])
        except EndedError as end:
            return None if self._closed else Failed(end.reason, end.text)
        except FileError:
            return None
        return failed if isinstance(failed, Failed) else None

    def _start_one(self, number: int) -> None:
        with self._locks[number]:
            self._started(number)

    def _started(self, number: int) -> MeasuringWorker | None:
        child, bounds = self._children[number], self._bounds
        if self._closed:
            return None
        if child is not None and child.alive:
            return child
        cores = self._cores[number : number + 1]
        with suppress(EndedError, SetupError):
            kept = None if self._idle is None else self._idle.take(cores)
            child = self._children[number] = kept or MeasuringWorker(cores)
            limits = bounds.start_seconds, bounds.lock_seconds, bounds.memory_bytes, self._until
            answer = child.ask(self._start, *limits)
            if "ready" in answer:
                return child
            child.kill()
        return None


@dataclass(frozen=True)
class PrecompileTask:
    """In a worker: compiles candidates of a task for a device of this machine and leaves the code on disk.

    `numbers`: the scalars of its calls; `tell`: sends notes of what comes next; `target`: of the calls.
    """

    task: Task
    numbers: Mapping[str, bool | int | float]
    cores: tuple[int, ...]
    locks: Path | None
    patience: float
    tell: Callable[[str], None]
    target: CompileTarget

    @staticmethod
    def start(
        request: dict[str, Any], cores: Sequence[int], answer: Callable[[dict[str, Any]], None]
    ) -> PrecompileTask:
        """For calls on the requested GPU, or number of threads. Raises what is wrong with the task."""
        set_threads(request["threads"])
        gpu = request["gpu"]
        target = present_target(CPU) if gpu is None else CompileTarget(**{**gpu, "limits": limits_from(gpu["limits"])})
        folder = None if request["locks"] is None else Path(request["locks"])
        task = task_from_json(request["task"])
        return PrecompileTask(
            task, scalars(task), tuple(cores), folder, request["patience"],
            lambda what: answer({"note": what, "of": 0}), target,
        )  # fmt: skip

    def compile(self, candidate: Candidate) -> Failed | None:
        """Compile a candidate; return its failure, if any."""
        names = lock_names(CPU, self.cores)
        with locked_one(names, self.patience, self.locks, lambda: self.tell("waiting")):
            self.tell("compiling")
            with classified(FailureReason.COMPILE_ERROR) as report:
                code_of(self.task, candidate, self.numbers, self.target)
                return None
        return report.failure
