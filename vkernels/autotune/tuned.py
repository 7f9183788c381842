"""Results of `vk.tune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkernels.inspect.task import Task, kernel_of
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import ArgumentError, SetupError
from vkernels.ir.optional_packages import not_installed
from vkernels.ir.write_file import write_file

from .measure.fixed_plans import with_plan
from .result import Crossed, TuningResult
from .trials import TIME, Trial

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Tuned:
    """The result for a kernel on one slice.

    `best`: the best trial, None if every plan failed; `default`: the plan that runs without tuning. `trials`: all, in
    order. `speedup`: how many times better than the default the best is, by the `objective`, in the final comparison;
    `interval`: its 95 % confidence interval. `stopped`: what ended the search: `seconds`, `evaluations`, `space` (all
    was tried) or `interrupted`. `seconds`: duration. `details`: everything that `vk tune` prints.
    """

    task: Task
    slice: str
    objective: str
    best: Trial | None
    default: Trial | None
    trials: tuple[Trial, ...]
    speedup: float | None
    interval: tuple[float, float] | None
    stopped: str
    seconds: float
    details: TuningResult = field(repr=False)

    def __str__(self) -> str:
        """One line for people."""
        where = f"{self.task} on {self.slice}"
        if self.best is None and not self.trials:
            return f"{where}: the budget ended before a plan was timed; give more time"
        if self.best is None:
            return f"{where}: no plan could be run ({len(self.trials)} tried)"
        if self.speedup is None or self.interval is None:
            return f"{where}: {self.best.value:.3g} ({self.objective}); the default plan failed"
        unit = "times as fast as" if self.objective == TIME else f"times better ({self.objective}) than"
        sure = f"95 % interval {self.interval[0]:.3f}–{self.interval[1]:.3f}"
        return f"{where}: {self.speedup:.2f} {unit} the default plan ({sure}); {len(self.trials)} plans tried"

    @property
    def kernel(self) -> Any:
        """The kernel with its best plan and constants, to call with arguments of these sizes.

        Raises `ArgumentError` if no plan could be run.
        """
        if self.best is None:
            raise ArgumentError(f"{self.task}: no plan could be run")
        fixed = with_plan(kernel_of(self.task), self.best.plan)
        return partial(fixed, **self.best.constants) if self.best.constants else fixed

    def to_frame(self) -> Any:
        """The trials as a pandas data frame, a column for each decision. Raises `SetupError` without pandas."""
        try:
            import pandas
        except ImportError as error:
            raise SetupError("to_frame needs pandas: pip install pandas; `trials` and `to_dict` do not") from error
        return pandas.DataFrame([trial.to_dict() for trial in self.trials])

    def to_dict(self) -> dict[str, Any]:
        """The result as numbers, texts, lists and dicts."""
        return {
            "task": self.task.to_json(), "slice": self.slice, "objective": self.objective,
            "best": None if self.best is None else self.best.to_dict(),
            "default": None if self.default is None else self.default.to_dict(),
            "speedup": self.speedup, "interval": None if self.interval is None else list(self.interval),
            "stopped": self.stopped, "seconds": self.seconds, "trials": [trial.to_dict() for trial in self.trials],
        }  # fmt: skip

    def plot(self, kind: str = "history") -> Figure:
        """A plotly figure: `history`, `importance`, `parallel` (parallel coordinates) or `pairs` (of decisions).

        Raises `ArgumentError` for another kind, or if too few plans have a time, and `SetupError` without plotly.
        """
        from .figures import FIGURES

        if kind not in FIGURES:
            raise ArgumentError(f"plot: there is no {kind!r}; {did_you_mean(kind, list(FIGURES))}")
        with _needing_plotly():
            return FIGURES[kind](self.trials)

    def write_report(self, path: str | Path) -> None:
        """Write all plots as one HTML file that needs no network. Raises `SetupError` without plotly."""
        from .figures import page_of

        with _needing_plotly():
            page = page_of(str(self), self.trials)
        write_file(Path(path), page)


@contextmanager
def _needing_plotly() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed(error) from None


@dataclass(frozen=True)
class Tunings(Mapping[str, Tuned]):
    """Results of several slices, or of the kernels that a function calls, by name.

    `crossed`: each slice's best plan on all slices, if they were compared. `failed`: why others could not be tuned.
    `calls`: how often a run of the function calls each kernel.
    """

    results: Mapping[str, Tuned]
    crossed: Crossed | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tuned:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __str__(self) -> str:
        """A line for each."""
        return "\n".join([*map(str, self.results.values()), *(f"{name}: {why}" for name, why in self.failed.items())])

    def to_dict(self) -> dict[str, Any]:
        """The results as numbers, texts, lists and dicts."""
        crossed = None if self.crossed is None else self.crossed.to_json()
        results = {name: result.to_dict() for name, result in self.results.items()}
        return {"results": results, "crossed": crossed, "failed": dict(self.failed), "calls": dict(self.calls)}

    def to_frame(self) -> Any:
        """All trials as a pandas data frame, with their result's name in the column `of`."""
        rows = [{"of": name, **trial.to_dict()} for name, result in self.results.items() for trial in result.trials]
        try:
            import pandas
        except ImportError as error:
            raise SetupError("to_frame needs pandas: pip install pandas; `to_dict` does not") from error
        return pandas.DataFrame(rows)
