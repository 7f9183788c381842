"""`vk run spdnn`: run the Sparse Deep Neural Network Graph Challenge on real images and check the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from .exits import Code
from .options import Json, Threads, Weights
from .results import check_writable, console_for, progress_bar, table_of, target_name, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.sparse_network.bench.challenge import ChallengeReport
    from vkernels.sparse_network.network import SparseNetwork
    from vkernels.sparse_network.network_layers import Floats

ROUNDS = 5
PATIENCE = 20.0

Neurons = Annotated[int, typer.Option(help="Neurons per layer: 1024, 4096, 16384 or 65536.")]
Count = Annotated[int, typer.Option(help="Number of layers, 1 to 1920.")]
Images = Annotated[
    str,
    typer.Option(
        metavar="digits|FILE",
        help="scikit-learn's digits, a .npz of images[count, height, width] bytes, or the challenge's .tsv.",
    ),
]
Compare = Annotated[bool, typer.Option("--compare", help="Also time torch and SciPy, interleaved.")]


def run_spdnn(
    neurons: Neurons = 1024,
    layers: Count = 120,
    images: Images = "digits",
    network: Weights = None,
    threads: Threads = None,
    compare: Compare = False,
    json: Json = None,
) -> None:
    """Run a sparse deep neural network on images and check which images survive.

    Exit code 1: the survivors differ from those of the float64 reference.
    """
    check_writable(json)
    layers_of = _network(network, neurons, layers)
    inputs = _inputs(images, neurons)

    from vkernels.runtime.threads import get_threads
    from vkernels.sparse_network.bench.challenge import as_json, run_challenge

    with progress_bar() as progress:
        report = run_challenge(
            layers_of,
            inputs,
            threads=threads or get_threads(),
            rounds=ROUNDS,
            patience=PATIENCE,
            compare=compare,
            progress=progress,
        )
    _show(report, console_for(json))
    if json is not None:
        write_json(json, as_json(report, target_name()))
    if not report.matches:
        raise typer.Exit(Code.FINDING)


def _network(folder: Path | None, neurons: int, layers: int) -> SparseNetwork:
    if folder is None:
        from vkernels.sparse_network.generate import radix_network

        return radix_network(neurons, layers)
    from vkernels.sparse_network.tsv_files import read_network

    return read_network(folder, neurons, layers)


def _inputs(images: str, neurons: int) -> Floats:
    from vkernels.sparse_network.images import digits, read_images
    from vkernels.sparse_network.tsv_files import read_image_table

    path = Path(images)
    if images == "digits":
        return digits(neurons)
    if path.suffix == ".npz":
        return read_images(path, neurons)
    if path.suffix == ".tsv":
        return read_image_table(path, neurons)
    raise OptionError(f"--images: expected `digits`, a .npz or a .tsv, got {images!r}")


def _show(report: ChallengeReport, console: Console) -> None:
    seconds = report.seconds
    console.print(
        f"{report.neurons} neurons × {report.layers} layers, {report.images} images, {report.threads} threads\n"
        f"categories: {'match' if report.matches else 'differ'} ({len(report.survivors)} images survive)\n"
        f"{seconds.middle:.4g} s ({seconds.least:.4g} to {seconds.most:.4g} in {report.rounds} rounds), "
        f"preprocessing {report.preprocessing:.4g} s"
    )
    rates = table_of("edges", "count", "per second")
    counts = (report.truth.real_edges, report.executed_edges, report.nominal_edges)
    for name, edges in zip(("real", "executed", "nominal"), counts, strict=True):
        rates.add_row(name, f"{edges:.4g}", f"{edges / seconds.middle:.4g}")
    console.print(rates)
    if report.baselines:
        peers = table_of("baseline", "seconds", "speed-up of vkernels", "categories")
        for name, peer in report.baselines.items():
            times = f"{peer.ratio.middle:.2f} ({peer.ratio.least:.2f} to {peer.ratio.most:.2f})"
            peers.add_row(name, f"{peer.seconds.middle:.4g}", times, "match" if peer.matches else "differ")
        console.print(peers)
    if not report.matches:
        ours, theirs = set(report.survivors.tolist()), set(report.truth.survivors.tolist())
        extra, missing = sorted(ours - theirs), sorted(theirs - ours)
        console.print(f"survive only here: {extra[:8]} ({len(extra)}); only in float64: {missing[:8]} ({len(missing)})")
