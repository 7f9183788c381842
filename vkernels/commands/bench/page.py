"""The results of a sparse-network benchmark as one HTML page that needs no network."""

from __future__ import annotations

from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.sparse_network.bench.harness import Results

from ..html import render
from ..html.plots import Plots
from .charts import plot_live_images, rates, time_spent
from .show import HEADS, LEGEND, ceilings_text, row_of, runs_of, setup_text

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
