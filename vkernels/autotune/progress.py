"""What tuning tells of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vkernels.inspect.task import Task


@dataclass(frozen=True)
class Progress:
    """The progress of tuning.

    `stage`: `reading`, `searching`, `undoing` or `finalists`. `tried` includes earlier measurements. `left`: untried
    points of the space. `best`, `default`: seconds per call so far. `seconds_left`: None without a time limit.
    """

    task: Task
    slice: str
    stage: str
    tried: int = 0
    failed: int = 0
    left: int = 0
    best: float | None = None
    default: float | None = None
    seconds: float = 0.0
    seconds_left: float | None = None


Listener = Callable[[Progress], object]
