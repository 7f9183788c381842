"""What `vk tune` shows of plain Triton kernels while it runs, and why configurations failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from vkernels.autotune.drive import Stop
from vkernels.autotune.triton_tuning import TritonTrial

from ..formatting import format_seconds

MAX_REASONS = 4
"""Kinds of reasons that are printed, the most frequent first."""


@contextmanager
def shown_trials(console: Console, name: str, stop: Stop) -> Iterator[Callable[[TritonTrial], None]]:
    """Show the trials so far, if the console is a terminal; yields what gets each of them."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    trials: list[TritonTrial] = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        line = progress.add_task(f"{name}: compiling")

        def note(trial: TritonTrial) -> None:
            trials.append(trial)
            progress.update(line, description=f"{name}: {trials_so_far(trials)}{_of(stop)}")

        yield note


def trials_so_far(trials: Sequence[TritonTrial]) -> str:
    """How many, and the best time with its gain over the author's configuration, which is the first."""
    times = [trial.seconds for trial in trials if trial.seconds is not None]
    failed = len(trials) - len(times)
    parts = [f"{len(trials)} tried", *([f"{failed} failed"] if failed else [])]
    if times:
        first = trials[0].seconds
        gain = "" if first is None else f" ({first / min(times):.2f} ×)"
        parts.append(f"best {format_seconds(min(times))}{gain}")
    return ", ".join(parts)


def failures(trials: Sequence[TritonTrial]) -> list[str]:
    """Why configurations failed, most frequent first; those that differ in numbers only are counted together."""
    alike: dict[str, list[str]] = {}
    for trial in trials:
        if trial.seconds is None:
            alike.setdefault(re.sub("[0-9]+", "", trial.reason), []).append(trial.reason)
    groups = sorted(alike.values(), key=len, reverse=True)
    lines = [
        f"{len(each)} failed: {each[0]}{' (figures of the first)' if len(set(each)) > 1 else ''}"
        for each in groups[:MAX_REASONS]
    ]
    rest = sum(map(len, groups[MAX_REASONS:]))
    return [*lines, *([f"{rest} failed for other reasons"] if rest else [])]


def _of(stop: Stop) -> str:
    limits = [] if stop.seconds is None else [f"{stop.seconds:g} s"]
    limits += [] if stop.evaluations is None else [f"{stop.evaluations} configurations"]
    return f", until {' or '.join(limits)}" if limits else ""
