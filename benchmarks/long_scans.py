"""One long row, scanned: plans that split it over programs beside plans that do not, and `torch.cumsum`.

    python benchmarks/long_scans.py [--length 10000000] [--threads 2] [--programs 2] [--rounds 40]

Prints milliseconds, the fastest and the median of calls that take turns, and how many times as long as the plan that
does not split each takes: the median of the turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float

import vkernels as vk


@vk.function
def then(before: Any, after: Any) -> Any:
    a, b = before
    c, d = after
    return a * c, b * c + d


def cumulative_sum(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]) -> None:
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.cumulative_sum(x[i, j], axis=j)


def recurrence(a: Float[vk.Tensor, "M N"], b: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]) -> None:
    i, j = vk.tile("M"), vk.whole("N")
    _, out[i, j] = vk.scan(then, (a[i, j], b[i, j]), axis=j, identity=(1, 0))


def main(
    length: Annotated[int, typer.Option(help="elements of the row")] = 10_000_000,
    threads: Annotated[int, typer.Option(help="threads of each call")] = 2,
    programs: Annotated[int, typer.Option(help="programs that share the row")] = 2,
    rounds: Annotated[int, typer.Option(help="turns")] = 40,
) -> None:
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    a, b = (random.uniform(-1, 1, (1, length)).astype(np.float32) for _ in range(2))
    out = np.empty_like(a)
    tensor, summed = torch.from_numpy(a), torch.empty(1, length)
    compare("cumulative_sum", {
        **ways(cumulative_sum, (a, out), programs), "torch.cumsum": lambda: torch.cumsum(tensor, 1, out=summed),
    }, rounds)  # fmt: skip
    compare("recurrence", ways(recurrence, (a, b, out), programs), rounds)


def ways(function: Callable[..., None], given: tuple[Any, ...], programs: int) -> dict[str, Callable[[], object]]:
    """Calls of a kernel that is not split, and that is."""
    one, several = (vk.kernel(plan=vk.Pin(splits={"j": count}))(function) for count in (1, programs))
    return {"not split": partial(one, *given), "split": partial(several, *given)}


def compare(title: str, calls: Mapping[str, Callable[[], object]], rounds: int) -> None:
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = perf_counter()
            call()
            times[name].append(perf_counter() - began)
    for name, taken in times.items():
        ratio = statistics.median(mine / base for mine, base in zip(taken, times["not split"], strict=True))
        fastest, middle = 1e3 * min(taken), 1e3 * statistics.median(taken)
        print(f"{title}, {name}: {fastest:.2f} ms, {middle:.2f} ms, {ratio:.2f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
