"""Search configurations of plain Triton kernels, and describe the winners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from time import monotonic
from typing import Any

from .drive import Stop, drive
from .result import MEASURED, STATIC_BOUND
from .searches import DEFAULT_SEARCH, SEARCHES, FailedPoint
from .space import Point
from .triton_bounds import TritonTask
from .triton_configs import Ahead, Bound, ConfigSpace, OutOfTimeError, TritonConfig

FINALISTS = 6
"""Configurations that are timed in turns at the end, beside the author's."""
WORTHWHILE = 0.01
"""A configuration must be faster than the author's by this fraction to replace it."""


@dataclass(frozen=True)
class TritonTrial:
    """A configuration with its seconds, measured or bounded; or why it has none."""

    config: TritonConfig
    seconds: float | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The trial as JSON."""
        return {"config": self.config.to_json(), "seconds": self.seconds, "reason": self.reason}


@dataclass(frozen=True)
class TritonTuned:
    """The result for one device or slice. `best`: None if no configuration works; `given`: the author's first.

    `ranked_by`: `static bound` or `measured`. `count`: configurations of the space. `varied`: the constants that were
    changed. `notes`: what was left out.
    """

    kernel: str
    target: str
    best: TritonTrial | None
    given: TritonTrial | None
    trials: tuple[TritonTrial, ...]
    ranked_by: str
    count: int
    varied: tuple[str, ...]
    stopped: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float | None:
        """How many times faster than the author's first configuration the best one is."""
        if self.best is None or self.given is None or not self.best.seconds or not self.given.seconds:
            return None
        return self.given.seconds / self.best.seconds

    def to_json(self) -> dict[str, Any]:
        """The result as JSON; docs/json.md documents the fields."""
        return {
            "kernel": self.kernel, "target": self.target, "ranked_by": self.ranked_by,
            "best": None if self.best is None else self.best.to_json(),
            "given": None if self.given is None else self.given.to_json(),
            "gain": self.gain, "trials": [trial.to_json() for trial in self.trials], "count": self.count,
            "varied": list(self.varied), "stopped": self.stopped, "seconds": self.seconds, "notes": list(self.notes),
        }  # fmt: skip


def tune_triton(
    task: TritonTask,
    target: str,
    space: ConfigSpace,
    seconds_of: Bound,
    stop: Stop,
    *,
    seed: int = 0,
    ahead: Ahead | None = None,
    ranked_by: str = STATIC_BOUND,
    compare: Callable[[Sequence[TritonConfig]], Sequence[float]] | None = None,
    on_trial: Callable[[TritonTrial], object] = lambda trial: None,
    notes: Sequence[str] = (),
) -> TritonTuned:
    """Search a space of configurations; an interrupt ends the search. `ahead`: compiles them before their seconds are
    asked for. `compare`: times finalists in turns. The author's configuration is tried first, and stays unless another
    one is faster by more than `WORTHWHILE`.
    """
    began = monotonic()
    name = DEFAULT_SEARCH if space.varied else "exhaustive"
    search = SEARCHES[name](space.space, seed=seed, seeds=[space.given])
    trials: dict[Point, TritonTrial] = {}

    def prepare(points: Sequence[Point]) -> None:
        if ahead is not None:
            ahead.begin([space.configs[point] for point in points])

    def measure(point: Point) -> float | FailedPoint:
        config = space.configs[point]
        found = next(iter(seconds_of([config])))
        is_time = isinstance(found, float) and isfinite(found) and found > 0
        trial = TritonTrial(config, found) if is_time else TritonTrial(config, None, str(found))  # type: ignore[arg-type]
        trials[point] = trial
        on_trial(trial)
        return FailedPoint(trial.reason) if trial.seconds is None else trial.seconds

    try:
        at_once, rolling = (lambda: 1, False) if ahead is None else (ahead.at_once, ahead.rolling)
        stopped = drive(search, measure, stop, monotonic, at_once, prepare, rolling)
    except OutOfTimeError:
        stopped = "seconds"
    except KeyboardInterrupt:
        stopped = "interrupted"
    if compare is not None and stopped != "interrupted":
        trials |= _finals(trials, space.given, compare)
    given = trials.get(space.given)
    best = _best(list(trials.values()), given)
    return TritonTuned(
        task.source.shown, target, best, given, tuple(trials.values()), ranked_by, len(space.configs), space.varied,
        stopped, monotonic() - began, tuple(notes),
    )  # fmt: skip


def _finals(
    trials: Mapping[Point, TritonTrial], given: Point, compare: Callable[[Sequence[TritonConfig]], Sequence[float]]
) -> dict[Point, TritonTrial]:
    """The fastest configurations and the author's, with their times in turns; slower ones are scaled to these."""
    timed = sorted((t.seconds, point) for point, t in trials.items() if t.seconds is not None)
    chosen = [point for _, point in timed[:FINALISTS]]
    chosen += [given] if given not in chosen and any(point == given for _, point in timed) else []
    if len(chosen) < 2:
        return {}
    again = compare([trials[point].config for point in chosen])
    slowest = max(again)
    found = {point: replace(t, seconds=max(t.seconds, slowest)) for point, t in trials.items() if t.seconds is not None}
    return found | {p: replace(trials[p], seconds=s) for p, s in zip(chosen, again, strict=True)}


def _best(trials: Sequence[TritonTrial], given: TritonTrial | None) -> TritonTrial | None:
    timed = [trial for trial in trials if trial.seconds is not None]
    best = min(timed, key=lambda trial: trial.seconds or 0.0, default=None)
    if best is None or given is None or given.seconds is None or best.seconds is None:
        return best
    return best if best.seconds < (1 - WORTHWHILE) * given.seconds else given


def by_target(results: Sequence[TritonTuned]) -> str:
    """The winners as Python: a dict of `triton.Config` by device or slice."""
    lines = [f"    {result.target!r}: {result.best.config}," for result in results if result.best is not None]
    names = ", ".join(dict.fromkeys(result.kernel for result in results))
    said = "static bounds of the binaries" if any(r.ranked_by != MEASURED for r in results) else "measurements"
    head = f"# The best configurations of {names}, by {said}; written by `vk tune`.\nimport triton\n\n"
    return head + "\n".join(["CONFIGS = {", *lines, "}"]) + "\n"


def with_usual(answer: Mapping[str, Any], constants: Mapping[str, Any]) -> TritonConfig:
    """A configuration as a worker describes it, with what Triton takes where it says nothing."""
    settings = {n: v for n, v in (answer["settings"] or {}).items() if v is not None}
    made = TritonConfig({**constants, **answer["constants"]}, settings=settings)
    return replace(made, warps=answer["warps"] or made.warps, stages=answer["stages"] or made.stages)
