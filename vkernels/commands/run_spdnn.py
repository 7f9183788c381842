"""`vk run spdnn`: the Sparse Deep Neural Network Graph Challenge, on real images, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from .exits import Code
from .results import check_writable, write_json

if TYPE_CHECKING:
    from vkernels.library.sparse_network.challenge import Progress, Report
    from vkernels.library.sparse_network.network import Floats, SparseNetwork

ROUNDS = 5
PATIENCE = 20.0

Neurons = Annotated[int, typer.Option(help="Neurons of a layer: 1024, 4096, 16384 or 65536.")]
Count = Annotated[int, typer.Option(help="Layers of the network, from 1 to 1920.")]
Images = Annotated[
    str,
    typer.Option(
        metavar="digits|FILE",
        help="scikit-learn's digits, a .npz holding images[count, height, width] of bytes, or the challenge's .tsv.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where the challenge's nN-l1.tsv, nN-l2.tsv, … lie; without it, made here."),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to run on; all usable cores without it.")]
Compare = Annotated[bool, typer.Option("--compare", help="Do the same work in torch and SciPy too, in turns.")]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there too; - is standard output.")]


def run_spdnn(
    neurons: Neurons = 1024,
    layers: Count = 120,
    images: Images = "digits",
    network: Folder = None,
    threads: Threads = None,
    compare: Compare = False,
    json: Json = None,
) -> None:
    """Run a sparse deep neural network on real images and check which survive.

    Exits with 1 where they are not the ones that survive in float64.
    """
    check_writable(json)
    layers_of = _network(network, neurons, layers)
    inputs = _inputs(images, neurons)

    from vkernels.library.sparse_network.challenge import as_json, run_challenge
    from vkernels.runtime.threads import get_threads

    with _progress() as progress:
        report = run_challenge(
            layers_of,
            inputs,
            threads=threads or get_threads(),
            rounds=ROUNDS,
            patience=PATIENCE,
            compare=compare,
            progress=progress,
        )
    _show(report, to_errors=json == Path("-"))
    if json is not None:
        write_json(json, as_json(report, _target()))
    if not report.matches:
        raise typer.Exit(Code.FINDING)


def _network(folder: Path | None, neurons: int, layers: int) -> SparseNetwork:
    if folder is None:
        from vkernels.library.sparse_network.generate import radix_network

        return radix_network(neurons, layers)
    from vkernels.library.sparse_network.tables import read_network

    return read_network(folder, neurons, layers)


def _inputs(images: str, neurons: int) -> Floats:
    from vkernels.library.sparse_network.images import digits, read_images
    from vkernels.library.sparse_network.tables import read_image_table

    path = Path(images)
    if images == "digits":
        return digits(neurons)
    if path.suffix == ".npz":
        return read_images(path, neurons)
    if path.suffix == ".tsv":
        return read_image_table(path, neurons)
    raise OptionError(f"--images: expected `digits`, a .npz or a .tsv, got {images!r}")


def _target() -> str:
    from llvmlite.binding import get_host_cpu_name

    return f"cpu-{get_host_cpu_name()}"


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[steps]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=1, steps="")

        def show(what: str, done: int, total: int, steps: str) -> None:
            bar.update(task, description=what, completed=done, total=total, steps=steps)

        yield show


def _show(report: Report, to_errors: bool) -> None:
    """The results in words, on standard output unless that is taken."""
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=to_errors, highlight=False)
    seconds = report.seconds
    console.print(
        f"{report.neurons} neurons × {report.layers} layers, {report.images} images, {report.threads} threads\n"
        f"categories: {'match' if report.matches else 'differ'} ({len(report.survivors)} images survive)\n"
        f"{seconds.middle:.4g} s ({seconds.least:.4g} to {seconds.most:.4g} in {report.rounds} rounds)"
    )
    rates = Table("edges", "count", "a second", box=None)
    counts = (report.truth.real_edges, report.executed_edges, report.nominal_edges)
    for name, edges in zip(("real", "executed", "nominal"), counts, strict=True):
        rates.add_row(name, f"{edges:.4g}", f"{edges / seconds.middle:.4g}")
    console.print(rates)
    if report.baselines:
        peers = Table("baseline", "seconds", "times faster this is", "categories", box=None)
        for name, peer in report.baselines.items():
            times = f"{peer.ratio.middle:.2f} ({peer.ratio.least:.2f} to {peer.ratio.most:.2f})"
            peers.add_row(name, f"{peer.seconds.middle:.4g}", times, "match" if peer.matches else "differ")
        console.print(peers)
    if not report.matches:
        console.print(_difference(report))


def _difference(report: Report) -> str:
    ours, theirs = set(report.survivors.tolist()), set(report.truth.survivors.tolist())
    extra, missing = sorted(ours - theirs), sorted(theirs - ours)
    return f"survive here alone: {extra[:8]} ({len(extra)}); in float64 alone: {missing[:8]} ({len(missing)})"
