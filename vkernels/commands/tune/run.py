"""Tunes what was asked for, one kernel after another, on one slice after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console

from vkernels.autotune.drive import Stop
from vkernels.autotune.limits import slice_limits
from vkernels.autotune.result import TuningResult
from vkernels.autotune.task import Task
from vkernels.autotune.tune import Listener, tune
from vkernels.autotune.usual import Wanted, usual_tasks
from vkernels.ir.errors import Error, OptionError, SetupError
from vkernels.ir.nearest import meant

from .show import live_board, show_result

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database


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
    """What came of it. `refused`: tasks that could not be tuned on a slice, and why."""

    results: list[TuningResult] = field(default_factory=list)
    refused: list[tuple[Task, str, str]] = field(default_factory=list)
    interrupted: bool = False


def run(asked: Asked, database: Database | None, console: Console) -> Done:
    """Tune everything; what one task is refused for leaves the others alone, if there are others.

    Raises `OptionError` for what does not exist, and `SetupError` where the device is not here.
    """
    _refuse(asked)
    tasks = _tasks(asked)
    done = Done()
    with live_board(console, len(tasks) * len(asked.slices)) as (board, report):
        for task in tasks:
            for slice_ in asked.slices:
                board.number += 1
                try:
                    result = _tuned(asked, task, slice_, database, report)
                except SetupError:
                    raise
                except Error as error:
                    if len(tasks) == 1:
                        raise
                    done.refused.append((task, slice_, str(error)))
                    console.print(f"{task} on {slice_}: {error}", style="yellow", soft_wrap=True)
                    continue
                except KeyboardInterrupt:
                    done.interrupted = True
                    return done
                done.results.append(result)
                show_result(console, result)
                if result.stopped == "interrupted":
                    done.interrupted = True
                    return done
    return done


def _tuned(asked: Asked, task: Task, slice_: str, database: Database | None, report: Listener) -> TuningResult:
    if asked.offline:
        from vkernels.autotune.offline import tune_offline

        return tune_offline(task, slice_, asked.stop, database=database, on_progress=report)
    return tune(task, slice_, asked.stop, asked.search, asked.seed, database=database, on_progress=report)


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
