"""A page that shows tuning while it runs: one HTML file without scripts, which browsers load again by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic

from rich.console import Console

from vkernels.autotune.progress import Listener, Progress
from vkernels.autotune.result import TuningResult
from vkernels.ir.errors import Error
from vkernels.ir.write_file import write_file

from ..formatting import format_seconds, plural
from ..html import render

REFRESH, PAUSE = 2, 1.0
"""Seconds after which browsers load the page again, and between two writes of it."""
WIDTH, HEIGHT = 480.0, 120.0
"""Size of the plot of a search."""

ENDS = {
    "seconds": "until the time was over", "evaluations": "as many as the budget allows", "space": "no others are left",
    "interrupted": "until it was interrupted",
}  # fmt: skip
STAGES = {
    "reading": "reading the space", "searching": "searching", "undoing": "which decisions matter",
    "finalists": "comparing finalists", "compiling": "compiling",
}  # fmt: skip


Done = Callable[[Sequence[TuningResult]], None]


@dataclass
class Course:
    """One task on one slice: its last progress, and the best time whenever it changed, by seconds since the start."""

    last: Progress
    bests: list[tuple[float, float]] = field(default_factory=list)

    def note(self, progress: Progress) -> None:
        self.last = progress
        if progress.best is not None and (not self.bests or self.bests[-1][1] != progress.best):
            self.bests.append((progress.seconds, progress.best))

    @property
    def gain(self) -> str:
        best, default = self.last.best, self.last.default
        return f"×{default / best:.2f}" if best and default else ""

    @property
    def numbers(self) -> Iterator[tuple[str, str]]:
        """What a table shows of it."""
        last = self.last
        yield "stage", STAGES.get(last.stage, last.stage)
        yield "default", "" if last.default is None else format_seconds(last.default)
        yield "best so far", "" if last.best is None else f"{format_seconds(last.best)} {self.gain}".strip()
        yield "plans", f"{last.tried} tried, {last.failed} failed, {max(0, last.left)} left"
        yield (
            "seconds",
            f"{last.seconds:.0f}" + ("" if last.seconds_left is None else f", {last.seconds_left:.0f} left"),
        )

    @property
    def line(self) -> str:
        """The best time over the time of the search, as points of an SVG line; empty before there is a time."""
        if not self.bests:
            return ""
        last = self.last
        total = max(last.seconds + (last.seconds_left or 0.0), 1e-9)
        slowest = max(last.default or 0.0, max(best for _, best in self.bests))
        points: list[tuple[float, float]] = []
        for at, best in self.bests:
            x, y = WIDTH * min(1.0, at / total), HEIGHT * (1 - best / slowest)
            points += [(x, points[-1][1])] if points else []
            points.append((x, y))
        points.append((WIDTH * min(1.0, last.seconds / total), points[-1][1]))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


@dataclass
class LivePage:
    """The page of a run. For several threads. `count`: number of tasks, 0 if it is not known."""

    path: Path
    console: Console
    count: int = 0
    clock: Callable[[], float] = monotonic
    courses: dict[tuple[str, str], Course] = field(default_factory=dict)
    done: list[TuningResult] = field(default_factory=list)
    _written: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)
    _gave_up: bool = False

    def report(self, progress: Progress) -> None:
        """Show a task's progress, if the page is not fresh."""
        with self._lock:
            key = str(progress.task), progress.slice
            self.courses.setdefault(key, Course(progress)).note(progress)
            if self.clock() - self._written >= PAUSE:
                self._write(REFRESH)

    def finish(self, results: Sequence[TuningResult]) -> None:
        """Show the results of tasks that have ended."""
        with self._lock:
            self.done += results
            for result in results:
                self.courses.pop((str(result.task), result.slice), None)
            self._write(REFRESH)

    def close(self) -> None:
        """Write the page for the last time: browsers do not load it again."""
        with self._lock:
            self._write(None)

    def _write(self, refresh: int | None) -> None:
        if self._gave_up:
            return
        self._written = self.clock()
        try:
            write_file(self.path, self.page(refresh))
        except Error as error:  # tuning goes on
            self._gave_up = True
            self.console.print(f"--live: {error}", style="yellow", soft_wrap=True)

    def page(self, refresh: int | None) -> str:
        """The page as HTML. `refresh`: seconds after which browsers load it again; None for the last one."""
        ended = len({str(result.task) for result in self.done})
        state = "Tuning" if refresh else "Tuned"
        of = f" of {self.count}" if self.count else ""
        return render(
            "live.html",
            title=f"{state}: {ended}{of} kernels and shapes",
            refresh=refresh,
            done=[*map(_row, self.done)],
            courses=list(self.courses.items()) if refresh else [],
            width=WIDTH,
            height=HEIGHT,
        )


def _row(result: TuningResult) -> tuple[str, ...]:
    tried = len(result.successes) + len(result.failures)
    return (
        str(result.task), result.slice, "" if result.default is None else format_seconds(result.default.seconds),
        "no plan" if result.best is None else format_seconds(result.best.seconds),
        "" if result.gain is None else f"×{result.gain:.2f}", plural(tried, "plan"), f"{result.seconds:.0f} s",
    )  # fmt: skip


@contextmanager
def live_page(path: Path | None, console: Console, count: int, report: Listener) -> Iterator[tuple[Listener, Done]]:
    """A listener that shows progress on the page, too, and what to call with results; without a path only `report`."""
    if path is None:
        yield report, lambda results: None
        return
    page = LivePage(path, console, count)
    console.print(f"{path}: open it in a browser; it shows the progress", soft_wrap=True)

    def both(progress: Progress) -> None:
        report(progress)
        page.report(progress)

    try:
        yield both, page.finish
    finally:
        page.close()


def until(stopped: str) -> str:
    """What ended a search, in words."""
    return ENDS.get(stopped, f"stopped by {stopped}")
