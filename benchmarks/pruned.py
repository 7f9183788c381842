"""Real sparse networks: classifiers trained here, pruned, tuned a little, and run through vkernels beside torch.

    python benchmarks/pruned.py [--data digits|mnist|all] [--layers 4,8] [--width 512] [--epochs 4] [--threads 1]
        [--rounds 11] [--json FILE]

Each is trained dense, then pruned by magnitude to 90, 95 and 99 % zeros, all layers but the last, unstructured and N:M
(one weight in 10, 20 or 100 neighbours), and trained on with what is left. `digits`: scikit-learn's, which digit.
`mnist`: the training images in ../shared/data, which have no labels: which way up an image stands, of four. Accuracy is
of images that training never saw. Times are of all images at once, in turns; with one thread, of its own CPU time.
torch dense runs the pruned weights as matrices with zeros, torch CSR as sparse ones.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from common import Quartiles, times_faster
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy

from vkernels.ir.errors import OptionError
from vkernels.runtime.threads import set_threads
from vkernels.sparse_network.images import digit_pixels
from vkernels.sparse_network.npz_files import read_arrays
from vkernels.sparse_network.sparse_classifier import SparseClassifier, largest, largest_of_each

MNIST = Path(__file__).resolve().parents[2] / "shared" / "data" / "spdnn" / "mnist-train-images.npz"
ZEROS = (0.90, 0.95, 0.99)
BATCH = 256
TUNING = 0.5
"""Epochs of tuning after pruning, of those of training."""

console = Console(highlight=False)


@dataclass(frozen=True)
class Data:
    """Images × pixels from 0 to 1, and their classes; the last fifth is for testing."""

    name: str
    images: torch.Tensor
    classes: torch.Tensor

    @property
    def trained(self) -> int:
        return len(self.images) * 4 // 5


def main(
    data: Annotated[str, typer.Option(help="digits, mnist or all.")] = "all",
    layers: Annotated[str, typer.Option(help="Layers of the networks.")] = "4,8",
    width: Annotated[int, typer.Option(min=1, help="Features between layers.")] = 512,
    epochs: Annotated[int, typer.Option(min=1)] = 4,
    threads: Annotated[int, typer.Option(min=1)] = 1,
    rounds: Annotated[int, typer.Option(min=1)] = 11,
    most: Annotated[int, typer.Option(min=10, help="Images, at most.")] = 20000,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Train, prune, compare; exits with 1 where a class differs from torch's more than rounding explains."""
    set_threads(threads)
    torch.set_num_threads(threads)
    results = []
    for each in _data(data, most):
        for depth in map(int, layers.split(",")):
            torch.manual_seed(0)
            results += list(
                _compare(each, depth, width, epochs * (8 if len(each.images) < 5000 else 1), rounds, threads)
            )
            _show(results)
    if json_file is not None:
        json_file.write_text(json.dumps({"schema_version": 1, "threads": threads, "results": results}, indent=2) + "\n")
    raise typer.Exit(0 if all(each["same_classes"] for each in results) else 1)


def _data(name: str, most: int) -> Iterator[Data]:
    if name not in ("digits", "mnist", "all"):
        raise OptionError(f"--data: expected digits, mnist or all, got {name!r}")
    if name in ("digits", "all"):
        from sklearn.datasets import load_digits

        order = np.random.default_rng(0).permutation(1797)
        pixels = torch.from_numpy((digit_pixels() / 255).reshape(1797, 64).astype(np.float32))
        yield Data("digits", pixels[order], torch.from_numpy(load_digits().target)[order])
    if name in ("mnist", "all"):
        if not MNIST.is_file():
            console.print("mnist: left out, its images are not in ../shared/data")
            return
        images = read_arrays(MNIST, images=(np.uint8, 3))["images"][:most]
        turns = np.random.default_rng(0).integers(0, 4, len(images))
        turned = np.stack([np.rot90(image, turn) for image, turn in zip(images, turns, strict=True)])
        pixels = torch.from_numpy(turned.reshape(len(images), -1).astype(np.float32) / 255)
        yield Data("mnist turned", pixels, torch.from_numpy(turns))


def _compare(data: Data, depth: int, width: int, epochs: int, rounds: int, threads: int) -> Iterator[dict[str, Any]]:
    """One network, and every way to prune it."""
    sizes = [data.images.shape[1], *[width] * (depth - 1), int(data.classes.max()) + 1]
    model = nn.Sequential(*_modules(sizes))
    _train(model, data, epochs)
    before = _accuracy(model(data.images[data.trained :]), data)
    for zeros in ZEROS:
        group = round(1 / (1 - zeros))
        for how, choose in (
            ("unstructured", lambda weight, zeros=zeros: largest(weight, zeros)),
            (f"1:{group}", lambda weight, group=group: largest_of_each(weight, 1, group)),
        ):
            pruned = copy.deepcopy(model)
            masks = _prune(pruned, choose)
            _train(pruned, data, max(1, round(epochs * TUNING)), masks)
            found = _measure(pruned, data, rounds, threads)
            yield {"data": data.name, "layers": depth, "width": width, "zeros": zeros, "how": how, "dense_accuracy": before} | found  # fmt: skip  # noqa: E501


def _modules(sizes: list[int]) -> Iterator[nn.Module]:
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        if number:
            yield nn.ReLU()
        linear = nn.Linear(inputs, outputs)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        yield linear


def _train(model: nn.Module, data: Data, epochs: int, masks: dict[torch.Tensor, torch.Tensor] | None = None) -> None:
    steps = epochs * -(-data.trained // BATCH)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        chosen = torch.randint(0, data.trained, (BATCH,))
        optimizer.zero_grad()
        cross_entropy(model(data.images[chosen]), data.classes[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for weight, mask in (masks or {}).items():
                weight.mul_(mask)


def _prune(model: nn.Sequential, choose: Callable[[Any], NDArray[np.bool_]]) -> dict[torch.Tensor, torch.Tensor]:
    """All layers but the last, which is small, and of which 99 % zeros would leave nothing to tell classes apart by."""
    masks: dict[torch.Tensor, torch.Tensor] = {}
    for module in list(model)[:-1]:
        if isinstance(module, nn.Linear):
            masks[module.weight] = torch.from_numpy(choose(module.weight.detach().numpy())).float()
            module.weight.data *= masks[module.weight]
    return masks


@torch.no_grad()
def _measure(model: nn.Sequential, data: Data, rounds: int, threads: int) -> dict[str, Any]:
    classifier, images = SparseClassifier.of_torch(model), data.images
    columns = images.T.contiguous().numpy()
    sparse = [(m.weight.to_sparse_csr(), m.bias[:, None]) for m in model if isinstance(m, nn.Linear)]

    def csr() -> torch.Tensor:
        values = torch.from_numpy(columns)
        for number, (weight, bias) in enumerate(sparse):
            values = (weight @ values).add_(bias)
            values = values if number == len(sparse) - 1 else values.clamp_(min=0)
        return values

    runs = {"vkernels": lambda: classifier.scores(columns), "dense": lambda: model(images), "csr": csr}
    ours, dense = torch.from_numpy(classifier.scores(columns)).T, model(images)
    seconds = _turns(runs, rounds, time.thread_time if threads == 1 else time.perf_counter)
    best = dense.topk(2).values
    unsure = (best[:, 0] - best[:, 1]) < 1e-4 * dense.abs().amax(dim=1)  # rounding may decide
    return {
        "accuracy": _accuracy(ours[data.trained :], data),
        "torch_accuracy": _accuracy(dense[data.trained :], data),
        "same_classes": bool(((ours.argmax(1) == dense.argmax(1)) | unsure).all()),
        "images": len(images),
        "nonzeros": int(sum((m.weight != 0).sum() for m in model if isinstance(m, nn.Linear))),
        "weights": int(sum(m.weight.numel() for m in model if isinstance(m, nn.Linear))),
        "seconds": {name: float(np.median(each)) for name, each in seconds.items()},
        "ratios": {name: _three(times_faster(seconds[name], seconds["vkernels"])) for name in ("dense", "csr")},
    }


def _turns(runs: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of each run in each round, after two that are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 2):
        for name, run in runs.items():
            start = clock()
            run()
            if number > 1:
                seconds[name].append(clock() - start)
    return seconds


def _three(ratio: Quartiles) -> list[float]:
    """Median, and the quarters below and above it."""
    return [ratio.median, ratio.lower, ratio.upper]


def _accuracy(scores: torch.Tensor, data: Data) -> float:
    return float((scores.argmax(1) == data.classes[data.trained :]).float().mean())


def _show(results: list[dict[str, Any]]) -> None:
    table = Table(
        "data", "layers", "zeros", "how", "accuracy", "torch's", "unpruned", "ms", "dense ms", "csr ms",
        "faster than dense", "than CSR", "classes", box=None,
    )  # fmt: skip
    for each in results:
        seconds = each["seconds"]
        table.add_row(
            each["data"], str(each["layers"]), f"{each['zeros']:.0%}", each["how"],
            *(f"{each[name]:.4f}" for name in ("accuracy", "torch_accuracy", "dense_accuracy")),
            *(f"{1000 * seconds[name]:.3g}" for name in ("vkernels", "dense", "csr")),
            *("{:.2f} ({:.2f} to {:.2f})".format(*each["ratios"][name]) for name in ("dense", "csr")),
            "same" if each["same_classes"] else "differ",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
