"""Interactive plots of one slice's entries: parallel coordinates, pairs of decisions, and runs side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vkernels.autotune.figures import pairs, parallel
from vkernels.autotune.report import NONE, ReportedSlice, choices_of
from vkernels.autotune.space import Value
from vkernels.autotune.trials import Trial
from vkernels.ir.errors import ArgumentError

from ..html.charts import Plots, plain

MAX_RUNS = 6
"""Runs that are compared: those with the most trials."""


def plot_slice(plots: Plots, id: str, part: ReportedSlice) -> tuple[str, ...]:
    """Add what the entries of a slice allow; return the names of the plots, whose elements are `id` and a name."""
    trials = _trials(part)
    made = []
    for name, make, height in (("parallel", parallel, 360), ("pairs", pairs, 520)):
        try:
            plots.add(f"{id}-{name}", make(trials), height)
        except ArgumentError:  # too few plans have a time
            continue
        made.append(name)
    if _plot_runs(plots, f"{id}-runs", part):
        made.append("runs")
    return tuple(made)


def _trials(part: ReportedSlice) -> Sequence[Trial]:
    return [
        Trial(
            number, entry.shown, entry.constants, {name: _value(text) for name, text in choices_of(entry).items()},
            entry.seconds, value=entry.rank,
        )
        for number, entry in enumerate(part.group.timed)
    ]  # fmt: skip


def _value(text: str) -> Value:
    """A number as one, so that axes are in its order."""
    return int(text) if text.isdigit() else None if text == NONE else text


def _plot_runs(plots: Plots, id: str, part: ReportedSlice) -> bool:
    """The best time so far of each run of its own, by trial, if there are several runs with several trials."""
    from plotly.graph_objects import Figure

    runs = sorted(part.convergence, key=lambda run: -len(run.trials))[:MAX_RUNS]
    if len(runs) < 2:
        return False
    begun: dict[str, float] = {}
    for entry in part.group.entries:
        name, when = entry.provenance.run, entry.provenance.when
        begun[name] = min(when, begun.get(name, when))
    figure = Figure()
    for run in sorted(runs, key=lambda run: begun[run.run]):
        steps = [(trial, best) for trial, _, best in run.trials if best is not None]
        said = time.strftime("%Y-%m-%d %H:%M", time.localtime(begun[run.run]))
        figure.add_scatter(
            x=[trial for trial, _ in steps], y=[1e6 * best for _, best in steps], mode="lines",
            name=plain(f"{said}, {len(run.trials)} trials"), line={"shape": "hv"},
        )  # fmt: skip
    figure.update_xaxes(title="trial of the run")
    figure.update_yaxes(title="best so far, µs", type="log")
    plots.add(id, figure)
    return True
