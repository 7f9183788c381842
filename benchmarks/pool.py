"""Pools of known lifetimes beside allocators that do not know them.

    python benchmarks/pool.py [--data ../shared/data] [--seeds 3] [--seconds 60] [--drawn 0] [--json FILE]

Training steps (G10's, and two recorded here with torch on the CPU) and MiniMalloc's allocation problems: the footprint
of the pool, of torch's caching allocator and of a best-fit pool in arrival order, each over the most bytes live at
once. Steps get a second, problems `--seconds` until their capacity is reached, by the wall's clock; each with several
seeds. The seconds told are of the processor. `--drawn N` draws N problems like each of MiniMalloc's, and places only
these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import torch
import typer
from pool_draw import drawn_like
from rich.console import Console
from rich.table import Table

from vkernels.memory.imports import Problem, read_g10, read_minimalloc
from vkernels.memory.pool import place
from vkernels.memory.record import record
from vkernels.memory.replay import SMALLEST, BestFitPool, CachingAllocator, replay
from vkernels.memory.trace import MemoryTrace

STEP_SECONDS = 1.0
console = Console(highlight=False)


@dataclass(frozen=True)
class Row:
    """Bytes; `seconds` of processor time of each seed."""

    name: str
    blocks: int
    peak: int
    capacity: int | None
    footprint: int
    is_smallest: bool
    seconds: tuple[float, ...]
    caching: int
    best_fit: int

    @property
    def saved(self) -> float:
        """How much less the pool takes than the best-fit pool."""
        return 1 - self.footprint / self.best_fit


def main(
    data: Annotated[Path, typer.Option(help="the folder of g10/ and minimalloc/")] = Path("../shared/data"),
    seeds: Annotated[int, typer.Option(min=1, help="how often each is placed")] = 3,
    seconds: Annotated[float, typer.Option(help="the longest that an allocation problem may take")] = 60.0,
    drawn: Annotated[int, typer.Option(help="problems to draw like each of MiniMalloc's, instead of all")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the rows to a file")] = None,
) -> None:
    rows = []
    for problem in drawn_problems(data, drawn) if drawn else problems(data):
        with console.status(problem.name):
            rows.append(measured(problem, seeds, STEP_SECONDS if problem.capacity is None else seconds))
    console.print(table(rows))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def problems(data: Path) -> Iterator[Problem]:
    """Training steps have no capacity: as small as can be."""
    for path in sorted((data / "g10").glob("*.json.gz")):
        yield of_trace(read_g10(path))
    yield of_trace(recorded_transformer())
    yield of_trace(recorded_cnn())
    for path in sorted((data / "minimalloc").glob("*.csv")):
        yield read_minimalloc(path)


def drawn_problems(data: Path, number: int) -> Iterator[Problem]:
    """Problems like MiniMalloc's, each with a solution within the capacity."""
    for path in sorted((data / "minimalloc").glob("*.csv")):
        problem = read_minimalloc(path)
        solution = place(problem.blocks, problem.count, problem.capacity, 600.0)
        for seed in range(number):
            yield drawn_like(problem, solution.offsets, seed)


def of_trace(trace: MemoryTrace) -> Problem:
    return Problem(trace.name, trace.blocks(), len(trace.operations))


def recorded_transformer() -> MemoryTrace:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    net = torch.nn.Sequential(
        torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.nn.Linear(256, 64)
    )
    return recorded(net, torch.randn(8, 128, 256), "transformer, here")


def recorded_cnn() -> MemoryTrace:
    torch.manual_seed(0)
    widths = (3, 32, 64, 128)
    stages = [
        (torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.BatchNorm2d(b), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        for a, b in pairwise(widths)
    ]
    layers = [layer for stage in stages for layer in stage]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(128 * 64, 64))
    return recorded(net, torch.randn(16, 3, 64, 64), "CNN, here")


def recorded(net: torch.nn.Module, x: torch.Tensor, name: str) -> MemoryTrace:
    """A training step with Adam."""
    optimiser = torch.optim.Adam(net.parameters())

    def step() -> None:
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()

    return record(step, name)


def measured(problem: Problem, seeds: int, seconds: float) -> Row:
    """The largest footprint of all seeds. Offsets are multiples of what the other allocators round to."""
    placed, took = [], []
    for seed in range(seeds):
        begun = time.thread_time()
        placed.append(place(problem.blocks, problem.count, problem.capacity, seconds, alignment=SMALLEST, seed=seed))
        took.append(time.thread_time() - begun)
    worst = max(placed, key=lambda each: each.footprint)
    return Row(
        problem.name,
        len(problem.blocks),
        worst.peak,
        problem.capacity,
        worst.footprint,
        all(each.is_smallest for each in placed),
        tuple(took),
        replay(problem.blocks, problem.count, CachingAllocator()),
        replay(problem.blocks, problem.count, BestFitPool()),
    )


def table(rows: list[Row]) -> Table:
    names = (
        "",
        "blocks",
        "peak, MiB",
        "pool ÷ peak",
        "seconds",
        "torch ÷ peak",
        "best fit ÷ peak",
        "less than best fit",
    )
    found = Table(*names, box=None)
    for row in rows:
        over = [f"{each / row.peak:.4f}" for each in (row.footprint, row.caching, row.best_fit)]
        reached = "" if row.capacity is None else " fits" if row.footprint <= row.capacity else " [red]over[/red]"
        proved = "=" if row.is_smallest else ""
        spread = f"{min(row.seconds):.2f}–{max(row.seconds):.2f}"
        peak = f"{row.peak / (1 << 20):.1f}"
        cells = (row.name, str(row.blocks), peak, proved + over[0] + reached, spread, *over[1:], f"{row.saved:.1%}")
        found.add_row(*cells)
    return found


if __name__ == "__main__":
    typer.run(main)
