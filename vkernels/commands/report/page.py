"""The tuning report as one HTML page: an overview, then each kernel and shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log10

from vkernels.autotune.report import DecisionWeight, ReportedKernel, TuningReport

from ..db.options import date
from ..formatting import format_seconds, plural
from ..html import render
from ..html.charts import BarChart, BarRow, Plots, Segment, plain
from ..report import texts
from .plots import plot_slice

COLOURS = ("#4c7fd0", "#2b8a3e", "#a8518a", "#d9822b", "#7950f2", "#0b7285")
MAX_SLICES = len(COLOURS)
MAX_POINTS = 5000
MAX_CHOICES = 10
MAX_FACTOR = 10.0
"""Where the bars end: so many times the best."""
MAX_TICKS = 10
"""Of so many trials each has a tick: else there would be some for parts of a trial."""
PLOT_TICKS = (0.1, 0.2, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 300, 1000)


def plot_convergence(plots: Plots, id: str, subject: ReportedKernel) -> int | None:
    """Plot the runs of each slice, one after another; return how many slices were left out, None without a plot."""
    from plotly.graph_objects import Figure

    runs = [(part, part.progress) for part in subject.slices]
    shown = [(part, run, part.best.seconds) for part, run in runs if run and part.best and part.best.seconds]
    if not shown:
        return None
    figure, fastest, slowest = Figure(), 1.0, 1.0
    for colour, (part, run, best) in zip(COLOURS, shown, strict=False):
        trials = run.trials[:: max(1, len(run.trials) // MAX_POINTS)]
        timed = [(trial, seconds / best) for trial, seconds, _ in trials if seconds is not None]
        slowest = max([slowest, *(factor for _, factor in timed)])
        # A trial can be faster than the best is when all finalists are compared again.
        fastest = min([fastest, *(factor for _, factor in timed)])
        until = [(trial, seconds / best) for trial, _, seconds in trials if seconds is not None]
        failed = [trial for trial, seconds, _ in trials if seconds is None]
        name, style = plain(part.name), {"legendgroup": part.name, "marker": {"color": colour}}
        figure.add_scatter(
            x=[trial for trial, _ in until], y=[factor for _, factor in until], mode="lines", name=name,
            line={"shape": "hv", "color": colour}, legendgroup=part.name,
        )  # fmt: skip
        figure.add_scatter(
            x=[trial for trial, _ in timed], y=[factor for _, factor in timed], mode="markers", name=f"{name}: tried",
            opacity=0.45, showlegend=False, **style,
        )  # fmt: skip
        figure.add_scatter(
            x=failed, y=[0.95 * fastest] * len(failed), mode="markers", marker={"symbol": "x", "color": "#c92a2a"},
            name=f"{name}: failed", showlegend=False, legendgroup=part.name,
        )  # fmt: skip
    few = max(len(run.trials) for _, run, _ in shown) <= MAX_TICKS
    figure.update_xaxes(title="trial", dtick=1 if few else None)
    figure.update_yaxes(
        title="× the best", type="log", range=[log10(0.92 * fastest), log10(max(1.5, 1.1 * slowest))],
        tickvals=PLOT_TICKS, ticktext=[f"×{tick}" for tick in PLOT_TICKS],
    )  # fmt: skip
    plots.add(id, figure)
    return max(0, len(shown) - MAX_SLICES)


def weights(choices: Sequence[DecisionWeight]) -> BarChart:
    """A bar for each choice: from what its second best value costs, to what its worst does."""
    shown = choices[:MAX_CHOICES]
    top = log10(max(min(MAX_FACTOR, max(choice.most for choice in shown)), 1.05))
    rows = []
    for choice in shown:
        second = [*choice.factors.values()][1]
        title = ", ".join(f"{value} ×{factor:.2f}" for value, factor in choice.factors.items())
        segments = (
            Segment(1.0, "room"),
            Segment(min(1.0, log10(choice.most) / top), "home shared", title),
            Segment(min(1.0, log10(second) / top), "need", title),
        )
        rows.append(BarRow(choice.name, segments, f"×{second:.2f}–{choice.most:.2f}", 1.0))
    return BarChart(
        "What each choice weighs: its second best value, and its worst", rows, width=480, right=92, row_height=24
    )


Row = tuple[str, Sequence[str]]


def page_of(findings: TuningReport, address: str) -> str:
    """Return the page as HTML. `address`: the database's."""
    plots = Plots()
    summary = (
        f"{address}: {plural(findings.entries, 'measurement')}, {plural(len(findings.subjects), 'kernel and shape')}"
    )
    if findings.stale:
        summary += f"; {findings.stale} more, made by other compiler versions, are left out"
    plotted = [plot_convergence(plots, f"plot{n}", subject) for n, subject in enumerate(findings.subjects)]
    drawn = [
        [plot_slice(plots, f"slice{n}-{m}", part) for m, part in enumerate(subject.slices[:MAX_SLICES])]
        for n, subject in enumerate(findings.subjects)
    ]
    return render(
        "tuning.html",
        plots,
        title="Tuning report",
        summary=summary,
        subjects=list(zip(findings.subjects, plotted, strict=True)),
        drawn=drawn,
        overview=_overview,
        facts=_facts,
        failures=_failures,
        weights=weights,
        texts=texts,
    )


def _overview(subject: ReportedKernel) -> Iterator[Sequence[object]]:
    for part in subject.slices:
        best = format_seconds(part.best.seconds or 0) if part.best else "all failed"
        yield part.name, best, texts.gain_of(part), len(part.group.entries), date(part.group.latest)[:10]


def _facts(subject: ReportedKernel) -> list[Row]:
    slices = subject.slices
    bests = [part.best for part in slices]
    rows: list[Row] = [
        ("time of a call", [format_seconds(b.seconds or 0) if b else "—" for b in bests]),
        ("interval", [f"{format_seconds(b.low or 0)} – {format_seconds(b.high or 0)}" if b else "" for b in bests]),
        ("gain", [texts.gain_of(part) for part in slices]),
        ("origin", [("final comparison" if b.final else b.origin) if b else "" for b in bests]),
        ("device", [(b or part.group.entries[0]).provenance.device for b, part in zip(bests, slices, strict=True)]),
        ("driver, clocks", [texts.when_of(part) for part in slices]),
        ("plans tried", [f"{len(part.group.entries)}, {sum(part.group.failures.values())} failed" for part in slices]),
    ]
    return [(name, cells) for name, cells in rows if any(cells)]


def _failures(subject: ReportedKernel) -> list[Row]:
    reasons = Counter[str]()
    for part in subject.slices:
        reasons.update(part.group.failures)
    return [
        (
            reason,
            (
                *(str(part.group.failures.get(reason, "")) for part in subject.slices),
                texts.REASONS.get(reason, ""),
                _example(subject, reason),
            ),
        )
        for reason, _ in reasons.most_common()
    ]


def _example(subject: ReportedKernel, reason: str) -> str:
    entries = (entry for part in subject.slices for entry in part.group.entries)
    messages = (entry.text.strip() for entry in entries if entry.failure == reason)
    return next((message.splitlines()[0][:160] for message in messages if message), "")
