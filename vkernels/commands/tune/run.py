"""Tunes what was asked for, one kernel after another, for all slices at once."""

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
from vkernels.autotune.task import Task
from vkernels.autotune.tune import Listener, tune
from vkernels.autotune.usual import Wanted, usual_tasks
from vkernels.ir.errors import Error, OptionError, SetupError
from vkernels.ir.nearest import meant

from .show import live_board, show_crossed, show_model, show_result

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database
    from vkernels.autotune.model_tuning import ModelResult

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Asked:
    """What `vk tune` is asked for."""

    kernels: Sequence[str]
    wanted: Sequence[Wanted]
    slices: Sequence[str]
    stop: Stop
    search: str
    seed: int
    offline: bool


@dataclass
class Done:
    """What came of it. `crossed`: of tasks that several slices were tuned for, every slice's best on every slice.
    `refused`: tasks that could not be tuned, on which slices, and why."""

    results: list[TuningResult] = field(default_factory=list)
    crossed: list[tuple[Task, Crossed]] = field(default_factory=list)
    refused: list[tuple[Task, str, str]] = field(default_factory=list)
    model: ModelResult | None = None

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended it before it was through."""
        return self.was_interrupted or any(result.stopped == INTERRUPTED for result in self.results)

    was_interrupted: bool = False


def run(asked: Asked, database: Database | None, console: Console) -> Done:
    """Tune everything; what one task is refused for leaves the others alone, if there are others.

    Raises `OptionError` for what does not exist, and `SetupError` where the device is not here.
    """
    _refuse(asked)
    tasks = _tasks(asked)
    done = Done()
    with live_board(console, len(tasks)) as (board, report):
        for task in tasks:
            board.begin()
            try:
                found, crossed = _tuned(asked, task, database, report)
            except SetupError:
                raise
            except Error as error:
                if len(tasks) == 1:
                    raise
                done.refused.append((task, ", ".join(asked.slices), str(error)))
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


def run_model(asked: Asked, model: str, database: Database | None, console: Console) -> Done:
    """Tune the tasks of a torch model, given as FILE.py:FUNCTION. Raises as `run` does."""
    from vkernels.autotune.model_tuning import tune_model
    from vkernels.autotune.models import read_model, tasks_of

    if asked.offline:
        raise OptionError("--model is measured here: it cannot be --offline")
    if asked.stop.seconds is None:
        raise OptionError("--model: --budget is a time, as 10m: it is shared out to the model's tasks")
    _refuse(asked)
    tasks = tasks_of(*read_model(model))
    if not tasks.parts:
        raise OptionError(
            f"{model} calls no kernel that can be tuned{''.join(': ' + w for w in tasks.left_out.values())}"
        )
    with live_board(console, 0) as (board, report):
        board.begin()
        found = tune_model(
            tasks, asked.slices, asked.stop.seconds, database=database, search=asked.search, seed=asked.seed,
            on_progress=report,
        )  # fmt: skip
    show_model(console, found)
    results = [result for each in found.results.values() for result in each.values()]
    refused = [(tasks.parts[number].task, ", ".join(asked.slices), reason) for number, reason in found.failed.items()]
    return Done(results, [], refused, found)


def _tuned(
    asked: Asked, task: Task, database: Database | None, report: Listener
) -> tuple[list[TuningResult], Crossed | None]:
    if asked.offline:
        from vkernels.autotune.offline import tune_offline

        return [tune_offline(task, name, asked.stop, database, report) for name in asked.slices], None
    more: dict[str, Any] = {"search": asked.search, "seed": asked.seed, "database": database, "on_progress": report}
    if len(asked.slices) == 1:
        return [tune(task, asked.slices[0], asked.stop, **more)], None
    several = tune_slices(task, asked.slices, asked.stop, **more)
    return list(several.results.values()), several.crossed


def _refuse(asked: Asked) -> None:
    from vkernels.autotune.measure.places import is_here
    from vkernels.autotune.searches import SEARCHES

    if asked.search not in SEARCHES:
        raise OptionError(f"--search: there is no {asked.search!r}; {meant(asked.search, list(SEARCHES))}")
    for slice_ in asked.slices:
        slice_limits(slice_)
        if not asked.offline and not is_here(slice_):
            raise SetupError(f"{slice_} is not here: --offline models its times instead of measuring them")


def _tasks(asked: Asked) -> list[Task]:
    on_gpu = slice_limits(asked.slices[0]).warp > 1
    found = [task for wanted in asked.wanted for task in usual_tasks(asked.kernels, wanted, on_gpu)]
    return list(dict.fromkeys(found))
