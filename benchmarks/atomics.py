"""Weights added up by index: the chosen plan, atomic instructions, private copies by hand, and torch, in turns.

    python benchmarks/atomics.py [--threads 1] [--rounds 15]

Prints nanoseconds an element of the fastest round, and how many times faster the chosen plan is, with its quartiles.
torch has no sums of integers by index: it counts instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
import typer
from common import take_turns, times_faster
from jaxtyping import Int, Num
from rich.console import Console
from rich.table import Table

import vkernels as vk

SHORTEST = 2e-3
"""Seconds of a turn."""


@vk.kernel
def chosen(index: Int[vk.Tensor, "N"], weight: Num[vk.Tensor, "N"], total: Num[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(total[index[i]], weight[i])


@vk.kernel(plan=vk.Pin(private_copies=0))
def locked(index: Int[vk.Tensor, "N"], weight: Num[vk.Tensor, "N"], total: Num[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(total[index[i]], weight[i])


@vk.kernel
def update_copies(index: Int[vk.Tensor, "T K"], weight: Num[vk.Tensor, "T K"], copies: Num[vk.Tensor, "T B"]):
    t = vk.tile("T")
    for k in vk.range("K"):
        copies[t, index[t, k]] += weight[t, k]


@vk.kernel
def combine(copies: Num[vk.Tensor, "T B"], total: Num[vk.Tensor, "B"]):
    t = vk.whole("T")
    b = vk.tile("B")
    total[b] += vk.sum(copies[t, b], axis=t)


def ways(length: int, bins: int, dtype: torch.dtype, threads: int) -> dict[str, Callable[[], object]]:
    """Each way to add up the same random weights."""
    index = torch.randint(0, bins, (length,))
    weight = torch.rand(length) if dtype.is_floating_point else torch.randint(0, 9, (length,), dtype=dtype)
    total, copies = torch.zeros(bins, dtype=dtype), torch.zeros(threads, bins, dtype=dtype)
    shares = index.view(threads, -1), weight.view(threads, -1)

    def by_hand() -> None:
        copies.zero_()
        update_copies(*shares, copies)
        combine(copies, total)

    return {
        "chosen": lambda: chosen(index, weight, total),
        "atomics": lambda: locked(index, weight, total),
        "by hand": by_hand,
        "torch": lambda: torch.bincount(index, weight if dtype.is_floating_point else None, minlength=bins),
    }


def repeated(run: Callable[[], object]) -> tuple[Callable[[], object], int]:
    """A run often enough to be timed, after the calls that compile it, and how often."""
    for _ in range(6):
        run()
    seconds = min(take_turns({"once": run}, 3)["once"])
    often = max(1, int(SHORTEST / seconds))
    return lambda: [run() for _ in range(often)], often


def main(threads: Annotated[int, typer.Option()] = 1, rounds: Annotated[int, typer.Option()] = 15) -> None:
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    table = Table("elements", "into", "dtype", *("chosen", "atomics", "by hand", "torch"), "vs atomics", "vs torch")
    for length in (10**5, 10**6, 10**7):
        for bins in (16, 256, 4096, 10**6):
            for dtype in (torch.int32, torch.int64, torch.float32):
                runs = {name: repeated(run) for name, run in ways(length, bins, dtype, threads).items()}
                seconds = take_turns({name: run for name, (run, _) in runs.items()}, rounds)
                each = {name: [s / runs[name][1] for s in found] for name, found in seconds.items()}
                faster = [str(times_faster(each[other], each["chosen"])) for other in ("atomics", "torch")]
                table.add_row(
                    str(length), str(bins), str(dtype).removeprefix("torch."),
                    *(f"{1e9 * min(found) / length:.2f}" for found in each.values()),
                    *faster,
                )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    typer.run(main)
