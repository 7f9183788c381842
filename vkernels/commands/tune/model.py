"""`vk tune --model`: tune the kernels of a torch model, then run the model itself, untuned and tuned in turns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from vkernels.autotune.database.database import Database
from vkernels.autotune.drive import LEAST_SECONDS
from vkernels.autotune.measure.lock import lock_names, locked
from vkernels.autotune.measure.measures import WorkerLimits
from vkernels.autotune.measure.measuring_worker import EndedError, MeasuringWorker
from vkernels.autotune.model_tuning import EndToEnd, ModelResult
from vkernels.autotune.model_turns import PlanDatabases, Run, in_turns, tuned_parts, with_end_to_end
from vkernels.autotune.slice_names import is_as_calls_see_it, place_of
from vkernels.ir.errors import OptionError, SetupError
from vkernels.library.catalogue import CATALOGUE

from ..formatting import format_seconds
from ..results import table_of
from .live import live_page
from .run import TuneOutcome, TuneRequest, live_board, refuse, times_as_fast

SERVICE = f"{__package__}.model_worker:serve"
TURNS_PART = 0.15
"""Share of the budget for running the model itself."""
LIMITS = WorkerLimits()


def run_model(request: TuneRequest, model: str, database: Database | None, console: Console) -> TuneOutcome:
    """Tune the tasks of a torch model, given as FILE.py:FUNCTION, and take back plans that do not pay in it.

    Raises as `run` does.
    """
    from torch.nn import Module

    from vkernels.autotune.model_tuning import tune_model
    from vkernels.autotune.models import read_model, tasks_of
    from vkernels.torch import replace

    if request.offline:
        raise OptionError("--model needs measurements: it cannot be combined with --offline")
    if request.stop.seconds is None:
        raise OptionError("--model: --budget must be a time such as 10m, which is split over the model's tasks")
    refuse(request)
    module, arguments, named = read_model(model)
    layers = str(replace(module, everywhere=True)) if isinstance(module, Module) else ""
    tasks = tasks_of(module, arguments, named, CATALOGUE, layers)
    if not tasks.parts:
        raise OptionError(
            f"{model} calls no kernel that can be tuned{''.join(': ' + w for w in tasks.left_out.values())}"
        )
    ends_at = (time.monotonic() if request.began is None else request.began) + request.stop.seconds
    until_turns = ends_at - TURNS_PART * request.stop.seconds - time.monotonic()
    with (
        live_board(console, 0) as (board, on_board),
        live_page(request.live, console, len(tasks.parts), on_board) as (report, on_results),
    ):
        board.begin()
        found = tune_model(
            tasks, request.slices, max(LEAST_SECONDS, until_turns), database=database, search=request.search,
            seed=request.seed, on_progress=report, caches=request.caches,
        )  # fmt: skip
        on_results([result for each in found.results.values() for result in each.values()])
    ends = end_to_end(found, model, max(0.0, ends_at - time.monotonic()), console)
    found = with_end_to_end(found, ends, database, request.caches)
    show_model(console, found)
    results = [result for each in found.results.values() for result in each.values()]
    refused = [(tasks.parts[number].task, ", ".join(request.slices), reason) for number, reason in found.failed.items()]
    return TuneOutcome(results, [], refused, found)


def end_to_end(found: ModelResult, model: str, seconds: float, console: Console) -> dict[str, EndToEnd]:
    """Run a tuned model in turns on each slice that a process can be restricted to, so many seconds in all.

    Says where there was no time for it: the gain of the model is not known there, and no plan is taken back.
    """
    slices = [name for name in found.slices if is_as_calls_see_it(name) and tuned_parts(found, name)]
    ends: dict[str, EndToEnd] = {}
    with tempfile.TemporaryDirectory(prefix="vkernels-") as folder:
        for name in slices:
            try:
                with model_runner(model, PlanDatabases(Path(folder), found, name)) as run:
                    timed = TimedRuns(run, seconds / len(slices))
                    for parts in (frozenset(), frozenset(tuned_parts(found, name))):  # to know how long they take
                        timed(parts)
                    end = in_turns(tuned_parts(found, name), timed, timed.may)
            except SetupError as error:
                console.print(f"{name}: the model was not run end to end: {error}", style="yellow", soft_wrap=True)
                continue
            if end is not None:
                ends[name] = end
            else:
                reason = f"the model was not run end to end: {seconds / len(slices):.1f} s do not suffice"
                advice = "give more time, else plans that do not pay in the model stay"
                console.print(f"{name}: {reason}; {advice}", style="yellow", soft_wrap=True)
    return ends


@dataclass
class TimedRuns:
    """Runs of a model within some seconds; `took`: those of each run so far, with its preparations."""

    run: Run
    seconds: float
    took: list[float] = field(default_factory=list)

    def __call__(self, parts: frozenset[int]) -> float:
        began = time.monotonic()
        found = self.run(parts)
        self.took.append(time.monotonic() - began)
        return found

    def may(self, runs: int) -> bool:
        """Whether there is time for so many more runs."""
        return sum(self.took) + runs * (min(self.took) if self.took else 0.0) <= self.seconds


@contextmanager
def model_runner(model: str, databases: PlanDatabases) -> Iterator[Run]:
    """Start a process that runs a model on a slice's cores. Raises `SetupError` if it ends, or the model fails."""
    place = place_of(databases.slice)
    worker = MeasuringWorker(place.cores, SERVICE)

    def ask(request: dict[str, object]) -> dict[str, object]:
        try:
            answer = worker.ask(request, LIMITS.start_seconds, LIMITS.lock_seconds, 1 << 62)
        except EndedError as end:
            raise SetupError(end.text) from None
        if "error" in answer:
            raise SetupError(str(answer["error"]))
        return answer

    def run(parts: frozenset[int]) -> float:
        path = databases.of(parts)
        with locked(lock_names(place.device, place.cores), LIMITS.lock_seconds, None, lambda: None):
            return float(str(ask({"do": "run", "database": path})["seconds"]))

    try:
        ask({"do": "start", "model": model})
        yield run
    finally:
        worker.kill()


def show_model(console: Console, found: ModelResult) -> None:
    """Print the gain of each task of a model, and of a whole run."""
    figures = ["calls", *(f"gain on {name}" for name in found.slices)]
    table = table_of("task", *figures, right=figures)
    for number, part in enumerate(found.model.parts):
        results = found.results.get(number, {})
        gains = [results[name].gain if name in results else None for name in found.slices]
        table.add_row(str(part.task), str(part.calls), *("–" if gain is None else f"{gain:.2f}" for gain in gains))
    console.print(table)
    for name in found.slices:
        before, after = found.before_and_after(name)
        if after:
            times = f"{format_seconds(before)} of kernels before, {format_seconds(after)} after"
            console.print(f"{name}: {times_as_fast(before / after)} before: {times}")
        if (end := found.end_to_end.get(name)) is not None:
            show_end_to_end(console, found, name, end)
        elif after and not tuned_parts(found, name):
            console.print("  every task keeps its default plan, so there is no tuned model to compare", soft_wrap=True)
    console.print(f"{found.measured} plans measured of {found.asked} proposed, {found.seconds:.0f} s")


def show_end_to_end(console: Console, found: ModelResult, slice: str, end: EndToEnd) -> None:
    """Print the gain of a run of the whole model, and what was taken back."""
    times = f"{format_seconds(end.tuned)} a run, untuned {format_seconds(end.untuned)}, {end.rounds} turns of each"
    interval = f"95 % interval {end.low:.3f}–{end.high:.3f}"
    console.print(f"{slice}: the model is {times_as_fast(end.gain)} untuned ({interval}): {times}", soft_wrap=True)
    if not end.taken_back:
        return
    if end.gain < 1:
        console.print("  it was not faster: all plans were taken back, and the untuned ones are used")
        return
    tasks = "; ".join(str(found.model.parts[part].task) for part in end.taken_back)
    console.print(f"  taken back, because the model is faster without them: {tasks}", soft_wrap=True)
