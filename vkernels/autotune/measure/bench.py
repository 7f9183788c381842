"""Measure candidates of one task on one slice, in a process that they may hang or crash."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task
from vkernels.ir import errors
from vkernels.ir.errors import Error, FileError, SetupError
from vkernels.runtime.present_target import present_target

from ..slice_names import CpuAffinity, place_of, usable
from .measures import (
    CANDIDATE_SECONDS,
    BySetting,
    Candidate,
    Effort,
    Failed,
    FailureReason,
    Measurement,
    Measures,
    Outcome,
    OutOfTimeError,
    Setting,
    WorkerLimits,
    by_setting,
    candidate_to_json,
    outcome_from_json,
)
from .measuring_worker import Children, EndedError, MeasuringWorker
from .precompile import MAX_AT_ONCE, MAX_AT_ONCE_FOR_A_GPU, PrecompileWorkers

MAX_STARTS = 3
PRECOMPILE_AFTER_SECONDS = 2.0
"""Seconds of compiling before a bench starts processes that compile ahead: about the cost of starting them."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of a bench.

    `cores`: cores to run on, if the slice leaves a choice. `seed`: of the arguments. `locks`: the folder of the locks
    that measuring processes share, by default the user's own. `inputs`: a file of the user's own arguments, see
    `input_file`; by default they are made. `until`: when all measuring ends, on the monotonic clock; what runs then is
    cut off, and raises `OutOfTimeError`.
    """

    effort: Effort = field(default_factory=Effort)
    bounds: WorkerLimits = field(default_factory=WorkerLimits)
    cores: tuple[int, ...] | None = None
    seed: int = 0
    locks: Path | None = None
    inputs: Path | None = None
    until: float = inf

    @property
    def is_over(self) -> bool:
        """Whether all measuring has ended."""
        return monotonic() >= self.until


class Bench(Measures, AbstractContextManager["Bench"]):
    """Measures candidates one after another. For one thread.

        with Bench(task, "cpu:cores=1") as bench:
            outcome = bench.measure(Candidate(plan))

    The worker process is started when it is needed, and again after a candidate has hung, crashed or used too much
    memory, which is that candidate's outcome. `restarts`: how often that happened. `best`: the least seconds so far in
    the last `setting`; much slower candidates are not sampled for long. `spent`: seconds of the workers by activity:
    `compiling`, `waiting` for others that measure on the same cores, `running` for comparison, `timing`. `plans`: of
    the reference, as JSON; plans of another bench of this task can be reused.
    """

    def __init__(
        self, task: Task, slice: str = "cpu", options: BenchOptions = BenchOptions(), children: Children | None = None
    ):
        """`children`: idle workers of earlier tasks, which get this one's worker when it is closed.

        Raises `OptionError` for an unknown slice, and `SetupError` for an absent one.
        """
        self.task, self.slice, self.options = task, slice, options
        self._children = children
        self.place: CpuAffinity = place_of(slice, options.cores)
        self.restarts = 0
        self.best: float | None = None
        self.setting = Setting.COLD
        self.spent: dict[str, float] = {}
        self._child: MeasuringWorker | None = None
        self._stale = False
        self._memory = 0
        self.plans: list[Any] = []
        self._usual: float | None = None
        self._ahead: PrecompileWorkers | None = None

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker; measuring starts another."""
        self._end_ahead()
        child, self._child = self._child, None
        if child is not None and self._children is not None:
            self._children.give(self.place.cores, child)
        elif child is not None:
            child.kill()

    @property
    def at_once(self) -> int:
        """The number of cores, up to a limit: for a GPU from the beginning, for a CPU after some compiling."""
        if self.place.device != CPU:
            return min(len(usable()), MAX_AT_ONCE_FOR_A_GPU)
        return min(len(usable()), MAX_AT_ONCE) if self.spent.get("compiling", 0.0) > PRECOMPILE_AFTER_SECONDS else 1

    def prepare(self, candidates: Sequence[Candidate], timeout: float = CANDIDATE_SECONDS) -> list[Failed | None]:
        """Compile candidates in parallel, one per core."""
        if self.at_once == 1:
            return super().prepare(candidates, timeout)
        try:
            failed = self._compilers().compile(candidates, timeout)
            self._check_time("while plans were compiled")
            return failed
        except BaseException:  # after an interrupt they may still be compiling
            self._end_ahead(keep=False)
            raise

    def begin_preparing(self) -> None:
        """Start the processes that compile in parallel, where there will be any; they come up in the background."""
        if self.place.device != CPU and self.at_once > 1 and not self.options.is_over:
            self._compilers().begin()

    def _compilers(self) -> PrecompileWorkers:
        if self._ahead is None:
            options, device = self.options, self.place.device
            self._ahead = PrecompileWorkers(
                self.task, usable()[: self.at_once], len(self.place.cores), options.bounds, options.locks,
                None if device == CPU else present_target(device), options.until, self._children,
            )  # fmt: skip
        return self._ahead

    def renew_inputs(self) -> None:
        self.options, self._stale = replace(self.options, seed=self.options.seed + 1), True

    def interrupt(self) -> None:
        """From another thread: end the present measurement, as if it had crashed."""
        if (child := self._child) is not None:
            child.interrupt()

    def start(self) -> None:
        """Start a worker that makes the arguments and the reference, unless there is one; `measure` does this too.

        Raises what is wrong with the task, `SetupError` if no worker can be started, and `OutOfTimeError`.
        """
        self._check_time("before anything was measured" if self._child is None else "before the next plan")
        idle = self._child if self._child is not None and self._child.alive else None
        if idle is not None and not self._stale:
            return
        self._child, self._stale = None, False
        options, bounds = self.options, self.options.bounds
        request = {
            "do": "start", "task": self.task.to_request(), "seed": options.seed, "device": self.place.device,
            "effort": asdict(options.effort), "patience": bounds.lock_seconds,
            "locks": None if options.locks is None else str(options.locks), "plans": self.plans,
            "usual": self._usual, "inputs": None if options.inputs is None else str(options.inputs),
        }  # fmt: skip
        for attempt in range(MAX_STARTS):
            kept = None if self._children is None or idle is not None else self._children.take(self.place.cores)
            child = idle or kept or MeasuringWorker(self.place.cores)
            idle = None
            try:
                answer = child.ask(request, bounds.start_seconds, bounds.lock_seconds, 1 << 62, options.until)
                break
            except EndedError as end:
                self._check_time("while its arguments and right results for comparison were made")
                if attempt == MAX_STARTS - 1 or end.reason == FailureReason.TIME_OUT:
                    raise SetupError(f"{self.task}: a worker does not come up: {end.text}") from end
            except BaseException:
                child.kill()
                raise
        if "error" in answer:
            child.kill()
            raise _error(answer)
        self.plans = answer["ready"]["plans"]  # for the next worker
        self._child, self._memory = child, child.resident_bytes() + bounds.memory_bytes

    def measure(
        self,
        candidate: Candidate,
        timeout: float = CANDIDATE_SECONDS,
        best: float | None = None,
        *,
        setting: Setting = Setting.COLD,
    ) -> Outcome:
        """Compile, check and time a candidate.

        `timeout`: seconds for all of this, without waiting for cores; `best`: replaces the bench's own.
        """
        if setting != self.setting:
            self.best, self.setting = None, setting
        best = self.best if best is None else best
        outcome = self._ask([candidate], {"best": best, "setting": setting}, timeout)[0]
        if outcome is None:
            return Failed(FailureReason.CRASH, "the worker answered nothing")
        if isinstance(outcome, Measurement) and (self.best is None or outcome.seconds < self.best):
            self.best = outcome.seconds
        return outcome

    def paired_comparison(
        self,
        candidates: Sequence[Candidate],
        timeout: float | None = None,
        hold: Sequence[int] | None = None,
        *,
        setting: Setting = Setting.COLD,
    ) -> list[Outcome]:
        """Time finalists in turns, so that changes over time affect all of them; each as carefully as `measure`.

        `hold`: further cores on which nobody may measure meanwhile. If a finalist hangs or crashes, the comparison of
        the others restarts; if it is unknown which one, each is measured by itself.
        """
        outcomes: list[Outcome | None] = [None] * len(candidates)
        while left := [number for number, outcome in enumerate(outcomes) if outcome is None]:
            seconds = timeout or CANDIDATE_SECONDS + self.options.bounds.comparison_seconds * len(left)
            holding = sorted({*self.place.cores, *(hold or ())})
            more = {"paired_comparison": True, "hold": holding, "setting": setting}
            found = self._ask([candidates[number] for number in left], more, seconds)
            if not any(found):
                found = [self.measure(candidates[number], setting=setting) for number in left]
            for number, outcome in zip(left, found, strict=True):
                outcomes[number] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def compare_in(
        self, settings: Sequence[Setting], candidates: Sequence[Candidate], hold: Sequence[int] | None = None
    ) -> list[BySetting]:
        """As `paired_comparison`, in each of several settings."""
        return by_setting(lambda setting: self.paired_comparison(candidates, hold=hold, setting=setting), settings)

    def _ask(self, candidates: Sequence[Candidate], more: dict[str, Any], seconds: float) -> list[Outcome | None]:
        self.start()
        child = self._child
        assert child is not None, "it was just started"
        request = {"do": "measure", "candidates": [candidate_to_json(each) for each in candidates], **more}
        try:
            waiting = self.options.bounds.lock_seconds + 1
            answer = child.ask(request, seconds, waiting, self._memory, self.options.until)
            if "error" in answer:
                return [Failed(FailureReason.REFUSED, str(answer["error"]))] * len(candidates)
            outcomes: list[Outcome | None] = [outcome_from_json(data) for data in answer["outcomes"]]
            if len(outcomes) != len(candidates):
                raise FileError(f"{len(outcomes)} outcomes of {len(candidates)} candidates")
            self._usual = answer.get("usual")
            for what, took in answer.get("spent", {}).items():
                self.spent[what] = self.spent.get(what, 0.0) + float(took)
            return outcomes
        except EndedError as end:
            self._child, self.restarts = None, self.restarts + 1
            self._check_time("while a plan was measured")
            culprit = int(end.at.get("of", 0)) if end.at["note"] in ("compiling", "running") else -1
            blamed = 0 if len(candidates) == 1 else culprit
            return [Failed(end.reason, end.text) if number == blamed else None for number in range(len(candidates))]
        except (FileError, KeyError, TypeError) as error:
            self._discard()
            return [Failed(FailureReason.CRASH, f"the worker answered nonsense: {error}")] * len(candidates)
        except BaseException:
            self._discard()
            raise

    def _check_time(self, doing: str) -> None:
        if self.options.is_over:
            raise OutOfTimeError(self.task, doing)

    def _end_ahead(self, keep: bool = True) -> None:
        if self._ahead is not None:
            self._ahead.close(keep)
            self._ahead = None

    def _discard(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


def _error(answer: dict[str, Any]) -> Error:
    found = getattr(errors, str(answer.get("kind")), None)
    kind = found if isinstance(found, type) and issubclass(found, Error) else SetupError
    return kind(str(answer["error"]))
