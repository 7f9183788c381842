"""Training steps that need more than the device has: every strategy's schedule, simulated, beside a bound on the time.

    python benchmarks/swap.py [--only vit-1280] [--traces FOLDER] [--docs FOLDER] [--no-saving] [--host-flash 16]

The steps and the machine are G10's: 40 GiB of device, 128 GiB of host, PCIe 3.0 x16, flash of 3.2 GB/s. Tables and
plots go to `--docs`; docs/memory-swapping.md says what is asked and what was found. About ten minutes on one core, most
of it for the largest saving and for the last table.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import thread_time
from typing import Annotated

import typer
from rich.console import Console
from swap_draw import BEGIN, END, memory_plot

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.bound import TimeBound, lower_bound
from vkernels.memory.imports import read_g10
from vkernels.memory.links import G10, MemoryMachine
from vkernels.memory.recompute import search_recomputing
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun, simulate
from vkernels.memory.simulate_engine import Engine, SimulationInput
from vkernels.memory.strategies import PUBLISHED, search
from vkernels.memory.strategies.g10 import g10
from vkernels.memory.strategies.moves import with_moves
from vkernels.memory.strategies.on_demand import on_demand
from vkernels.memory.strategies.search import Saving, largest_saving
from vkernels.memory.trace import MemoryTrace

ROOT = Path(__file__).parents[1]
TRACES = ROOT.parent / "shared" / "data" / "g10"
NAMES = ("bert-256", "vit-1280", "resnet152-1280")
OURS = "ours"
NOISE, DRAWS, SEED = 0.25, 20, 20261121
"""Kernel times are drawn evenly from so much less to so much more, so often."""
TIGHT = (("bert-256", 20), ("vit-1280", 30), ("vit-1280", 20), ("resnet152-1280", 30))
"""Steps, and GiB of device memory that are few for them."""
SIZES = (40, 32, 24)
"""GiB of device memory at which all strategies are compared."""
PREFETCHED = 2 << 20
"""Bytes that a page fault of unified memory moves where the driver's prefetching is perfect."""
TITLES = {"g10": "G10", "deepum_plus": "DeepUM+", "flashneuron": "FlashNeuron", "uvm": "unified memory"}
console = Console(highlight=False)


@dataclass(frozen=True)
class Row:
    """One strategy on one trace. `planned`: seconds that making the schedule took; `noisy`: fractions of the ideal."""

    schedule: SwapSchedule
    run: SimulatedRun
    planned: float
    noisy: tuple[float, ...]


@dataclass(frozen=True)
class Found:
    """All that is measured of one trace. `events`: simulated a second."""

    trace: MemoryTrace
    published: dict[str, float | None]
    rows: dict[str, Row]
    bound: TimeBound
    events: float
    saving: Saving | None

    def fraction(self, seconds: float) -> float:
        return self.trace.seconds / seconds


def measure(path: Path, saving: bool) -> Found:
    """Every strategy on one trace."""
    trace = read_g10(path)
    published = json.loads(gzip.decompress(path.read_bytes()))["published_fraction_of_ideal"]
    rows = {}
    for name, strategy in {**PUBLISHED, OURS: search}.items():
        begin = thread_time()
        schedule = strategy(trace, G10)
        planned = thread_time() - begin
        rows[name] = Row(schedule, simulate(trace, schedule, G10, timeline=True), planned, _noisy(trace, schedule, G10))
        console.print(f"{trace.name:16} {name:16} {rows[name].run.fraction:.4f}  planned in {planned:.1f} s")
    least = largest_saving(trace, G10) if saving else None
    return Found(trace, published, rows, lower_bound(trace, G10), _events(trace, rows[OURS].schedule), least)


def _noisy(trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine) -> tuple[float, ...]:
    draw = random.Random(SEED)
    fractions = []
    for _ in range(DRAWS):
        seconds = [op.seconds * draw.uniform(1 - NOISE, 1 + NOISE) for op in trace.operations]
        fractions.append(simulate(trace, schedule, machine, seconds).fraction)
    return tuple(fractions)


def _events(trace: MemoryTrace, schedule: SwapSchedule) -> float:
    """Events a second of this thread's own time, the best of five times twenty iterations."""
    best = 0.0
    for _ in range(5):
        prepared = SimulationInput(trace, G10)
        engine = Engine(prepared, schedule, prepared.seconds)
        begin = thread_time()
        for _ in range(20):
            engine.iterate()
        best = max(best, engine.events / (thread_time() - begin))
    return best


def tight(traces: Path, cases: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Markdown: less device memory still, with and without recomputing."""
    yield "| step | device, GiB | G10, re-implemented | ours | bound for these | ours, recomputing | made again |"
    yield "|---|---|---|---|---|---|---|"
    for name, size in cases:
        trace, machine = read_g10(traces / f"{name}.json.gz"), G10.with_device(size << 30)
        again = search_recomputing(trace, machine, lambda op: not op.name.startswith("LoadData"))
        others = [simulate(trace, make(trace, machine), machine).fraction for make in (g10, search)]
        bound = trace.seconds / lower_bound(trace, machine).seconds
        numbers = [*others, bound, again.run.fraction]
        line = f"| {trace.name} | {size} | {' | '.join(f'{each:.3f}' for each in numbers)} | {len(again.again)} |"
        console.print(line)
        yield line


def at_sizes(traces: Path) -> Iterator[str]:
    """Markdown: every strategy with several sizes of device memory; ours with noise, and recomputing."""
    yield (
        "| step | device, GiB | "
        + " | ".join(PUBLISHED)
        + " | ours | bound | ours, noise | best other, noise | recomputing |"
    )
    yield "|---|---|" + "---|" * (len(PUBLISHED) + 5)
    for name in NAMES:
        trace = read_g10(traces / f"{name}.json.gz")
        for size in SIZES:
            machine = G10.with_device(size << 30)
            made = {each: strategy(trace, machine) for each, strategy in {**PUBLISHED, OURS: search}.items()}
            noisy = {each: sum(_noisy(trace, schedule, machine)) / DRAWS for each, schedule in made.items()}
            again = search_recomputing(trace, machine, lambda op: not op.name.startswith("LoadData"))
            numbers = [
                *(simulate(trace, schedule, machine).fraction for schedule in made.values()),
                trace.seconds / lower_bound(trace, machine).seconds,
                noisy.pop(OURS), max(noisy.values()), again.run.fraction,
            ]  # fmt: skip
            line = f"| {trace.name} | {size} | {' | '.join(f'{each:.4f}' for each in numbers)} |"
            console.print(line)
            yield line


def with_host_flash(traces: Path, only: Sequence[str], host: int) -> Iterator[str]:
    """Markdown: a small host, flash with and without direct transfers, and our schedules with moves as well."""
    yield (
        f"| step | device, GiB, host of {host} GiB | flash | best other | ours | ours with moves | tensors that move "
        "| bound | best other, noise | ours, noise | ours with moves, noise |"
    )
    yield "|---|---|---|" + "---|" * 8
    for name, flash, size in product(only, ("direct", "staged"), SIZES):
        trace = read_g10(traces / f"{name}.json.gz")
        moving = replace(G10.with_device(size << 30), host_bytes=host << 30).with_moves()
        moving = moving.staged() if flash == "staged" else moving
        machine, made = moving.without_moves(), []
        for strategy in PUBLISHED.values():
            with suppress(MemoryPlanError):
                made.append(strategy(trace, machine))
        ours = search(trace, machine, others=[lambda *_, each=each: each for each in made])
        moved = min([ours, *with_moves(trace, moving, ours)], key=lambda each: simulate(trace, each, moving).seconds)
        numbers = [max(simulate(trace, each, machine).fraction for each in made)]
        numbers += [simulate(trace, each, moving).fraction for each in (ours, moved)]
        moves = sum(each.down is not None for each in moved.absences)
        noisy = [max(sum(_noisy(trace, each, machine)) / DRAWS for each in made)]
        noisy += [sum(_noisy(trace, each, moving)) / DRAWS for each in (ours, moved)]
        bounds = trace.seconds / lower_bound(trace, moving).seconds
        first, rest = (" | ".join(f"{each:.4f}" for each in some) for some in (numbers, [bounds, *noisy]))
        line = f"| {trace.name} | {size} | {flash} | {first} | {moves} | {rest} |"
        console.print(line, soft_wrap=True)
        yield line


def prefetched(traces: Path) -> Iterator[str]:
    """Markdown: unified memory where each page fault moves more."""
    for name in NAMES:
        trace = read_g10(traces / f"{name}.json.gz")
        fraction = simulate(trace, on_demand(trace, G10), replace(G10, fault_bytes=PREFETCHED)).fraction
        yield f"{trace.name} {fraction:.4f}"


def tables(found: dict[str, Found]) -> Iterator[str]:
    """Markdown, line by line."""
    names = list(found)
    yield "| fraction of the ideal time | " + " | ".join(found[name].trace.name for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    for key, title in TITLES.items():
        yield (
            f"| {title}, as published | " + " | ".join(_number(found[name].published.get(key)) for name in names) + " |"
        )
    for row in found[names[0]].rows:
        title = "**ours**" if row == OURS else f"{row}, re-implemented"
        yield f"| {title} | " + " | ".join(_number(found[name].rows[row].run.fraction, 4) for name in names) + " |"
    bounds = (_number(each.fraction(each.bound.seconds), 4) for each in found.values())
    yield "| no schedule can do better than | " + " | ".join(bounds) + " |"
    yield ""
    yield "| ours | " + " | ".join(found[name].trace.name for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    for title, values in _details(found):
        yield f"| {title} | " + " | ".join(values) + " |"
    for name in names:
        yield f"\n![Memory, links and waits of {found[name].trace.name}](memory-swapping/{name}.svg)"


def _details(found: dict[str, Found]) -> Iterator[tuple[str, list[str]]]:
    each = list(found.values())
    ours = [one.rows[OURS] for one in each]
    yield "peak without a schedule, GB", [f"{one.trace.peak / 1e9:.1f}" for one in each]
    yield (
        "moved an iteration, out and in, GB",
        [_moved(one.trace, row.schedule) for one, row in zip(each, ours, strict=True)],
    )
    yield "absences", [str(len(row.schedule.absences)) for row in ours]
    yield "ideal time, s", [f"{one.trace.seconds:.3f}" for one in each]
    yield "time, s", [f"{row.run.seconds:.3f}" for row in ours]
    yield "least time that the bound allows, s", [f"{one.bound.seconds:.3f}" for one in each]
    yield "fraction with ±25 % noise on kernel times: mean", [_number(sum(row.noisy) / DRAWS, 4) for row in ours]
    yield f"the worst of {DRAWS} draws", [_number(min(row.noisy), 4) for row in ours]
    yield "made in, s", [f"{row.planned:.1f}" for row in ours]
    yield "simulated, million events a second", [f"{one.events / 1e6:.1f}" for one in each]
    if all(one.saving is not None for one in each):
        savings = [one.saving for one in each if one.saving is not None]
        yield (
            "least device memory found without any slow-down, GB",
            [f"{one.device_bytes / 1e9:.1f}" for one in savings],
        )
        yield "saved of the peak (AutoSwap publishes 34.2 %)", [f"{one.part:.1%}" for one in savings]


def _moved(trace: MemoryTrace, schedule: SwapSchedule) -> str:
    out, back = schedule.moved(trace)
    return f"{out / 1e9:.1f}, {back / 1e9:.1f}"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def main(
    only: Annotated[list[str] | None, typer.Option(help="traces by name")] = None,
    traces: Annotated[Path, typer.Option(help="where G10's traces are")] = TRACES,
    docs: Annotated[Path, typer.Option(help="where tables and plots go")] = ROOT / "docs",
    saving: Annotated[bool, typer.Option(help="look for the largest saving too")] = True,
    host_flash: Annotated[int | None, typer.Option(help="only moves between a host of so many GiB and flash")] = None,
) -> None:
    """Measure, print, and write tables and plots."""
    if host_flash is not None:
        console.print("\n".join(with_host_flash(traces, only or NAMES, host_flash)), markup=False, soft_wrap=True)
        return
    found = {name: measure(traces / f"{name}.json.gz", saving) for name in only or NAMES}
    few = [] if only else ["", *at_sizes(traces), "", *tight(traces, TIGHT)]
    console.print(f"unified memory, {PREFETCHED >> 20} MiB a fault: {', '.join(prefetched(traces))}")
    text = "\n".join([*tables(found), *few])
    console.print(text, markup=False)
    if only is not None:
        return
    folder, page = docs / "memory-swapping", docs / "memory-swapping.md"
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in found.items():
        (folder / f"{name}.svg").write_text(memory_plot(each.trace, each.rows[OURS].schedule, each.rows[OURS].run, G10))
    before, _, rest = (page.read_text() if page.exists() else f"{BEGIN}\n{END}\n").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    typer.run(main)
