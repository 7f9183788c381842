"""Ours beside hand-written Triton kernels, by what their binaries say: no GPU is needed, and no time is measured.

    python benchmarks/binaries.py run RECORDS.jsonl [--only matmul] [--on sm_90,gfx942] [--configurations 4]
    python benchmarks/binaries.py show RECORDS.jsonl [--markdown FILE]
    python benchmarks/binaries.py judged RECORDS.jsonl [--markdown FILE]

`run` compiles each row's hand kernel in some configurations and our kernel with its chosen plan, for every
architecture, and appends the static bound of each (`vkernels/compiler/binaries/static_bound.py`) to the records; what
is there already is left out. `show` prints ours / hand, the hand kernel's best configuration counting: rows kernels,
columns architectures. Above 1, ours is bound to be slower. A bound says what loops cost at least; it is no time.

Our plan is the one that calls come to: the best of a few by its binaries. `run --judge 1` records the model's choice
beside it, and `judged` prints what judging gains: the bound of the model's choice / that of the judged plan.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from binaries_rows import ROWS, UNKNOWN_LENGTH, HandLaunch, OurKernel, Row
from common import json_lines
from rich.console import Console
from rich.table import Table

from vkernels.compiler.judged_plans import JUDGED
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import KernelCase, KernelSource, kernel_at
from vkernels.inspect.check.check import CheckTools, check, triton_version
from vkernels.inspect.specialisation import SpecialisationRequest, kernel_case, specialise
from vkernels.inspect.task import strides_of
from vkernels.inspect.triton_loops import loops_of_triton
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import Target, known_targets, limits_of

DEVICES = {
    "sm_80": "a100-sxm4-80", "sm_89": "rtx4090", "sm_90": "h100-sxm5-80", "sm_100": "b200-sxm-180", "sm_120": "rtx5090",
    "gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi350x", "gfx1100": "rx7900xtx",
}  # fmt: skip
"""The device whose limits each architecture is judged by."""

SECONDS = 120.0
OURS = "ours"

console = Console(highlight=False)
app = typer.Typer(add_completion=False)
Record = dict[str, Any]
Key = tuple[str, str, str, str]


def key_of(record: Mapping[str, Any]) -> Key:
    return record["row"], record["architecture"], record["part"], record["configuration"]


def records_in(path: Path) -> dict[Key, Record]:
    """The records of a file, the last of each."""
    return {key_of(record): record for record in json_lines(path)}


class Runner:
    """Compiles and reads, one binary at a time, and appends a record of each."""

    def __init__(self, path: Path, tools: CheckTools):
        self.path, self.tools, self.known = path, tools, records_in(path)

    def write(self, record: Record) -> None:
        self.known[key_of(record)] = record
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def hand(self, row: Row, architecture: str, count: int) -> None:
        target = known_targets()[DEVICES[architecture]]
        for part, (launch_of, configurations) in row.parts.items():
            for given in list(configurations(architecture))[:count]:
                head = {"row": row.name, "architecture": architecture, "part": f"hand {part}".strip(),
                        "configuration": json.dumps(given)}  # fmt: skip
                launch = launch_of(given, architecture)
                if launch is not None and key_of(head) not in self.known:
                    self.write({**head, **self.bound_of(launch, target)})

    def bound_of(self, launch: HandLaunch, target: Target) -> Record:
        """The bound of a hand-written launch, or why there is none."""
        try:
            found = loops_of_triton(
                launch.kernel, launch.types, launch.constants, target, grid=launch.grid, arguments=launch.numbers,
                divisible=launch.divisible, warps=launch.warps, stages=launch.stages, unknown_length=UNKNOWN_LENGTH,
                pool=self.tools.compiling, cache=self.tools.cache,
            )  # fmt: skip
        except Error as error:
            return {"error": str(error)[:300]}
        if found.bound is None:
            return {"error": "no bound without a grid"}
        return {
            "seconds": found.bound.seconds, "bottleneck": found.bound.bottleneck, "parts": dict(found.bound.parts),
            "tensor_seconds": found.bound.tensor_seconds, "loops": [loop.text for loop in found.loops],
            "registers": found.resources.registers, "spill_bytes": found.resources.spill_bytes,
        }  # fmt: skip

    def ours(self, row: Row, architecture: str) -> None:
        target, judge = known_targets()[DEVICES[architecture]], self.tools.judge
        for number, kernel in enumerate(row.ours):
            head = {"row": row.name, "architecture": architecture, "part": f"{OURS} {number}",
                    "configuration": chosen_of(judge)}  # fmt: skip
            if key_of(head) not in self.known:
                self.write({**head, **self.our_bound(kernel.on(architecture), target)})

    def our_bound(self, kernel: OurKernel, target: Target) -> Record:
        """The bound of our kernel with its chosen plan, or why there is none."""
        try:
            tools = replace(self.tools, unknown_length=kernel.length)
            (cell,) = check([case_of(kernel)], [target], tools, lambda *step: None).cells
        except Error as error:
            return {"error": str(error)[:300]}
        if not cell.fits:
            return {"error": cell.reason[:300]}
        bounds = [launch.loops.bound for launch in cell.launches if launch.loops is not None]
        known = [bound for bound in bounds if bound is not None]
        if not known or len(known) < len(cell.launches):
            return {"error": "its loops cannot be read"}
        longest = max(known, key=lambda bound: bound.seconds)
        return {
            "seconds": sum(bound.seconds for bound in known), "bottleneck": longest.bottleneck,
            "parts": dict(longest.parts), "tensor_seconds": sum(bound.tensor_seconds for bound in known),
            "loops": [loop.text for launch in cell.launches if launch.loops for loop in launch.loops.loops],
            "registers": cell.registers_per_thread, "spill_bytes": cell.spill_bytes,
            "plan": None if cell.planned is None else dict(cell.planned.plan),
        }  # fmt: skip


def chosen_of(judge: int) -> str:
    """How records call our plan of so many that were judged; that of calls has no name."""
    return "" if judge == JUDGED else f"best of {judge}"


def case_of(kernel: OurKernel) -> KernelCase:
    """The case of a kernel; those of the catalogue in the layout that their functions pass."""
    if kernel.file:
        source, usual, computed = KernelSource(kernel.name, file=str(Path(__file__).parent / kernel.file)), None, ()
    else:
        entry = next(each for each in CATALOGUE if each.name == kernel.name)
        source, usual, computed = KernelSource(kernel.name, entry.module), entry.dtype, entry.computed
    found = kernel_at(source)
    request = SpecialisationRequest(
        dtype=kernel.dtype, dtypes=kernel.dtypes, shape=kernel.shape, constants=kernel.constants
    )
    task = specialise(source, found.parameters, request, kernel.shape, usual, computed, found.samples)
    return kernel_case(task, found.parameters, request, usual, strides_of(task))


Only = Annotated[str, typer.Option(help="Rows whose names have one of these parts, between commas.")]
On = Annotated[str, typer.Option(help="Architectures, between commas; all without.")]


def rows_of(only: str) -> list[Row]:
    """The rows that `Only` names."""
    return [row for row in ROWS if not only or any(part in row.name for part in only.split(","))]


def chosen(only: str, on: str) -> Iterator[tuple[Row, str]]:
    for row in rows_of(only):
        for architecture in on.split(",") if on else DEVICES:
            if architecture not in row.without:
                yield row, architecture


@app.command()
def run(
    records: Path,
    only: Only = "",
    on: On = "",
    configurations: Annotated[int, typer.Option(help="Of each hand kernel, at most.")] = 12,
    ours: Annotated[bool, typer.Option(help="Our kernels, too.")] = True,
    hand: Annotated[bool, typer.Option(help="Hand kernels, too.")] = True,
    minutes: Annotated[float, typer.Option(help="Begin no further cell after so long.")] = 1e9,
    judge: Annotated[int, typer.Option(help="Plans of ours that are judged.")] = JUDGED,
) -> None:
    """Compile and bound what RECORDS lacks, with one compiler at a time."""
    os.environ.pop("TRITON_INTERPRET", None)
    begun = time.monotonic()
    with InspectPool(1, 300.0) as preparing, CompilePool(1, SECONDS) as compiling:
        cache = DiskCache(limit_bytes=4 << 30)
        runner = Runner(records, CheckTools(preparing, compiling, cache, triton_version(), judge=judge))
        for row, architecture in chosen(only, on):
            if time.monotonic() - begun > 60 * minutes:
                break
            if ours:
                runner.ours(row, architecture)
            if hand:
                runner.hand(row, architecture, configurations)
            _, text = cell_of(row, architecture, runner.known)
            console.print(f"{(time.monotonic() - begun) / 60:.1f} min, {row.name}, {architecture}: {text}")


def cell_of(row: Row, architecture: str, known: Mapping[Key, Record]) -> tuple[float | None, str]:
    """Ours / hand of a cell, and how it is shown."""
    if architecture in row.without:
        return None, "–"
    device = limits_of(known_targets()[DEVICES[architecture]])
    least = row.moved / device.memory_bandwidth
    mine = [known.get((row.name, architecture, f"{OURS} {n}", "")) for n in range(len(row.ours))]
    theirs: list[float | None] = []
    for part in row.parts:
        bounds = [
            record["seconds"]
            for (name, where, which, _), record in known.items()
            if (name, where, which) == (row.name, architecture, f"hand {part}".strip()) and "seconds" in record
        ]
        theirs.append(min(bounds, default=None))
    if any(record is not None and "error" in record for record in mine):
        return None, "no code"
    if any(record is None for record in mine) or any(each is None for each in theirs):
        return None, ""
    ours = max(least, sum(record["seconds"] for record in mine if record is not None))
    hand = max(least, sum(each for each in theirs if each is not None))
    return ours / hand, f"{ours / hand:.2f}"


@app.command()
def show(records: Path, only: Only = "", markdown: Path | None = None) -> None:
    """Print ours / hand by static bound."""
    known = records_in(records)
    table = Table("kernel", *DEVICES, "median")
    lines = [f"| kernel | {' | '.join(DEVICES)} | median |", "|---|" + "---|" * (len(DEVICES) + 1)]
    for row in rows_of(only):
        cells = [cell_of(row, architecture, known) for architecture in DEVICES]
        ratios = [ratio for ratio, _ in cells if ratio is not None]
        texts = [text for _, text in cells] + [f"{median(ratios):.2f}" if ratios else ""]
        table.add_row(row.name, *texts)
        lines.append(f"| {row.name} | {' | '.join(texts)} |")
    console.print(table)
    console.print("Ours / hand by static bound: not a measurement. – : the architecture lacks the unit.")
    if markdown is not None:
        markdown.write_text("\n".join(lines) + "\n")


@app.command()
def judged(records: Path, only: Only = "", markdown: Path | None = None) -> None:
    """Print the bound of the model's choice / that of the plan that was judged best."""
    known, lines = records_in(records), [f"| kernel | {' | '.join(DEVICES)} |", "|---|" + "---|" * len(DEVICES)]
    table = Table("kernel", *DEVICES)
    for row in rows_of(only):
        texts = [gain_of(row, architecture, known) for architecture in DEVICES]
        if any(texts):
            table.add_row(row.name, *texts)
            lines.append(f"| {row.name} | {' | '.join(texts)} |")
    console.print(table)
    console.print("Bound of the model's choice / of the judged plan: not a measurement.")
    if markdown is not None:
        markdown.write_text("\n".join(lines) + "\n")


def gain_of(row: Row, architecture: str, known: Mapping[Key, Record]) -> str:
    """What judging gains in a cell, with the bounds in microseconds."""
    least = row.moved / limits_of(known_targets()[DEVICES[architecture]]).memory_bandwidth
    totals = []
    for judge in (1, JUDGED):
        found = [known.get((row.name, architecture, f"{OURS} {n}", chosen_of(judge))) for n in range(len(row.ours))]
        if any(each is None or "error" in each for each in found):
            return "no code" if any(each is not None and "error" in each for each in found) else ""
        totals.append(max(least, sum(each["seconds"] for each in found if each is not None)))
    before, after = totals
    return f"{before / after:.2f} ({1e6 * before:.0f} → {1e6 * after:.0f} µs)"


if __name__ == "__main__":
    app()
