"""Print tuning progress and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vkernels.autotune.crossed import Crossed
from vkernels.autotune.result import MODELLED, Success, TuningResult
from vkernels.autotune.space import Value
from vkernels.autotune.tune import Listener, Progress

if TYPE_CHECKING:
    from vkernels.autotune.model_tuning import ModelResult

MAX_MOVED = 4
"""Decisions that a result lists."""
WIDE = 120
_STAGES = {
    "reading": "reading the space", "searching": "searching", "undoing": "which decisions matter",
    "finalists": "comparing finalists", "compiling": "compiling",
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
        for progress in list(self.last.values()):
            table.add_row(Text(f"{progress.task} on {progress.slice}", style="bold"), _place(self.number, self.count))
            table.add_row(_numbers(progress), _bar(progress))
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
    if result.device_wide is not None and result.best is not None:
        factor = result.device_wide.seconds / result.best.seconds
        console.print(f"  {_times(factor)} the best plan of the whole device", soft_wrap=True)
    if result.moved:
        console.print(f"  decisions that matter: {_moved(result)}", soft_wrap=True)
    console.print(f"  {_tried(result)}", soft_wrap=True)


def show_summary(console: Console, results: Sequence[TuningResult]) -> None:
    """Print a table of results."""
    table = Table(box=None, pad_edge=False)
    for name in ("kernel", "on"):
        table.add_column(name, no_wrap=True)
    for name in ("default", "best", "gain", "tried", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        gain = "" if result.gain is None else f"{result.gain:.2f}"
        table.add_row(
            Text(result.task.name), Text(result.slice), _seconds(result.default), _seconds(result.best), gain,
            str(len(result.successes) + len(result.failures)), str(len(result.failures)),
        )  # fmt: skip
    console.print(table)


def show_crossed(console: Console, crossed: Crossed) -> None:
    """Print how fast each slice's plan is on the others, the best common plan, and slices worth tuning apart."""
    head, *rows = crossed.table()
    table = Table(box=None, pad_edge=False)
    table.add_column(head[0])
    for name in head[1:]:
        table.add_column(Text(name), justify="right")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    serving, deserving = crossed.serving(), crossed.deserving()
    if serving is not None:
        console.print(f"  best common plan: that of {crossed.rows[serving].label}", soft_wrap=True)
    if deserving:
        console.print(f"  plans of their own are faster on {', '.join(deserving)}", soft_wrap=True)


def show_model(console: Console, found: ModelResult) -> None:
    """Print the gain of each task of a model, and of a whole run."""
    table = Table(box=None, pad_edge=False)
    table.add_column("task")
    table.add_column("calls", justify="right")
    for name in found.slices:
        table.add_column(Text(f"gain on {name}"), justify="right")
    for number, part in enumerate(found.model.parts):
        results = found.results.get(number, {})
        gains = [results[name].gain if name in results else None for name in found.slices]
        table.add_row(
            Text(str(part.task)), str(part.calls), *("–" if gain is None else f"{gain:.2f}" for gain in gains)
        )
    console.print(table)
    for name in found.slices:
        before, after = found.before_and_after(name)
        if after:
            times = f"{duration(before)} of kernels before, {duration(after)} after"
            console.print(f"{name}: {_times(before / after)} before: {times}")
    console.print(f"{found.measured} plans measured of {found.asked} asked for, {found.seconds:.0f} s")


def console_for(to_errors: bool) -> Console:
    """Return the console for text output; `to_errors`: standard output is taken."""
    console = Console(stderr=to_errors, highlight=False, markup=False)
    return console if console.is_terminal else Console(stderr=to_errors, highlight=False, markup=False, width=WIDE)


def duration(seconds: float) -> str:
    """Format a time with three digits: `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _outcome(result: TuningResult) -> str:
    modelled = ", modelled" if result.origin == MODELLED else ""
    if result.best is None:
        return "every plan failed"
    if result.default is None:
        return f"{_seconds(result.best)}{modelled}; the default plan failed"
    if result.best.point == result.default.point:
        return f"the default plan is the best: {_seconds(result.best)}{modelled}"
    assert result.gain is not None, "there is a default"
    turns = "" if result.final or result.origin == MODELLED else ", not confirmed by interleaved timing"
    times = f"{_seconds(result.best)}, the default {_seconds(result.default)}{modelled}{turns}"
    return f"{_times(result.gain)} the default plan: {times}"


def _times(factor: float) -> str:
    return f"{factor:.2f} times as fast as"


def _moved(result: TuningResult) -> str:
    return "; ".join(
        f"{moved.name} {_value(moved.best)} instead of {_value(moved.default)}"
        + ("" if moved.factor is None else f" ({moved.factor:.2f})")
        for moved in result.moved[:MAX_MOVED]
    )


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _tried(result: TuningResult) -> str:
    counts = result.counts
    reasons = ", ".join(f"{count} {reason}" for reason, count in result.reasons.items())
    failed = f", {len(result.failures)} failed: {reasons}" if reasons else ""
    tried = f"{len(result.successes) + len(result.failures)} of {counts.after} plans tried{failed}"
    return f"{tried}; {counts.before} before pruning; {result.seconds:.0f} s, stopped by {result.stopped}"


def _seconds(success: Success | None) -> str:
    return "–" if success is None else duration(success.seconds)


def _place(number: int, count: int) -> str:
    return f"{number} of {count}" if count > 1 else ""


def _numbers(progress: Progress) -> str:
    parts = [_STAGES.get(progress.stage, progress.stage)]
    if progress.best is not None:
        gain = f" ({progress.default / progress.best:.2f} ×)" if progress.default is not None else ""
        parts.append(f"best {duration(progress.best)}{gain}")
    if progress.tried:
        parts.append(f"{progress.tried} tried, {progress.failed} failed, {max(0, progress.left)} left")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return " · ".join(parts)


def _bar(progress: Progress) -> ProgressBar:
    total = None if progress.seconds_left is None else progress.seconds + progress.seconds_left
    return ProgressBar(total=total or 1.0, completed=progress.seconds if total else 0.0, width=24, pulse=total is None)
