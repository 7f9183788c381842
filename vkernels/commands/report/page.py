"""The tuning report as one HTML page: an overview, then each kernel and shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vkernels.autotune.report import ReportedKernel, TuningReport

from ..db.options import date
from ..formatting import format_seconds, plural
from ..html import render
from ..html.plots import Plots
from . import texts
from .charts import plot_convergence, weights

TITLE = "Tuning report"
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
    return render(
        "tuning.html",
        plots,
        title=TITLE,
        summary=summary,
        subjects=list(zip(findings.subjects, plotted, strict=True)),
        overview=_overview,
        facts=_facts,
        failures=_failures,
        weights=weights,
        texts=texts,
    )


def _overview(subject: ReportedKernel) -> Iterator[Sequence[object]]:
    """For each slice: name, best time, gain, tries, date."""
    for part in subject.slices:
        best = format_seconds(part.best.seconds or 0) if part.best else "all failed"
        yield part.name, best, texts.gain_of(part), len(part.group.entries), date(part.group.latest)[:10]


def _facts(subject: ReportedKernel) -> list[Row]:
    """The rows of the table of best plans, but for the plans' own decisions."""
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
    """A row for each reason, the commonest first: counts by slice, what it means, an example."""
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
