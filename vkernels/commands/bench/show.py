"""Print benchmark results: a table for each class, because classes cannot be compared."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from vkernels.sparse_network.bench.harness import Results, Size
from vkernels.sparse_network.bench.measure import NetworkMeasurement, NetworkRates, NetworkRun

from ..formatting import format_count

LEGEND = (
    "Edges per second, in millions. Real: images alive at each layer × its connections. Executed: multiply-adds that "
    "ran. Nominal: all images × connections of all layers, as the challenge counts. Seconds: inference time; "
    "preprocessing runs once; reading loads weights that do not stay in memory. Of gathers, multiply-adds, copying: "
    "share of the maximum measured on this machine."
)


def show(results: Results, target: str, to_errors: bool) -> None:
    """Print the results; `to_errors`: to standard error, because standard output is taken."""
    console = Console(stderr=to_errors, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    console.print(f"{setup_text(results, target)}; {ceilings_text(results)}")
    for kind in results.settings.kinds:
        rows = runs_of(results, kind)
        if rows:
            _show_class(console, kind, rows, results)
    if results.networks:
        console.print(LEGEND, style="dim")
    for each in results.left_out:
        console.print(f"left out: {each.size} {each.what}: {each.reason}", markup=False)
    if results.networks:
        console.print(f"categories: {'match' if results.all_match else 'differ'}")
    else:
        console.print("nothing was run")


def setup_text(results: Results, target: str) -> str:
    return f"{target}, {results.settings.threads} threads, features in {results.settings.storage}"


def ceilings_text(results: Results) -> str:
    ceilings = results.ceilings
    return (
        f"at most {format_count(ceilings.gathers)} gathers from cache, "
        f"{format_count(ceilings.multiply_adds)} multiply-adds, {ceilings.copy / 1e9:.3g} GB copied, a second"
    )


def runs_of(results: Results, kind: str) -> list[tuple[Size, NetworkMeasurement, NetworkRun]]:
    """Return the runs of one class, network by network."""
    return [(size, measured, run) for size, measured in results.networks for run in measured.runs if run.kind == kind]


WIDE = 120
"""Columns of output that goes to no terminal."""

HEADS = (
    "network", "images", "categories", "seconds", "real", "executed", "nominal", "of gathers", "of multiply-adds",
    "of copying", "preprocessing", "reading",
)  # fmt: skip


SHORT = (
    "network",
    "images",
    "categories",
    "seconds",
    "real",
    "executed",
    "nominal",
    "of gathers",
    "preprocessing",
    "reading",
)
"""The columns that fit a terminal."""


def row_of(size: Size, measured: NetworkMeasurement, run: NetworkRun, results: Results) -> tuple[str, ...]:
    """Return a run's cells, in the order of `HEADS`."""
    rates = NetworkRates.of(run, measured, results.ceilings)
    return (
        str(size), str(measured.images), "match" if run.matches else "differ",
        f"{run.seconds.middle:.3g} ({run.seconds.least:.3g} to {run.seconds.most:.3g})",
        *(f"{rate / 1e6:.4g}" for rate in (rates.real, rates.executed, rates.nominal)),
        *(f"{part:.0%}" for part in (rates.of_gathers, rates.of_multiply_adds, rates.of_copy)),
        f"{run.preprocessing:.3g}", f"{run.reading:.3g}" if run.reading else "",
    )  # fmt: skip


def _show_class(
    console: Console, kind: str, rows: list[tuple[Size, NetworkMeasurement, NetworkRun]], results: Results
) -> None:
    table = Table(box=None, title=f"class {kind}", title_justify="left")
    shown = [HEADS.index(head) for head in SHORT]
    for head in SHORT:
        table.add_column(head, no_wrap=head == "network", justify="left" if head == "network" else "right")
    for size, measured, run in rows:
        texts = row_of(size, measured, run, results)
        table.add_row(*(texts[place] for place in shown))
    console.print(table)
    for size, _, run in rows:
        if run.found != kind:
            console.print(f"{size}: ran as {run.found}: {'; '.join(run.findings)}", markup=False)
        for name, peer in run.peers.items():
            times = f"{peer.ratio.middle:.2f} ({peer.ratio.least:.2f} to {peer.ratio.most:.2f})"
            right = "" if peer.matches else "; its categories differ"
            console.print(f"{size}: {times} times faster than {name}, {peer.seconds.middle:.3g} s{right}", markup=False)
