"""The results of a sparse-network benchmark as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.sparse_network.bench.harness import Results, Size
from vkernels.sparse_network.bench.machine_peaks import MachinePeaks
from vkernels.sparse_network.bench.measure import NetworkMeasurement, NetworkRates, NetworkRun

from ..formatting import format_count, format_seconds
from ..html import render
from ..html.charts import BarChart, BarRow, Plots, Segment
from .results import HEADS, LEGEND, ceilings_text, row_of, runs_of, setup_text

PARTS = ("preprocessing", "reading", "transfer", "kernels", "rest")
WIDTH, LEFT, RIGHT, ROW_HEIGHT = 420.0, 84.0, 66.0, 22.0
"""Narrow, so that the charts fit a phone."""

Rows = Sequence[tuple[Size, NetworkMeasurement, NetworkRun]]


def rates(rows: Rows, ceilings: MachinePeaks) -> BarChart:
    """For each network of one class the executed edges a second, and the real ones among them as a darker bar.

    More edges may be real than are executed, where equal outputs are computed once: then all of the bar is dark.
    """
    found = [(str(size), NetworkRates.of(run, measured, ceilings)) for size, measured, run in rows]
    top = max(ceilings.gathers, *(rate.executed for _, rate in found))
    bars = []
    for name, rate in found:
        title = f"{name}: {_rate(rate.real)} real, {_rate(rate.executed)} executed, {_rate(rate.nominal)} nominal"
        segments = (
            Segment(rate.executed / top, "room", title),
            Segment(min(rate.real, rate.executed) / top, "need", title),
        )
        bars.append(BarRow(name, segments, _rate(rate.executed), rate.executed / top))
    heads = [(0.4, "executed, darker: real; line: most gathers")]
    return _chart("Edges a second by network", bars, heads=heads, limit=ceilings.gathers / top)


def time_spent(rows: Rows) -> BarChart:
    """For each network of one class the shares of its time, one part after another."""
    bars = []
    for size, _, run in rows:
        rest = max(0.0, run.seconds.middle - run.transfer - run.kernels)
        parts = dict(zip(PARTS, (run.preprocessing, run.reading, run.transfer, run.kernels, rest), strict=True))
        segments, start = [], 0.0
        total = sum(parts.values())
        for part, seconds in parts.items():
            share = seconds / total if total else 0.0
            segments.append(Segment(share, part, f"{size}: {part} {format_seconds(seconds)}", start))
            start += share
        bars.append(BarRow(str(size), segments, format_seconds(total), start))
    return _chart("Where the time goes, by network", bars, legend=[(part, part) for part in PARTS])


def _chart(title: str, rows: Sequence[BarRow], **options: object) -> BarChart:
    return BarChart(title, rows, width=WIDTH, left=LEFT, right=RIGHT, row_height=ROW_HEIGHT, **options)  # type: ignore[arg-type]


def plot_live_images(plots: Plots, id: str, networks: Sequence[tuple[Size, NetworkMeasurement]]) -> None:
    """Plot the share of images alive before each layer, for the deepest network of each width; logarithmic axes."""
    from plotly.graph_objects import Figure

    deepest: dict[int, tuple[Size, NetworkMeasurement]] = {}
    for size, measured in networks:
        if size.neurons not in deepest or deepest[size.neurons][0].layers < size.layers:
            deepest[size.neurons] = (size, measured)
    figure = Figure()
    for neurons, (_, measured) in sorted(deepest.items()):
        survivors = len(measured.truth.survivors)
        live = [*measured.truth.live.tolist(), survivors]
        figure.add_scatter(
            x=list(range(1, len(live) + 1)), y=[100 * count / max(1, measured.images) for count in live], mode="lines",
            name=f"{neurons}: {format_count(survivors)} of {measured.images}",
        )  # fmt: skip
    figure.update_xaxes(title="layer", type="log")
    figure.update_yaxes(title="% of images alive", type="log")
    plots.add(id, figure)


def _rate(edges: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if edges >= size:
            return f"{edges / size:.3g} {unit}/s"
    return f"{edges:.3g}/s"


CLASSES = {
    "general": "Any sparse weights: gather, multiply, clamp. Dead images are dropped.",
    "structured": "Uses structure that preprocessing found in the weights: equal outputs are computed once, outputs"
    " with the same inputs run as blocks.",
    "saturating": "Images are finished once they have provably reached a state that no later layer changes.",
}
"""What each class may use. Rates of different classes cannot be compared."""


def write_page(path: Path, results: Results, target: str, data: str) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(results, target, data))


def page_of(results: Results, target: str, data: str) -> str:
    """Return the page as HTML."""
    plots = Plots()
    if results.networks:
        plot_live_images(plots, "live", results.networks)
    classes = [(kind, runs_of(results, kind)) for kind in results.settings.kinds]
    return render(
        "bench.html",
        plots,
        title="Sparse networks of the Graph Challenge",
        results=results,
        setup=f"{setup_text(results, target)}, images: {data}; {ceilings_text(results)}.",
        classes=[(kind, CLASSES.get(kind, ""), rows) for kind, rows in classes if rows],
        legend=LEGEND,
        heads=HEADS,
        row_of=row_of,
        rates=rates,
        time_spent=time_spent,
    )
