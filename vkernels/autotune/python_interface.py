"""`vk.tune`: tune a kernel, or the kernels that a function calls, for given inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from vkernels.compiler.default_session import default_session
from vkernels.inspect.cases import is_executing
from vkernels.inspect.task import Task, kernel_of
from vkernels.ir.budget import within
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import ArgumentError, Error, OptionError
from vkernels.ir.limits import Limits
from vkernels.ir.optional_packages import not_installed
from vkernels.language.kernel import Kernel

from .arguments import built
from .asked_task import AskedTask
from .called_kernels import kernels_in
from .constraints import PlanConstraint, constrained, constraints_from
from .database.entry import PROGRAM, kernel_hash
from .drive import Stop, effort_of, end_of, stop_from
from .input_file import write_inputs
from .measure import Bench, BenchOptions, Candidate
from .measure.fixed_plans import with_plan
from .plan_space import PlanSpace, enough_points
from .result import Success, TuningResult
from .searches import DEFAULT_SEARCH, SEARCHES
from .settings import judging_of
from .slice_names import is_here, slice_limits, slice_target
from .slices import tune_slices
from .study import Study, StudyHistory
from .trials import Objective, ObservedBench, Trial, interval_of, objective_from, trial_of, trials_of
from .triton_tuning import TritonTuned
from .tune import read_space
from .tune import tune as tune_task
from .tuned import Tuned, Tunings

if TYPE_CHECKING:
    from .database.database import Database

SHORTEST = 4.0
"""Seconds of a kernel's share of a function's budget, at least, while there are so many."""
ALL = "all"


def tune(
    kernel: Kernel | Callable[..., object],
    inputs: Any,
    *,
    budget: float | str = 60.0,
    objective: str | Callable[[Trial], float] = "time",
    constraints: object = None,
    slices: Sequence[str] | None = None,
    search: str = DEFAULT_SEARCH,
    seed: int = 0,
    caches: str = PROGRAM,
    database: str | Path | bool | None = True,
    study: str | Path | None = None,
    on_trial: Callable[[Any], object] | None = None,
    grid: str | None = None,
) -> Tuned | Tunings | TritonTuned | dict[str, TritonTuned]:
    """Find the best plan of a kernel for these inputs by measuring; calls use it from then on.

    `kernel`: a kernel, or a function that calls some: each of them is tuned for a part of the budget. `inputs`: its
    arguments: a tuple, or a dict by name; outputs included. They are copied, and not changed. `budget`: seconds, or a
    text as `vk tune --budget` takes it (`"2m"`, `"200"` plans). `objective`: `time`, `p99`, `memory` (bytes of a call),
    or a function of a `Trial` that returns a positive number: the less, the better. `constraints`: texts such as
    `"warps <= 8 and tiles['M'] * stages <= 512"`, or functions of constants, sizes, fields of `vk.Plan` and `plan`, by
    name: `lambda plan, M: ...`. `slices`: for instance `["cores=1", "all"]`; by default the device of the inputs.
    `database`: True for the one that calls use, None for none, or a path or URL. `study`: a file that keeps all trials;
    the same call continues an interrupted run. `on_trial`: called with each `Trial`.

    The database keeps times of the objective `time` without constraints only, since calls take the fastest plan in it;
    use `result.kernel` otherwise. Returns a `Tuned`; with `slices`, or for a function, several by name (`Tunings`). An
    interrupt (Ctrl-C) ends the search, and the results so far are returned.

    A plain Triton kernel needs its `grid`, an expression of constants and sizes: `"cdiv(M, BLOCK_M)"`. `inputs` are
    those of a launch, with block sizes to begin with unless it has an autotune list. `slices` may be any GPUs: those
    that are not here are tuned by the static bound of the binaries. Only `budget`, `search`, `seed` and `on_trial`
    apply. Returns a result with `best.config` for each device by name, or only that without `slices`.

    Raises `OptionError` and `ArgumentError` for options and inputs that do not fit, `SetupError` for an absent device
    or a database that is not writable, and `FileError` for a kernel that is in no file.
    """
    try:
        if not isinstance(kernel, Kernel) and type(kernel).__module__.startswith("triton."):
            from .triton_python import tune_plain_kernel

            if objective != "time" or constraints is not None or study is not None:
                raise OptionError("tune: objective, constraints and study do not apply to plain Triton kernels")
            _refuse_within_workers()
            return tune_plain_kernel(kernel, inputs, grid, slices, stop_from(budget), seed, on_trial)
        if grid is not None:
            raise OptionError("grid: applies to plain Triton kernels")
        return _checked(
            kernel, inputs, budget, objective, constraints, slices, search, seed, caches, database, study, on_trial
        )
    except Error as error:
        raise error.shortened() from error.__cause__
    except ModuleNotFoundError as error:
        raise not_installed(error) from None


def _checked(
    kernel: Kernel | Callable[..., object], inputs: Any, budget: float | str,
    objective: str | Callable[[Trial], float], constraints: object, slices: Sequence[str] | None, search: str,
    seed: int, caches: str, database: str | Path | bool | None, study: str | Path | None,
    on_trial: Callable[[Trial], object] | None,
) -> Tuned | Tunings:  # fmt: skip
    began = monotonic()
    _refuse_within_workers()
    if search not in SEARCHES:
        raise OptionError(f"search: there is no {search!r}; {did_you_mean(search, list(SEARCHES))}")
    judging_of(caches)
    options = TuneOptions(
        stop_from(budget), objective_from(objective), constraints_from(constraints), search, seed, caches,
        on_trial or (lambda trial: None), None if study is None else Path(study),
    )  # fmt: skip
    with _database(database if options.is_plain else None) as kept:
        options = replace(options, database=kept)
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (_as_tuple(inputs), {})
        if isinstance(kernel, Kernel):
            asked = AskedTask.of(kernel, args, kwargs)
            options = options.after(monotonic() - began)
            found: Tuned | Tunings = _tuned(asked, _slice_names(asked.device, slices), options)
            found = found if slices is not None or isinstance(found, Tuned) else next(iter(found.values()))
        elif callable(kernel):
            found = _tuned_function(kernel, args, kwargs, slices, options.after(monotonic() - began))
        else:
            raise ArgumentError(f"tune: expected a kernel or a function, got {kernel!r}")
    default_session().forget_tuned_plans()
    return found


@dataclass(frozen=True)
class TuneOptions:
    """The options of `tune`, checked."""

    stop: Stop
    objective: Objective
    constraints: tuple[PlanConstraint, ...] = ()
    search: str = DEFAULT_SEARCH
    seed: int = 0
    caches: str = PROGRAM
    on_trial: Callable[[Trial], object] = lambda trial: None
    study: Path | None = None
    database: Database | None = None

    def after(self, seconds: float) -> TuneOptions:
        """The options with what is left of the budget after so many seconds."""
        return replace(self, stop=self.stop.after(seconds))

    @property
    def is_plain(self) -> bool:
        """Whether the fastest plan of all is wanted, as calls want it."""
        return self.objective.is_time and not self.constraints


def _tuned(asked: AskedTask, slices: Sequence[str], options: TuneOptions) -> Tuned | Tunings:
    here = [name for name in slices if is_here(name)]
    if not here:
        return _several({name: _offline(asked, name, options) for name in slices})
    with tempfile.TemporaryDirectory(prefix="vkernels-") as folder, ExitStack() as stack:
        runs = {name: SliceRun(asked, name, options, stack) for name in slices}
        bench = BenchOptions(effort=options.objective.effort(effort_of(options.stop)), inputs=_written(asked, folder))
        if len(slices) > 1 and options.is_plain:
            by_name: Mapping[str, TuningResult]

            def tuned(task: Task, name: str, stop: Stop, **more: Any) -> TuningResult:
                return runs[name].tuned(stop, **more)

            several = tune_slices(
                asked.task, slices, options.stop, bench, tuned, database=options.database, caches=options.caches
            )
            by_name, crossed = several.results, several.crossed
        else:
            by_name, crossed = {name: runs[name].alone(bench) for name in slices}, None
        results = {name: runs[name].result(result) for name, result in by_name.items()}
    return _several(results, crossed)


def _several(results: Mapping[str, Tuned], crossed: Any = None) -> Tuned | Tunings:
    return next(iter(results.values())) if len(results) == 1 and crossed is None else Tunings(results, crossed)


class SliceRun:
    """One slice of one run: reads the space, tunes, and makes the result."""

    def __init__(self, asked: AskedTask, slice: str, options: TuneOptions, stack: ExitStack):
        self.asked, self.slice, self.options = asked, slice, options
        self._measured: dict[Any, Any] = {}
        self._study = None if options.study is None else stack.enter_context(self._opened(options.study))
        self._space: PlanSpace | None = None

    def alone(self, bench: BenchOptions) -> TuningResult:
        """Tune with a bench of its own, within the budget."""
        began, stop = monotonic(), self.options.stop
        with Bench(self.asked.task, self.slice, replace(bench, until=end_of(stop))) as measuring:
            limits = within(slice_limits(self.slice), kernel_of(self.asked.task).budget)
            space = read_space(
                self.asked.task, self.slice, measuring, enough_points(stop), self._history(limits)
            )  # fmt: skip
            return self.tuned(stop.after(monotonic() - began), bench=measuring, space=space)

    def tuned(self, stop: Stop, *, bench: Any, space: PlanSpace, **_: Any) -> TuningResult:
        """Tune with a bench."""
        options, task = self.options, self.asked.task
        self._space = space = constrained(space, options.constraints)
        observed = ObservedBench(
            bench, space, options.objective, options.on_trial, self._run_of, self._measured,
            0 if self._study is None else len(self._study.rows),
        )  # fmt: skip
        return tune_task(
            task, self.slice, stop, options.search, options.seed, observed, options.database, space=space,
            caches=options.caches, history=self._history(space.limits),
        )  # fmt: skip

    def _history(self, limits: Limits) -> StudyHistory:
        return StudyHistory(
            self.options.database, self.asked.task, limits, slice_target(self.slice), self.slice, self.options.caches,
            study=self._study, measured=self._measured,
        )  # fmt: skip

    def result(self, found: TuningResult) -> Tuned:
        """The result as users see it."""
        assert self._space is not None, "it was tuned"
        trials, by_key = trials_of(found, self._space, self._measured)
        best, default = (self._final(each, by_key) for each in (found.best, found.default))
        return Tuned(
            self.asked.task, self.slice, self.options.objective.name, best, default, trials, found.gain,
            interval_of(found), found.stopped, found.seconds, found,
        )  # fmt: skip

    def _final(self, success: Success | None, by_key: Mapping[Any, Trial]) -> Trial | None:
        """A trial with what the final comparison says of it."""
        if success is None or self._space is None:
            return None
        candidate, judged = success.candidate, success.measured
        trial = by_key.get(candidate.key) or trial_of(success.trial, candidate, judged, self._space)
        if not self.options.objective.is_time:
            return replace(trial, value=judged.seconds)
        return replace(trial, seconds=judged.seconds, low=judged.low, high=judged.high, value=judged.seconds)

    def _run_of(self, candidate: Candidate) -> Callable[[], object] | None:
        if not self.asked.call:  # the arguments of kernels that a function calls are not kept
            return None
        kernel = kernel_of(self.asked.task)
        values = [candidate.constants.get(p.name, v) for p, v in zip(kernel.parameters, self.asked.call, strict=True)]
        return partial(with_plan(kernel, candidate.plan), *values)

    def _opened(self, path: Path) -> Study:
        task, options = self.asked.task, self.options
        named = (
            path if self.slice == self.asked.device else path.with_name(f"{path.name}.{self.slice.replace(':', '-')}")
        )
        return Study(named, {
            "task": task.to_json(), "slice": self.slice, "objective": options.objective.name, "caches": options.caches,
            "kernel_hash": kernel_hash(built(task)), "constraints": [each.text for each in options.constraints],
        })  # fmt: skip


def _offline(asked: AskedTask, slice: str, options: TuneOptions) -> Tuned:
    from .offline import space_for, tune_offline

    if not options.is_plain or options.study is not None:
        raise OptionError(f"{slice} is not here: it is tuned by static bounds, without objective, constraints or study")
    space = space_for(asked.task, slice)
    found = tune_offline(asked.task, slice, options.stop, options.database, space=space)
    trials, by_key = trials_of(found, space, {})
    best, default = (None if each is None else by_key[each.candidate.key] for each in (found.best, found.default))
    for trial in trials:
        options.on_trial(trial)
    return Tuned(asked.task, slice, found.ranked_by, best, default, trials, found.gain, None, found.stopped,
                 found.seconds, found)  # fmt: skip


# Functions


def _tuned_function(
    function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any], slices: Sequence[str] | None,
    options: TuneOptions,
) -> Tunings:  # fmt: skip
    if options.study is not None:
        raise OptionError("study: is for one kernel; a function may call several")
    began = monotonic()
    parts, failed = kernels_in(function, args, kwargs)
    results: dict[str, Tuned] = {}
    for number, (task, device, _, seconds) in enumerate(parts):
        roots = [sqrt(each[3]) for each in parts[number:]]
        took, limit = monotonic() - began, options.stop.seconds
        if limit is not None and took >= limit:
            failed[str(task)] = "the budget ended before its turn"
            continue
        left = options.stop.after(took)
        share = None
        if left.seconds is not None:
            share = min(left.seconds, max(SHORTEST, left.seconds * sqrt(seconds) / sum(roots)))
        names = _slice_names(device, slices)
        try:
            found = _tuned(AskedTask(task, device), names, replace(options, stop=replace(left, seconds=share)))
        except Error as error:
            failed[str(task)] = str(error)
            continue
        several = {str(task): found} if isinstance(found, Tuned) else {f"{task} on {n}": r for n, r in found.items()}
        results |= several
        if any(result.stopped == "interrupted" for result in several.values()):
            break
    return Tunings(results, None, failed, {str(task): calls for task, _, calls, _ in parts})


# Options


def _refuse_within_workers() -> None:
    if is_executing():
        raise OptionError(
            "vk.tune is called while its file is executed to find a kernel: put the call under "
            '`if __name__ == "__main__":`'
        )


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)


def _slice_names(device: str, slices: Sequence[str] | None) -> list[str]:
    if slices is None:
        return [device]
    if isinstance(slices, str) or not slices:
        raise OptionError(f"slices: expected a list of slices, as ['cores=1', 'all'], got {slices!r}")
    named = [device if each == ALL else f"{device}:{each}" if _is_spec(each) else each for each in slices]
    for name in named:
        slice_limits(name)
    return list(dict.fromkeys(named))


def _is_spec(name: str) -> bool:
    """Whether it is a part of a device, as `cores=1`, rather than a device's name."""
    return ":" not in name and "=" in name.split(",")[0]


def _written(asked: AskedTask, folder: str) -> Path | None:
    if asked.inputs is None:
        return None
    path = Path(folder) / "inputs.npz"
    write_inputs(path, asked.inputs)
    return path


@contextmanager
def _database(given: str | Path | bool | None) -> Iterator[Database | None]:
    from .database import Database
    from .database.launches import database_in_use

    if given is None or given is False or (given is True and not database_in_use()[0]):
        yield None
        return
    with Database.open(database_in_use()[1] if given is True else str(given)) as database:
        database.check_writable()
        yield database
