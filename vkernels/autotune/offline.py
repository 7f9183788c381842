"""Tune for absent devices: compile plans if possible, and rank them by static bounds, else by the model of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from vkernels.compiler.arguments import CPU
from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.resources import read_taken
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.default_session import default_session
from vkernels.compiler.judge_by_static_bound import bound_of_launches, loops_of_code
from vkernels.compiler.request import CompileTarget
from vkernels.inspect.task import Task
from vkernels.ir.cost_model.model_time import model_time
from vkernels.ir.errors import Error, PlanError, SetupError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.resources import BinaryResources, OutOfResources, RefusedCodeError, spill
from vkernels.ir.planning.space import PlanSearchSpace as Choices
from vkernels.ir.planning.unseen_time import unseen_time
from vkernels.ir.unseen_time import UnseenTime

from .arguments import scalars
from .drive import Stop
from .history import History
from .measure import Candidate, Failed, FailureReason, Measurement, Measures, Outcome, Setting
from .measure.subject import code_of
from .plan_space import PlanSpace, read
from .progress import Listener, Progress
from .result import MODELLED, STATIC_BOUND, TuningResult
from .slice_names import slice_limits, slice_target
from .tune import TuningRun

if TYPE_CHECKING:
    from vkernels.compiler.compile_gpu import CompiledGpu
    from vkernels.compiler.protocols import Constant
    from vkernels.ir.cost_model.plan_batch import ModeledTimes

    from .database.database import Database

MAX_RANKED = 2000
DEFAULT_STOP = Stop(evaluations=32)
"""Default number of compiled plans."""


def tune_offline(
    task: Task,
    slice: str,
    stop: Stop = DEFAULT_STOP,
    database: Database | None = None,
    on_progress: Listener = lambda progress: None,
    space: PlanSpace | None = None,
) -> TuningResult:
    """Tune a task for a slice of any known device, or of this machine, without measuring.

    Plans are compiled in the order of their modelled times, up to the limits of `stop`. For a GPU, their times are the
    static bounds of their binaries, or what the model says of waiting for memory if that is longer. Where no binary
    can be read they are modelled, with the registers and shared memory that it takes. Times and the result are marked
    `modelled`; measurements on the device replace them.

    Raises what is wrong with the task, and `OptionError` for an unknown slice.
    """
    began = monotonic()
    on_progress(Progress(task, slice, "reading", seconds_left=stop.seconds))
    space = space_for(task, slice) if space is None else space
    target = slice_target(slice)
    history = History(database, task, space.limits, target, slice)
    bench = ModelledBench(space, _architecture(target.architecture, space.limits))
    best_first = sorted(space.space, key=space.seconds)[:MAX_RANKED]
    space = replace(space, seeds=tuple(dict.fromkeys([space.default, *best_first])))
    run = TuningRun(space, history, bench, slice, stop, "exhaustive", 0, on_progress, began, origin=MODELLED)
    bounded = bench.architecture not in (None, CPU)
    return replace(run.result(*run.tuned()), ranked_by=STATIC_BOUND if bounded else MODELLED)


def space_for(task: Task, slice: str) -> PlanSpace:
    """The plans of a task for a slice of any device. As in calls, the first of those tried whose code fits runs without
    tuning. Raises as `read` does, and `OptionError` for an unknown slice."""
    limits = slice_limits(slice)
    name = _architecture(slice_target(slice).architecture, limits)
    if name in (None, CPU):
        return read(task, limits)
    where = CompileTarget(limits, name, name)

    def fits(plan: Plan, constants: Mapping[str, Constant]) -> bool:
        try:
            code = code_of(task, Candidate(plan, constants), scalars(task), where)
        except (Error, MemoryError, RuntimeError):  # RuntimeError comes from compilers
            return False
        return isinstance(code, CompiledCpu) or all(spill(read_taken(binary)) is None for binary in code.binaries)

    return read(task, limits, fits=fits)


def _architecture(name: str, limits: Limits) -> str | None:
    if limits.warp == 1:
        return CPU
    try:
        import triton

        from vkernels.compiler.backends.architectures import refuse_unless_compiles

        refuse_unless_compiles(name, triton.__version__)
    except (ImportError, SetupError):
        return None
    return name


@dataclass(frozen=True)
class ModelledBench(Measures):
    """Returns static bounds, or modelled times, of plans that compile and fit. `architecture`: None if nothing can be
    compiled."""

    space: PlanSpace
    architecture: str | None

    def measure(
        self, candidate: Candidate, timeout: float = 0.0, *, setting: Setting = Setting.COLD
    ) -> Outcome:  # fmt: skip
        """Compile a candidate, and bound or model its time."""
        choices = next(v.choices for v in self.space.versions if dict(v.constants) == dict(candidate.constants))
        try:
            code = None
            if self.architecture is not None:
                where = CompileTarget(self.space.limits, self.architecture, self.architecture)
                code = code_of(self.space.task, candidate, self._numbers, where)
            taken = () if code is None or isinstance(code, CompiledCpu) else tuple(map(read_taken, code.binaries))
            for each in taken:
                if (lack := spill(each)) is not None:
                    return Failed(FailureReason.DOES_NOT_FIT, lack.reason)
            seconds = None
            if code is not None and not isinstance(code, CompiledCpu):
                seconds = self._bound(code, unseen_time(choices, candidate.plan))
            if seconds is None:
                seconds = float(_times(choices, candidate.plan, taken).seconds)
        except RefusedCodeError as error:
            return Failed(FailureReason.COMPILE_ERROR, str(error))
        except OutOfResources as error:
            return Failed(FailureReason.DOES_NOT_FIT, str(error))
        except PlanError as error:
            return Failed(FailureReason.REFUSED, str(error))
        except (Error, MemoryError, RuntimeError) as error:  # RuntimeError comes from compilers
            return Failed(FailureReason.COMPILE_ERROR, str(error))
        return Measurement(seconds, seconds, seconds, 0)

    def paired_comparison(self, candidates: Sequence[Candidate], *, setting: Setting = Setting.COLD) -> list[Outcome]:
        """Bound or model the time of each."""
        return [self.measure(candidate) for candidate in candidates]

    def _bound(self, code: CompiledGpu, unseen: UnseenTime) -> float | None:
        """Seconds by which binaries are judged; None where one cannot be read."""
        space, disk = self.space, default_session().disk
        loops = loops_of_code(code, space.task.shape, space.limits, ArtifactCache(disk))
        found = None if loops is None else bound_of_launches(loops, unseen)
        return None if found is None else found.seconds

    @cached_property
    def _numbers(self) -> dict[str, bool | int | float]:
        return scalars(self.space.task)


def _times(choices: Choices, plan: Plan, taken: Sequence[BinaryResources]) -> ModeledTimes:
    """Modelled times, with the resources of binaries if there are any. Raises `PlanError` for an impossible plan."""
    if not taken:
        return model_plan(choices, plan)
    registers = tuple(np.array([float(each.use.registers)]) for each in taken)
    shared = tuple(np.array([float(each.use.shared)]) for each in taken)
    at = batch_of(choices, plan)
    if 1 < len(taken) == len(at.launched):
        return model_time(at, choices.limits, registers, shared).at(0)
    most = np.maximum.reduce(registers), np.maximum.reduce(shared)
    return model_time(at, choices.limits, *most).at(0)
