"""The measuring worker: make arguments and a reference for a task, then compile, check and time plans.

Requests and answers are JSON: a request `start` with the task, then any number of `measure`; or `start compiling` with
a task, then any number of `compile`. An answer has `ready`, `outcomes`, `failed` or `error`. Messages with a `note`
precede it and announce the next step, so that the bench knows what a worker was doing when it ended or hung.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.compiler.workers.frames import Handler, Send
from vkernels.inspect.task import task_from_json
from vkernels.ir.errors import Error, OutOfMemoryError, SetupError
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.runtime.threads import set_threads

from ..input_file import read_inputs
from .clocks import CpuClock, CudaClock, LoadWatch
from .lock import lock_names, locked, locked_one
from .measures import (
    Candidate,
    Effort,
    Failed,
    FailureReason,
    Measurement,
    Outcome,
    Setting,
    candidate_from_json,
    outcome_to_json,
)
from .precompile import PrecompileTask
from .subject import MeasuredTask, classified
from .timing import CallClock, DriftCorrection, TimedCall, Timer, corrected_for_drift

Answer = dict[str, Any]


def serve(send: Send, cores: str) -> Handler:
    """Serve requests on some cores of the CPU, `0,1`; see `vkernels.compiler.workers.worker_main`."""
    numbers = [int(core) for core in cores.split(",")]
    run_on(numbers)
    service = MeasuringService(numbers, lambda message: send(_to_bytes(message)))
    return lambda request: _to_bytes(service.answer(json.loads(request)))


@dataclass
class MeasuringService:
    """Answers requests for one task after another. `tell`: sends notes before an answer."""

    cores: Sequence[int]
    tell: Callable[[Answer], None]
    measuring: WorkerTask | None = None
    compiling: PrecompileTask | None = None

    def answer(self, request: dict[str, Any]) -> Answer:
        """The answer; for an error its message as `error` and its class as `kind`."""
        try:
            return self._answer(request)
        except Error as error:
            return {"error": str(error), "kind": type(error).__name__}
        except Exception as error:  # of the author's code that makes arguments
            return {"error": f"{request['do']}: {type(error).__name__}: {error}", "kind": "SetupError"}

    def _answer(self, request: dict[str, Any]) -> Answer:
        if request["do"] == "start":
            self.measuring = None  # frees its memory first
            self.measuring = WorkerTask.start(request, self.cores, self.tell)
            return {"ready": self.measuring.ready()}
        if request["do"] == "start compiling":
            self.compiling = PrecompileTask.start(request, self.cores, self.tell)
            return {"ready": {}}
        if request["do"] == "compile" and self.compiling is not None:
            failure = self.compiling.compile(candidate_from_json(request["candidate"]))
            return {"failed": None if failure is None else outcome_to_json(failure)}
        if request["do"] == "measure" and (work := self.measuring) is not None:
            work.spent = Spent()
            outcomes = [outcome_to_json(outcome) for outcome in work.measure(request)]
            return {"outcomes": outcomes, "spent": work.spent.so_far(), "usual": work.pace.usual}
        raise SetupError(f"{request['do']}: nothing was started that does this")


@dataclass
class Spent:
    """Seconds by activity: `compiling`, `waiting` for others, `running` for comparison, `timing`."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: tuple[str, float] | None = None

    def on(self, what: str) -> None:
        """Begin an activity."""
        now = time.perf_counter()
        if self.since is not None:
            before, begun = self.since
            self.seconds[before] = self.seconds.get(before, 0.0) + now - begun
        self.since = (what, now)

    def so_far(self) -> dict[str, float]:
        """The seconds until now."""
        self.on("")
        return self.seconds


@dataclass
class WorkerTask:
    """One task on one device.

    `locks`: the folder of the locks, or None for the user's own; `usual`: usual seconds of the probe, if known;
    `right`: candidates that gave right results on these arguments.
    """

    subject: MeasuredTask
    effort: Effort
    cores: tuple[int, ...]
    locks: Path | None
    patience: float
    tell: Callable[[str, int], None]
    usual: float | None
    right: set[Hashable] = field(default_factory=set)
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        self.timer = Timer(self._clock(warm=False), self.effort, lambda: LoadWatch(self.cores).others)
        self.warm_timer = Timer(self._clock(warm=True), self.effort, lambda: LoadWatch(self.cores).others)
        subject = self.subject
        self.pace = DriftCorrection(
            lambda: self.timer.probe(subject.compiled(subject.usual), subject.restore), self.usual
        )

    @staticmethod
    def start(request: dict[str, Any], cores: Sequence[int], answer: Callable[[dict[str, Any]], None]) -> WorkerTask:
        """Make arguments and a reference. Raises what is wrong with the task."""
        task, effort, device = task_from_json(request["task"]), Effort(**request["effort"]), request["device"]
        folder = None if request["locks"] is None else Path(request["locks"])

        def note(what: str, of: int = 0) -> None:
            answer({"note": what, "of": of})

        if device != CPU:
            try:
                import torch
            except ImportError as error:
                raise SetupError(f"measuring on {device} needs torch: {error}") from error
            if not torch.cuda.is_available():
                raise SetupError(f"there is no {device} here: torch sees no GPU")
        names, waiting = lock_names(device, cores), lambda: note("waiting")
        try:
            with locked_one(names, request["patience"], folder, waiting), _on_one_core(device, len(cores)):
                note("starting")
                known = [plan_from_json(data) for data in request["plans"]]
                own = None if request.get("inputs") is None else read_inputs(Path(request["inputs"]))
                subject = MeasuredTask(task, request["seed"], device, effort, known, own)
        except MemoryError as error:
            raise OutOfMemoryError(f"{task}: no memory for its arguments") from error
        return WorkerTask(subject, effort, tuple(cores), folder, request["patience"], note, request["usual"])

    def ready(self) -> dict[str, Any]:
        """The answer to `start`: bytes of the arguments, number of copies, and the reference's plans."""
        subject = self.subject
        plans = [plan_to_json(plan) for plan in subject.plans]
        return {"bytes": subject.bytes, "sets": len(subject.sets), "plans": plans}

    def measure(self, request: dict[str, Any]) -> list[Outcome]:
        """Measure candidates: one by itself, several in a comparison."""
        candidates = [candidate_from_json(data) for data in request["candidates"]]
        hold = tuple(request.get("hold", self.cores))
        if self.subject.device == CPU and len(hold) == 1:
            with self.alone(hold):  # compiling takes the same core
                return self._measured(candidates, self._all_compiled(candidates), request)
        with self.on_one_core():
            compiled = self._all_compiled(candidates)
        with self.alone(hold) if any(not isinstance(each, Failed) for each in compiled) else nullcontext():
            return self._measured(candidates, compiled, request)

    def _all_compiled(self, candidates: Sequence[Candidate]) -> list[list[TimedCall] | Failed]:
        return [self._compiled(number, candidate) for number, candidate in enumerate(candidates)]

    def _measured(
        self, candidates: Sequence[Candidate], compiled: Sequence[list[TimedCall] | Failed], request: dict[str, Any]
    ) -> list[Outcome]:  # fmt: skip
        if all(isinstance(each, Failed) for each in compiled):
            return [each for each in compiled if isinstance(each, Failed)]
        checked = [
            each if isinstance(each, Failed) or candidate.key in self.right else self._checked(number, each)
            for number, (candidate, each) in enumerate(zip(candidates, compiled, strict=True))
        ]
        outcomes = self._timed(candidates, checked, request)
        right = [isinstance(each, Measurement) for each in outcomes]
        self.right.update(candidate.key for candidate, each in zip(candidates, right, strict=True) if each)
        self.right.difference_update(c.key for c, each in zip(candidates, right, strict=True) if not each)
        return outcomes

    def _timed(
        self, candidates: Sequence[Candidate], checked: Sequence[list[TimedCall] | Failed], request: dict[str, Any]
    ) -> list[Outcome]:  # fmt: skip
        running = {number: calls for number, calls in enumerate(checked) if not isinstance(calls, Failed)}
        outcomes: dict[int, Outcome] = {n: each for n, each in enumerate(checked) if isinstance(each, Failed)}
        restore, setting = self.subject.restore, Setting(request.get("setting", Setting.COLD))
        warm = setting.has_warm_arguments
        timer = self.warm_timer if warm else self.timer
        timed = {number: self.subject.calls_in(setting, calls) for number, calls in running.items()}
        self.note("timing")
        if request.get("paired_comparison"):
            measured = timer.paired_comparison([*timed.values()], [restore] * len(timed), warm) if timed else []
            outcomes |= dict(zip(running, measured, strict=True))
        else:
            best = request.get("best") or float("inf")
            for number, calls in timed.items():
                times = self.pace.now()  # scaled to the usual speed, times taken at different moments are comparable
                measured_once = timer.time(calls[:1] if warm else calls, best * times, restore)
                outcomes[number] = corrected_for_drift(measured_once, times)
        for number in running:
            outcomes[number] = self._with_memory(candidates[number], outcomes[number])
        for number, calls in running.items():  # an intermittent fault may have spared the first check
            if isinstance(again := self._checked(number, calls, -1), Failed):
                outcomes[number] = again
        return [outcomes[number] for number in range(len(checked))]

    def _with_memory(self, candidate: Candidate, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Failed) or (own := self.subject.own_bytes(candidate)) is None:
            return outcome
        return replace(outcome, memory=self.subject.bytes + own)

    def _compiled(self, number: int, candidate: Candidate) -> list[TimedCall] | Failed:
        self.note("compiling", number)
        with classified(FailureReason.COMPILE_ERROR) as report:
            return self.subject.compiled(candidate)
        return report.failure

    def _checked(self, number: int, calls: list[TimedCall], copy: int = 0) -> list[TimedCall] | Failed:
        self.note("running", number)
        with classified(FailureReason.REFUSED) as report:
            self.subject.check(calls[copy], copy % len(calls))
            return calls
        return report.failure

    def note(self, what: str, of: int = 0) -> None:
        """Announce the next step to the bench, and count its time."""
        self.spent.on(what)
        self.tell(what, of)

    @contextmanager
    def alone(self, cores: Sequence[int]) -> Iterator[None]:
        """Hold the locks of some cores, or of the GPU."""
        names = lock_names(self.subject.device, cores)
        with locked(names, self.patience, self.locks, lambda: self.note("waiting")):
            self.note("working")
            yield

    @contextmanager
    def on_one_core(self) -> Iterator[None]:
        """Hold the lock of one of the CPU's cores, so that others may use the rest; none of a GPU."""
        if self.subject.device != CPU:
            yield
            return
        names = lock_names(CPU, self.cores)
        with locked_one(names, self.patience, self.locks, lambda: self.note("waiting")):
            self.note("working")
            yield

    def _clock(self, warm: bool) -> CallClock:
        if self.subject.device == CPU:
            return CpuClock(len(self.cores))
        import torch

        return CudaClock(self.subject.device, torch, warm)


def run_on(cores: Sequence[int]) -> None:
    """Restrict all threads of this process, and calls of kernels, to these cores. Raises `SetupError`."""
    wanted = set(cores)
    try:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), wanted)
        os.sched_setaffinity(0, wanted)
    except (OSError, AttributeError) as error:
        raise SetupError(f"cannot run on the cores {sorted(wanted)}: {error}") from error
    set_threads(len(wanted))


@contextmanager
def _on_one_core(device: str, cores: int) -> Iterator[None]:
    """Run calls on one thread, so that the reference needs only one core, and its plans suit slices of any size."""
    if device != CPU:
        yield
        return
    set_threads(1)
    try:
        yield
    finally:
        set_threads(cores)


def _to_bytes(message: Answer) -> bytes:
    return json.dumps(message, allow_nan=False).encode()
