"""Run a tuning request: kernel after kernel, all slices of one together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console

from vkernels.autotune.crossed import Crossed
from vkernels.autotune.drive import Stop
from vkernels.autotune.limits import slice_limits
from vkernels.autotune.result import TuningResult
from vkernels.autotune.slices import tune_slices
from vkernels.autotune.tune import Listener, tune
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import Error, OptionError, SetupError
from vkernels.library.catalogue import CATALOGUE
from vkernels.library.tasks import library_tasks

from .show import live_board, show_crossed, show_model, show_result

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database
    from vkernels.autotune.model_tuning import ModelResult

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class TuneRequest:
    """The options of `vk tune`."""

    kernels: Sequence[str]
    wanted: Sequence[SpecialisationRequest]
    slices: Sequence[str]
    stop: Stop
    search: str
    seed: int
    offline: bool


@dataclass
class TuneOutcome:
    """The results. `crossed`: for tasks tuned on several slices, every slice's best plan on every slice. `refused`:
    tasks that could not be tuned, on which slices, and why."""

    results: list[TuningResult] = field(default_factory=list)
    crossed: list[tuple[Task, Crossed]] = field(default_factory=list)
    refused: list[tuple[Task, str, str]] = field(default_factory=list)
    model: ModelResult | None = None

    @property
    def interrupted(self) -> bool:
        """Whether tuning was interrupted."""
        return self.was_interrupted or any(result.stopped == INTERRUPTED for result in self.results)

    was_interrupted: bool = False


def run(request: TuneRequest, database: Database | None, console: Console) -> TuneOutcome:
    """Tune everything. If one of several tasks cannot be tuned, the others still are.

    Raises `OptionError` for unknown names, and `SetupError` if the device is absent.
    """
    _refuse(request)
    tasks = _tasks(request)
    done = TuneOutcome()
    with live_board(console, len(tasks)) as (board, report):
        for task in tasks:
            board.begin()
            try:
                found, crossed = _tuned(request, task, database, report)
            except SetupError:
                raise
            except Error as error:
                if len(tasks) == 1:
                    raise
                done.refused.append((task, ", ".join(request.slices), str(error)))
                console.print(f"{task}: {error}", style="yellow", soft_wrap=True)
                continue
            except KeyboardInterrupt:
                done.was_interrupted = True
                break
            done.results += found
            for result in found:
                show_result(console, result)
            if crossed is not None:
                done.crossed.append((task, crossed))
                show_crossed(console, crossed)
            if done.interrupted:
                break
    return done


def run_model(request: TuneRequest, model: str, database: Database | None, console: Console) -> TuneOutcome:
    """Tune the tasks of a torch model, given as FILE.py:FUNCTION. Raises as `run` does."""
    from torch.nn import Module

    from vkernels.autotune.model_tuning import tune_model
    from vkernels.autotune.models import read_model, tasks_of
    from vkernels.torch import replace

    if request.offline:
        raise OptionError("--model needs measurements: it cannot be combined with --offline")
    if request.stop.seconds is None:
        raise OptionError("--model: --budget must be a time such as 10m, which is split over the model's tasks")
    _refuse(request)
    module, arguments, named = read_model(model)
    layers = str(replace(module, everywhere=True)) if isinstance(module, Module) else ""
    tasks = tasks_of(module, arguments, named, CATALOGUE, layers)
    if not tasks.parts:
        raise OptionError(
            f"{model} calls no kernel that can be tuned{''.join(': ' + w for w in tasks.left_out.values())}"
        )
    with live_board(console, 0) as (board, report):
        board.begin()
        found = tune_model(
            tasks, request.slices, request.stop.seconds, database=database, search=request.search, seed=request.seed,
            on_progress=report,
        )  # fmt: skip
    show_model(console, found)
    results = [result for each in found.results.values() for result in each.values()]
    refused = [(tasks.parts[number].task, ", ".join(request.slices), reason) for number, reason in found.failed.items()]
    return TuneOutcome(results, [], refused, found)


def _tuned(
    request: TuneRequest, task: Task, database: Database | None, report: Listener
) -> tuple[list[TuningResult], Crossed | None]:
    if request.offline:
        from vkernels.autotune.offline import tune_offline

        return [tune_offline(task, name, request.stop, database, report) for name in request.slices], None
    more: dict[str, Any] = {"search": request.search, "seed": request.seed, "database": database, "on_progress": report}
    if len(request.slices) == 1:
        return [tune(task, request.slices[0], request.stop, **more)], None
    several = tune_slices(task, request.slices, request.stop, **more)
    return list(several.results.values()), several.crossed


def _refuse(request: TuneRequest) -> None:
    from vkernels.autotune.measure.cpu_affinity import is_here
    from vkernels.autotune.searches import SEARCHES

    if request.search not in SEARCHES:
        raise OptionError(
            f"--search: unknown search {request.search!r}; {did_you_mean(request.search, list(SEARCHES))}"
        )
    for slice_ in request.slices:
        slice_limits(slice_)
        if not request.offline and not is_here(slice_):
            raise SetupError(f"{slice_} is not present; --offline uses modelled times instead of measuring")


def _tasks(request: TuneRequest) -> list[Task]:
    on_gpu = slice_limits(request.slices[0]).warp > 1
    found = [task for wanted in request.wanted for task in library_tasks(request.kernels, wanted, on_gpu)]
    return list(dict.fromkeys(found))
