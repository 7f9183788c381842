"""`vk bench spdnn`: the challenge's networks in each class of execution, beside the machine's ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from ..exits import Code
from ..results import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from vkernels.library.sparse_network.harness import Results, Size
    from vkernels.library.sparse_network.network import SparseNetwork

ALL, NONE = "all", "none"

Networks = Annotated[
    str, typer.Option(metavar="1024x120,…|all", help="Networks, by neurons and layers; all are the challenge's twelve.")
]
Class = Annotated[
    str, typer.Option("--class", metavar="general|structured|saturating|all", help="Classes of execution, or several.")
]
Target = Annotated[str, typer.Option(metavar="cpu|cpu:cores=1,…", help="What to run on; slices run side by side.")]
Baselines = Annotated[
    str,
    typer.Option(metavar="NAME,…|all|none", help="torch_csr, torch_csr_batched, scipy_csr, torch_dense, in turns."),
]
Data = Annotated[
    str,
    typer.Option(metavar="digits|FILE.npz", help="scikit-learn's digits, or images[count, height, width] of bytes."),
]
Images = Annotated[int | None, typer.Option(min=1, help="So many images, evenly spread; all without it.")]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where the challenge's nN-l1.tsv, nN-l2.tsv, … lie; without it, made here."),
]
Seconds = Annotated[float, typer.Option(min=0.001, help="What one network may take, all told; the rest is left out.")]
Memory = Annotated[float, typer.Option(min=0.01, help="GiB that weights and features may take.")]
Storage = Annotated[str, typer.Option(metavar="float32|float16|bfloat16", help="What features are held as.")]
Rounds = Annotated[int, typer.Option(min=1, help="Times that each takes its turn, if there is time.")]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there too; - is standard output.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw them there, as a page of its own.")]


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
    """Time sparse networks in each class of execution, survivors checked, beside what the machine can do.

    What does not fit in memory or time is left out, and said. Exits with 1 where survivors differ from float64's, and
    where nothing was run.
    """
    check_writable(json)
    check_writable(html)
    from vkernels.library.sparse_network.harness import ALL_SIZES, BASELINES, Settings, Size, bench
    from vkernels.library.sparse_network.sources import Source, pixels_of
    from vkernels.library.sparse_network.turns import CLASSES

    sizes = ALL_SIZES if networks == ALL else tuple(map(Size.parse, networks.split(",")))
    settings = Settings(
        kinds=_some("--class", class_, CLASSES), baselines=_some("--baselines", baselines, BASELINES),
        devices=tuple(target.split(",")), rounds=rounds, seconds=seconds, memory=int(memory * (1 << 30)),
        storage=storage,
    )  # fmt: skip
    if not settings.kinds:
        raise OptionError(f"--class: expected some of {', '.join(CLASSES)}, or {ALL}")
    settings.check()
    pixels = pixels_of(data)
    with _status() as tell:
        results = bench(
            sizes,
            lambda neurons: Source(pixels, neurons).spread(images or len(pixels)),
            settings,
            _networks(weights),
            tell,
        )
    _write(results, data, json, html)
    if not results.all_match:
        raise typer.Exit(Code.FINDING)


def _some(option: str, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names out of a list, in the order of the list."""
    if text in (ALL, NONE):
        return names if text == ALL else ()
    wanted = [name.strip() for name in text.split(",")]
    if unknown := [name for name in wanted if name not in names]:
        raise OptionError(f"{option}: {unknown[0]!r} is none of {', '.join(names)}, {ALL}")
    return tuple(name for name in names if name in wanted)


def _networks(folder: Path | None) -> Callable[[Size], SparseNetwork]:
    from vkernels.library.sparse_network.harness import generated
    from vkernels.library.sparse_network.tables import read_network

    return generated if folder is None else lambda size: read_network(folder, size.neurons, size.layers)


def _write(results: Results, data: str, json: Path | None, html: Path | None) -> None:
    """Everything that was asked for."""
    from .results import as_json, target_name
    from .show import show

    target = target_name()
    show(results, target, to_errors=json == STANDARD_OUTPUT)
    if json is not None:
        write_json(json, as_json(results, target, data))
    if html is not None:
        from .page import write_page

        write_page(html, results, target, data)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """What is going on, on standard error, where that is a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update
