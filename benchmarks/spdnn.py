"""The Sparse DNN Graph Challenge at 1024 neurons: vkernels, torch and SciPy in turns, survivors checked.

Three classes of execution, never mixed: general beside CSR, structured beside the same merged outputs as dense matrices
in torch (batches and how often dead images are dropped chosen by measuring), saturating beside itself at 1920 layers.
Features in memory → ids of the surviving images; preprocessing apart.

    python benchmarks/spdnn.py [--rounds 7] [--layers 120] [--images FILE.npz] [--network FILE.npz] [--json FILE]

By default the official network and MNIST's training images, where ../shared/data/spdnn has them; else the
generated network and scikit-learn's digits, which is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from vkernels.ir.errors import FileError
from vkernels.runtime.threads import get_threads
from vkernels.sparse_network.bench.baselines import Run, prepare_baselines, prepare_dense
from vkernels.sparse_network.bench.measure import CLASSES
from vkernels.sparse_network.bench.reference import ReferenceResult, run_reference
from vkernels.sparse_network.bench.timing import Spread, interleave, ratio
from vkernels.sparse_network.generate import BIASES, MAX_LAYERS, WEIGHT, even_bias, radix_network
from vkernels.sparse_network.images import digits, read_images
from vkernels.sparse_network.merge import merge_equal
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.network_layers import Floats, Layers
from vkernels.sparse_network.npz_files import read_arrays

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "spdnn"
NEURONS = 1024
OURS, ALONE = "vkernels", "vkernels, 1 thread"
STRUCTURED, DENSE = "vkernels structured", "torch dense, merged"
SATURATING, LONG = "vkernels saturating", f"vkernels saturating, {MAX_LAYERS} layers"
RIVALS = {DENSE: STRUCTURED, LONG: SATURATING}
"""What is not measured against the general class, and what it is measured against."""

TUNED = [(batch, drop_every) for batch in (1024, 4096, 16384, 60000) for drop_every in (2, 4, 8)]
"""Images at a time, and layers between dropping, that the dense baseline chooses from."""

console = Console(highlight=False)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Times that each takes its turn.")] = 7,
    layers: Annotated[int, typer.Option(min=1, max=1920)] = 120,
    images: Annotated[Path | None, typer.Option(metavar="FILE.npz")] = None,
    network: Annotated[Path | None, typer.Option(metavar="FILE.npz", help="column[layers, neurons, inputs].")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Measure and compare; exits with 1 where any survivors are wrong."""
    weights, inputs = _network(network, layers), _inputs(images)
    threads = get_threads()
    truth = run_reference(weights, inputs, threads)
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: weights.infer(inputs, kind="general").survivors,
        ALONE: lambda: weights.infer(inputs, kind="general", devices=["cpu:cores=1"]).survivors,
        **prepare_baselines(weights, inputs, threads),
        STRUCTURED: lambda: weights.infer(inputs, kind="structured").survivors,
        DENSE: _tuned_dense(weights, inputs, threads),
        SATURATING: lambda: weights.infer(inputs, kind="saturating").survivors,
    }
    records = {kind: weights.infer(inputs, kind=kind).record for kind in CLASSES}
    preprocessing = {kind: record.preprocessing for kind, record in records.items()}
    preprocessing["saturating"] += preprocessing["general"]  # it runs on what was made ready for that
    if layers == 120:  # survivors are the same for every number of layers
        long = radix_network(NEURONS, MAX_LAYERS).in_memory()
        runs[LONG] = lambda: long.infer(inputs, kind="saturating").survivors
    right = {name: np.array_equal(run(), truth.survivors) for name, run in runs.items()}
    scipy = {"scipy_csr": runs.pop("scipy_csr")}  # slow, and nobody's yardstick: one round is enough
    alone = {ALONE: runs.pop(ALONE)}  # apart: to change the number of threads makes kernels forget their calls
    seconds = interleave(runs, rounds) | interleave(alone, rounds) | interleave(scipy, 1)
    report = _report(truth, inputs.shape[1], threads, seconds, right)
    report["executed_edges"] = records["general"].executed_edges
    report["preprocessing"] = preprocessing
    _show(report)
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=2) + "\n")
    raise typer.Exit(0 if all(right.values()) else 1)


def _tuned_dense(weights: SparseNetwork, inputs: Floats, threads: int) -> Run:
    """The fastest of some ways to run the merged network as dense matrices in torch; `prepare_dense`."""
    merged = merge_equal(weights).network
    ways = {str(way): prepare_dense(merged, inputs, threads, *way) for way in TUNED}
    seconds = interleave(ways, 3)
    best = min(ways, key=lambda way: Spread.of(seconds[way]).middle)
    console.print(f"{DENSE}: images at a time, layers between dropping: {best}")
    return ways[best]


def _network(path: Path | None, layers: int) -> SparseNetwork:
    official = SHARED / "radixnet-1024-120.npz"
    if path is None and not official.is_file():
        console.print("network: generated, for want of the official one")
        return radix_network(NEURONS, layers).in_memory()
    path = path or official
    column = read_arrays(path, column=(np.int32, 3))["column"][:layers]
    if len(column) < layers or column.shape[1] != NEURONS or column.min() < 0 or column.max() >= NEURONS:
        raise FileError(f"{path}: not {layers} layers of {NEURONS} neurons")
    console.print(f"network: {path.name}")
    nonzeros = np.full(layers, column[0].size)
    weight, bias = np.full(column.shape, WEIGHT, np.float32), even_bias(layers, NEURONS, BIASES[NEURONS])
    held = Layers(column, weight, bias, nonzeros, NEURONS)
    return SparseNetwork((NEURONS,) * (layers + 1), held.part).in_memory()


def _inputs(path: Path | None) -> Floats:
    mnist = SHARED / "mnist-train-images.npz"
    if path is None and not mnist.is_file():
        console.print("images: scikit-learn's digits, for want of MNIST")
        return digits(NEURONS)
    console.print(f"images: {(path or mnist).name}")
    return read_images(path or mnist, NEURONS)


def _report(
    truth: ReferenceResult, images: int, threads: int, seconds: dict[str, list[float]], right: dict[str, bool]
) -> dict[str, Any]:
    ours = seconds[OURS]
    nominal = images * int(truth.nonzeros.sum())
    report: dict[str, Any] = {
        "schema_version": 1,
        "images": images,
        "survivors": len(truth.survivors),
        "threads": threads,
        "rounds": len(ours),
        "real_edges": truth.real_edges,
        "nominal_edges": nominal,
        "real_edges_per_second": truth.real_edges / Spread.of(ours).middle,
        "nominal_edges_per_second": nominal / Spread.of(ours).middle,
        "efficiency": _spread([one / (threads * all_) for one, all_ in zip(seconds[ALONE], ours, strict=True)]),
        "runs": {},
    }
    for name, times in seconds.items():
        report["runs"][name] = {
            "categories": "match" if right[name] else "differ",
            "seconds": _spread(times),
            "against": RIVALS.get(name, OURS),
            "ratio": _spread_of(ratio(times, seconds[RIVALS.get(name, OURS)][: len(times)])),
        }
    return report


def _spread(values: list[float]) -> list[float]:
    return _spread_of(Spread.of(values))


def _spread_of(spread: Spread) -> list[float]:
    """Middle, least and most."""
    return [spread.middle, spread.least, spread.most]


def _show(report: dict[str, Any]) -> None:
    console.print(
        f"{report['images']} images, {report['survivors']} survive\n"
        f"{report['threads']} threads, {report['rounds']} rounds: median (least to most)\n"
        f"edges: {report['real_edges']:.4g} real, {report['executed_edges']:.4g} executed, "
        f"{report['nominal_edges']:.4g} nominal"
    )
    console.print("preprocessing: " + ", ".join(f"{k} {s:.3f} s" for k, s in report["preprocessing"].items()))
    table = Table("", "seconds", "times as long", "as", "categories", box=None)
    for name, run in report["runs"].items():
        seconds, faster = "{:.3f} ({:.3f} to {:.3f})", "{:.2f}× ({:.2f} to {:.2f})"
        table.add_row(
            name, seconds.format(*run["seconds"]), faster.format(*run["ratio"]), run["against"], run["categories"]
        )
    console.print(table)
    console.print(
        f"edges a second: {report['real_edges_per_second']:.3g} real, {report['nominal_edges_per_second']:.3g} nominal"
    )
    efficiency = "{:.0%} ({:.0%} to {:.0%})".format(*report["efficiency"])
    console.print(f"efficiency from 1 to {report['threads']} threads: {efficiency}")


if __name__ == "__main__":
    typer.run(main)
