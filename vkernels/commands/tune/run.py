"""Run a tuning request, kernel after kernel with all slices of one together, and print progress and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vkernels.autotune.database.database import Database
from vkernels.autotune.database.entry import PROGRAM
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Setting
from vkernels.autotune.model_tuning import ModelResult
from vkernels.autotune.progress import Listener, Progress
from vkernels.autotune.result import MEASURED, MODELLED, STATIC_BOUND, Crossed, Success, TuningResult
from vkernels.autotune.searches import SEARCHES
from vkernels.autotune.settings import judging_of
from vkernels.autotune.slice_names import is_here, slice_limits
from vkernels.autotune.slices import tune_slices
from vkernels.autotune.space import Value
from vkernels.autotune.tune import tune
from vkernels.inspect.specialisation import SpecialisationRequest, parse_specialisation
from vkernels.inspect.task import Task
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import Error, OptionError, SetupError
from vkernels.library.tasks import library_tasks

from ..formatting import format_seconds
from ..options import specs_in
from ..results import table_of
from .live import STAGES, live_page, until

MAX_MOVED = 4
NOT_BEGUN = "no plan was tried: starting took the whole budget; try a longer one (--budget)"
_SETTINGS = {
    Setting.COLD: "arguments cold", Setting.WARM: "arguments warm", Setting.READ: "result read, arguments cold",
    Setting.CHAIN: "result read at once",
}  # fmt: skip


@dataclass
class Board:
    """The live progress display: the current task on each slice. `number` of `count`: the task."""

    console: Console
    count: int = 1
    number: int = 0
    last: dict[str, Progress] = field(default_factory=dict)

    def begin(self) -> None:
        """Go on to the next task."""
        self.number += 1
        self.last = {}

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        place = f"{self.number} of {self.count}" if self.count > 1 else ""
        for progress in list(self.last.values()):
            table.add_row(Text(f"{progress.task} on {progress.slice}", style="bold"), place)
            total = None if progress.seconds_left is None else progress.seconds + progress.seconds_left
            done = progress.seconds if total else 0.0
            bar = ProgressBar(total=total or 1.0, completed=done, width=24, pulse=total is None)
            table.add_row(_numbers(progress), bar)
        return table


@contextmanager
def live_board(console: Console, count: int) -> Iterator[tuple[Board, Listener]]:
    """Show a progress board, if the console is a terminal."""
    board = Board(console, count)
    with Live(board, console=console, transient=True, refresh_per_second=8, auto_refresh=console.is_terminal) as live:

        def report(progress: Progress) -> None:
            board.last[progress.slice] = progress
            if console.is_terminal:
                live.refresh()

        yield board, report


def show_result(console: Console, result: TuningResult) -> None:
    """Print one result in a few lines."""
    console.print(Text(f"{result.task} on {result.slice}", style="bold"))
    console.print(f"  {_outcome(result)}", soft_wrap=True)
    if result.best is not None and len(result.gains) > 1 and result.gain != 1:
        gains = ", ".join(
            f"{_SETTINGS[setting]} {gain:.2f} ({format_seconds(result.best.times[setting].seconds)})"
            for setting, gain in result.gains.items()
        )
        console.print(f"  {gains}", soft_wrap=True)
    if result.device_wide is not None and result.best is not None:
        factor = result.device_wide.seconds / result.best.seconds
        console.print(f"  {times_as_fast(factor)} the best plan of the whole device", soft_wrap=True)
    if result.moved:
        moved = "; ".join(
            f"{each.name} {_value(each.best)} instead of {_value(each.default)}"
            + ("" if each.factor is None else f" ({each.factor:.2f})")
            for each in result.moved[:MAX_MOVED]
        )
        console.print(f"  decisions that matter: {moved}", soft_wrap=True)
    console.print(f"  {_tried(result)}", soft_wrap=True)


def show_summary(console: Console, results: Sequence[TuningResult]) -> None:
    """Print a table of results."""
    names, figures = ("kernel", "on"), ("default", "best", "gain", "tried", "failed")
    table = table_of(*names, *figures, right=figures, whole=(*names, *figures))
    for result in results:
        gain = "" if result.gain is None else f"{result.gain:.2f}"
        table.add_row(
            result.task.name, result.slice, _seconds(result.default), _seconds(result.best), gain,
            str(len(result.successes) + len(result.failures)), str(len(result.failures)),
        )  # fmt: skip
    console.print(table)


def show_crossed(console: Console, crossed: Crossed) -> None:
    """Print how fast each slice's plan is on the others, the best common plan, and slices worth tuning apart."""
    head, *rows = crossed.table()
    table = table_of(*head, right=head[1:])
    for row in rows:
        table.add_row(*row)
    console.print(table)
    serving, deserving = crossed.serving(), crossed.deserving()
    if serving is not None:
        console.print(f"  best common plan: that of {crossed.rows[serving].label}", soft_wrap=True)
    if deserving:
        console.print(f"  plans of their own are faster on {', '.join(deserving)}", soft_wrap=True)


def _outcome(result: TuningResult) -> str:
    modelled = ", modelled" if result.origin == MODELLED else ""
    if result.ranked_by == STATIC_BOUND:
        modelled += " by static bound"
    if result.best is None:
        return "every plan failed" if result.failures else NOT_BEGUN
    if result.default is None:
        return f"{_seconds(result.best)}{modelled}; the default plan failed"
    is_unsure = not result.final and result.origin == MEASURED
    if result.best.point == result.default.point and is_unsure and result.stopped == "seconds":
        return f"the default plan stays, {_seconds(result.best)}: there was no time to compare others with it"
    if result.best.point == result.default.point:
        return f"the default plan is the best: {_seconds(result.best)}{modelled}"
    assert result.gain is not None, "there is a default"
    turns = ", not confirmed by interleaved timing" if is_unsure else ""
    times = f"{_seconds(result.best)}, the default {_seconds(result.default)}{modelled}{turns}"
    return f"{times_as_fast(result.gain)} the default plan: {times}"


def times_as_fast(factor: float) -> str:
    """A gain in words."""
    return f"{factor:.2f} times as fast as"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _tried(result: TuningResult) -> str:
    counts = result.counts
    reasons = ", ".join(f"{count} {reason}" for reason, count in result.reasons.items())
    failed = f"; {len(result.failures)} failed: {reasons}" if reasons else ""
    tried = f"{len(result.successes) + len(result.failures)} of {counts.after} plans tried"
    more = counts.before - counts.after
    pruned = f"; the model ruled out {more} more" if more > 0 else ""
    return f"{tried} in {result.seconds:.0f} s, {until(result.stopped)}{failed}{pruned}"


def _seconds(success: Success | None) -> str:
    return "–" if success is None else format_seconds(success.seconds)


def _numbers(progress: Progress) -> str:
    parts = [STAGES.get(progress.stage, progress.stage)]
    if progress.best is not None:
        gain = f" ({progress.default / progress.best:.2f} ×)" if progress.default is not None else ""
        parts.append(f"best {format_seconds(progress.best)}{gain}")
    if progress.tried:
        parts.append(f"{progress.tried} tried, {progress.failed} failed, {max(0, progress.left)} left")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return " · ".join(parts)


def wanted_tasks(shapes: Sequence[str], dtype: str | None, constants: str | None) -> list[SpecialisationRequest]:
    """Return a request for each shape `M=…,N=…`, or one if there is none. Raises `OptionError`."""
    given: list[str | None] = [*shapes] or [None]
    return [parse_specialisation(dtype, shape, constants) for shape in given]


def slice_names(target: str, slices: Sequence[str]) -> list[str]:
    """Return the slices to tune for, as `cpu:cores=1`; the whole device if none are given. Raises `OptionError`."""
    if not slices:
        return [target]
    if ":" in target and not target.partition(":")[2].isdigit():
        raise OptionError(f"--slice cuts whole devices; {target} is a slice already")
    specs = [spec for text in slices for spec in specs_in(text)]
    return list(dict.fromkeys(target if spec == "all" else f"{target}:{spec}" for spec in specs))


@dataclass(frozen=True)
class TuneRequest:
    """The options of `vk tune`. `began`: of the command, by `time.monotonic`: its first task has so much less time.
    `live`: the page to write meanwhile."""

    kernels: Sequence[str]
    wanted: Sequence[SpecialisationRequest]
    slices: Sequence[str]
    stop: Stop
    search: str
    seed: int
    offline: bool
    caches: str = PROGRAM
    began: float | None = None
    live: Path | None = None


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
        return self.was_interrupted or any(result.stopped == "interrupted" for result in self.results)

    was_interrupted: bool = False


def run(request: TuneRequest, database: Database | None, console: Console) -> TuneOutcome:
    """Tune everything. If one of several tasks cannot be tuned, the others still are.

    Raises `OptionError` for unknown names, and `SetupError` if the device is absent.
    """
    refuse(request)
    on_gpu = slice_limits(request.slices[0]).warp > 1
    tasks = [task for wanted in request.wanted for task in library_tasks(request.kernels, wanted, on_gpu)]
    tasks = list(dict.fromkeys(tasks))
    done = TuneOutcome()
    with (
        live_board(console, len(tasks)) as (board, on_board),
        live_page(request.live, console, len(tasks), on_board) as (report, on_results),
    ):
        for number, task in enumerate(tasks):
            board.begin()
            before = monotonic() - request.began if number == 0 and request.began is not None else 0.0
            stop = request.stop.after(before)
            try:
                found, crossed = _tuned(request, task, database, report, stop)
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
            found = [replace(result, seconds=result.seconds + before) for result in found]
            done.results += found
            on_results(found)
            for result in found:
                show_result(console, result)
            if crossed is not None:
                done.crossed.append((task, crossed))
                show_crossed(console, crossed)
            if done.interrupted:
                break
    return done


def _tuned(
    request: TuneRequest, task: Task, database: Database | None, report: Listener, stop: Stop
) -> tuple[list[TuningResult], Crossed | None]:
    if request.offline:
        from vkernels.autotune.offline import tune_offline

        return [tune_offline(task, name, stop, database, report) for name in request.slices], None
    more: dict[str, Any] = {"search": request.search, "seed": request.seed, "database": database, "on_progress": report,
                            "caches": request.caches}  # fmt: skip
    if len(request.slices) == 1:
        return [tune(task, request.slices[0], stop, **more)], None
    several = tune_slices(task, request.slices, stop, **more)
    return list(several.results.values()), several.crossed


def refuse(request: TuneRequest) -> None:
    """Raise `OptionError` for unknown names, and `SetupError` if a device is absent."""
    judging_of(request.caches)
    if request.search not in SEARCHES:
        raise OptionError(
            f"--search: unknown search {request.search!r}; {did_you_mean(request.search, list(SEARCHES))}"
        )
    for slice_ in request.slices:
        slice_limits(slice_)
        if not request.offline and not is_here(slice_):
            raise SetupError(f"{slice_} is not present; --offline uses modelled times instead of measuring")
