"""Benchmark results as text, with a table for each class because classes cannot be compared, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from vkernels.sparse_network.bench.harness import Results, Size
from vkernels.sparse_network.bench.machine_peaks import MachinePeaks
from vkernels.sparse_network.bench.measure import NetworkMeasurement, NetworkRates, NetworkRun

from ..formatting import format_count
from ..results import table_of


def as_json(results: Results, target: str, data: str) -> dict[str, Any]:
    """All that was found."""
    settings = results.settings
    return {
        "target": target,
        "devices": list(settings.devices),
        "threads": settings.threads,
        "data": data,
        "storage": settings.storage,
        "seconds_limit": settings.seconds,
        "memory_bytes": settings.memory,
        "ceilings": {
            "copy_bytes_per_second": results.ceilings.copy,
            "multiply_adds_per_second": results.ceilings.multiply_adds,
            "gathers_per_second": results.ceilings.gathers,
        },
        "categories": _categories(results.all_match) if results.networks else "unknown",
        "networks": [_network(size, measured, results.ceilings) for size, measured in results.networks],
        "left_out": [
            {"network": str(each.size), "what": each.what, "reason": each.reason} for each in results.left_out
        ],
    }


def _network(size: Size, measured: NetworkMeasurement, ceilings: MachinePeaks) -> dict[str, Any]:
    return {
        "network": str(size),
        "neurons": size.neurons,
        "layers": size.layers,
        "images": measured.images,
        "pieces": measured.pieces,
        "rounds": measured.rounds,
        "held": measured.held,
        "survivors": len(measured.truth.survivors),
        "reference_seconds": measured.reference,
        "real_edges": measured.truth.real_edges,
        "nominal_edges": measured.nominal_edges,
        "live": measured.truth.live.tolist(),
        "runs": [_run(run, measured, ceilings) for run in measured.runs],
    }


def _run(run: NetworkRun, measured: NetworkMeasurement, ceilings: MachinePeaks) -> dict[str, Any]:
    rates = NetworkRates.of(run, measured, ceilings)
    return {
        "class": run.kind,
        "found": run.found,
        "findings": list(run.findings),
        "categories": _categories(run.matches),
        "preprocessing_seconds": run.preprocessing,
        "reading_seconds": run.reading,
        "transfer_seconds": run.transfer,
        "kernels_seconds": run.kernels,
        "seconds": run.seconds.middle,
        "seconds_spread": [run.seconds.least, run.seconds.most],
        "executed_edges": run.executed_edges,
        "moved_bytes": run.moved_bytes,
        "real_edges_per_second": rates.real,
        "executed_edges_per_second": rates.executed,
        "nominal_edges_per_second": rates.nominal,
        "of_copy": rates.of_copy,
        "of_multiply_adds": rates.of_multiply_adds,
        "of_gathers": rates.of_gathers,
        "live": list(run.live),
        "baselines": {
            name: {
                "categories": _categories(peer.matches),
                "seconds": peer.seconds.middle,
                "seconds_spread": [peer.seconds.least, peer.seconds.most],
                "ratio": peer.ratio.middle,
                "ratio_spread": [peer.ratio.least, peer.ratio.most],
            }
            for name, peer in run.peers.items()
        },
    }


def _categories(match: bool) -> str:
    return "match" if match else "differ"


LEGEND = (
    "Edges per second, in millions. Real: images alive at each layer × its connections. Executed: multiply-adds that "
    "ran. Nominal: all images × connections of all layers, as the challenge counts. Seconds: inference time; "
    "preprocessing runs once; reading loads weights that do not stay in memory. Of gathers, multiply-adds, copying: "
    "share of the maximum measured on this machine."
)


def show(results: Results, target: str, console: Console) -> None:
    """Print the results."""
    console.print(f"{setup_text(results, target)}; {ceilings_text(results)}")
    for kind in results.settings.kinds:
        rows = runs_of(results, kind)
        if rows:
            _show_class(console, kind, rows, results)
    if results.networks:
        console.print(LEGEND, style="dim")
    for each in results.left_out:
        console.print(f"left out: {each.size} {each.what}: {each.reason}")
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


HEADS = (
    "network", "images", "categories", "seconds", "real", "executed", "nominal", "of gathers", "of multiply-adds",
    "of copying", "preprocessing", "reading",
)  # fmt: skip


SHORT = tuple(head for head in HEADS if head not in ("of multiply-adds", "of copying"))
"""The columns that fit a terminal."""


def row_of(size: Size, measured: NetworkMeasurement, run: NetworkRun, results: Results) -> tuple[str, ...]:
    """Return a run's cells, in the order of `HEADS`."""
    rates = NetworkRates.of(run, measured, results.ceilings)
    return (
        str(size), str(measured.images), "match" if run.matches else "differ",
        f"{run.seconds.middle:.3g} ({run.seconds.least:.3g} to {run.seconds.most:.3g})",
        *(f"{rate / 1e6:,.0f}" for rate in (rates.real, rates.executed, rates.nominal)),
        *(f"{part:.0%}" for part in (rates.of_gathers, rates.of_multiply_adds, rates.of_copy)),
        f"{run.preprocessing:.3g}", f"{run.reading:.3g}" if run.reading else "",
    )  # fmt: skip


def _show_class(
    console: Console, kind: str, rows: list[tuple[Size, NetworkMeasurement, NetworkRun]], results: Results
) -> None:
    table = table_of(*SHORT, right=SHORT[1:], whole=["network"], title=f"class {kind}")
    for size, measured, run in rows:
        texts = dict(zip(HEADS, row_of(size, measured, run, results), strict=True))
        table.add_row(*(texts[head] for head in SHORT))
    console.print(table)
    for size, _, run in rows:
        if run.found != kind:
            console.print(f"{size}: ran as {run.found}: {'; '.join(run.findings)}")
        for name, peer in run.peers.items():
            times = f"{peer.ratio.middle:.2f} ({peer.ratio.least:.2f} to {peer.ratio.most:.2f})"
            right = "" if peer.matches else "; its categories differ"
            console.print(f"{size}: {times} times faster than {name}, {peer.seconds.middle:.3g} s{right}")
