"""`vk bench spdnn`: benchmark the challenge's networks in each class, beside the machine's ceilings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from ..exits import Code
from ..options import Html, Json, Weights
from ..results import STANDARD_OUTPUT, check_writable, console_for, target_name, write_results

if TYPE_CHECKING:
    from vkernels.sparse_network.bench.harness import Results

ALL, NONE = "all", "none"

Networks = Annotated[
    str, typer.Option(metavar="1024x120,…|all", help="Networks as NEURONSxLAYERS; all: the challenge's twelve.")
]
Class = Annotated[
    str,
    typer.Option(
        "--class", metavar="general|structured|saturating|all", help="Execution classes, separated by commas."
    ),
]
Target = Annotated[str, typer.Option(metavar="cpu|cpu:cores=1,…", help="Devices to run on; slices run concurrently.")]
Baselines = Annotated[
    str,
    typer.Option(
        metavar="NAME,…|all|none", help="Baselines, interleaved: torch_csr, torch_csr_batched, scipy_csr, torch_dense."
    ),
]
Data = Annotated[
    str,
    typer.Option(
        metavar="digits|FILE.npz",
        help="Images: scikit-learn's digits, or a .npz of images[count, height, width] bytes.",
    ),
]
Images = Annotated[int | None, typer.Option(min=1, help="Number of images, evenly spread. Default: all.")]
Seconds = Annotated[float, typer.Option(min=0.001, help="Time limit of one network; what does not fit is left out.")]
Memory = Annotated[float, typer.Option(min=0.01, help="Memory limit of weights and features, in GiB.")]
Storage = Annotated[str, typer.Option(metavar="float32|float16|bfloat16", help="Storage dtype of the features.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of interleaved rounds, if time allows.")]


def bench_spdnn(
    networks: Networks = ALL,
    class_: Class = ALL,
    target: Target = "cpu",
    baselines: Baselines = NONE,
    data: Data = "digits",
    images: Images = None,
    weights: Weights = None,
    seconds: Seconds = 60.0,
    memory: Memory = 16.0,
    storage: Storage = "float32",
    rounds: Rounds = 3,
    json: Json = None,
    html: Html = None,
) -> None:
    """Benchmark sparse networks in each execution class, beside the machine's measured ceilings.

    Survivors are checked. Networks that exceed the memory or time limit are left out and listed. Exit code 1: survivors
    differ from those of float64, or nothing was run.
    """
    check_writable(json)
    check_writable(html)
    from vkernels.sparse_network.bench.harness import ALL_SIZES, BASELINES, Settings, Size, bench, generated
    from vkernels.sparse_network.bench.measure import CLASSES
    from vkernels.sparse_network.images import ImageSource, pixels_of
    from vkernels.sparse_network.tsv_files import read_network

    sizes = ALL_SIZES if networks == ALL else tuple(map(Size.parse, networks.split(",")))
    settings = Settings(
        kinds=_selected("--class", class_, CLASSES), baselines=_selected("--baselines", baselines, BASELINES),
        devices=tuple(target.split(",")), rounds=rounds, seconds=seconds, memory=int(memory * (1 << 30)),
        storage=storage,
    )  # fmt: skip
    if not settings.kinds:
        raise OptionError(f"--class: expected some of {', '.join(CLASSES)}, or {ALL}")
    settings.check()
    pixels = pixels_of(data)
    with console_for(STANDARD_OUTPUT).status("") as status:
        results = bench(
            sizes,
            lambda neurons: ImageSource(pixels, neurons).spread(images or len(pixels)),
            settings,
            generated if weights is None else lambda size: read_network(weights, size.neurons, size.layers),
            status.update,
        )
    _write(results, data, json, html)
    if not results.all_match:
        raise typer.Exit(Code.FINDING)


def _selected(option: str, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if text in (ALL, NONE):
        return names if text == ALL else ()
    wanted = [name.strip() for name in text.split(",")]
    if unknown := [name for name in wanted if name not in names]:
        raise OptionError(f"{option}: {unknown[0]!r} is none of {', '.join(names)}, {ALL}")
    return tuple(name for name in names if name in wanted)


def _write(results: Results, data: str, json: Path | None, html: Path | None) -> None:
    from .results import as_json, show

    target = target_name()
    show(results, target, console_for(json, is_wide=True))
    write_results(json, "bench spdnn", **as_json(results, target, data))
    if html is not None:
        from .page import write_page

        write_page(html, results, target, data)
