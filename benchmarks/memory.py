"""Twenty programs under limits of memory, beside what torch's users do: saved tensors on the host, and checkpoints.

    python benchmarks/memory.py [--steps 8] [--parts 70,50,30] [--only Gpt,Unet] [--no-plan] [--turns] [--peers]
                               [--json FILE]

The programs of tests/memory/matrix_programs.py, each unlimited, with all saved tensors on the host, with a checkpoint
of every block, with both, and under limits of 70, 50 and 30 % of its unlimited peak. Peaks are the meter's, which
follows every storage; seconds are those of the program's thread, the median of the steps after the first three (or of
those that a plan was followed in). On a CPU `torch.autograd.graph.save_on_cpu` copies nothing: hooks that copy to other
memory and back stand for it. `--turns` compares calls on demand and by a plan with plain ones, in turns.
docs/memory-running.md says what was found.
"""

from __future__ import annotations

import functools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import checkpoint

from vkernels.ir.errors import OutOfMemoryError
from vkernels.memory import Limited, limit

ROOT = Path(__file__).parents[1]
FIRST = 3
"""Steps that are not timed."""
METERED = 14
"""Calls whose peak is measured: on demand, recorded, and not watched."""
console = Console(highlight=False, width=110)


class SavedOnHost:
    """Hooks that copy saved tensors to memory which counts as the host's."""

    def __init__(self) -> None:
        self._copies: dict[int, StorageWeakRef] = {}

    def on_host(self, address: int) -> bool:
        """Whether a copy is at this address."""
        return address in self._copies and not self._copies[address].expired()

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():  # the meter sees no new memory of the device
            copy = tensor.detach().clone()
        self._copies[copy.untyped_storage().data_ptr()] = StorageWeakRef(copy.untyped_storage())
        return copy

    def unpack(self, copy: torch.Tensor) -> torch.Tensor:
        return copy.clone()


@dataclass
class Column:
    """One way to run a program. `peak`: in bytes; `refused`: why it does not run."""

    name: str
    peak: int = 0
    seconds: float = 0.0
    same: bool = True
    refused: str = ""
    planned: int = 0


@dataclass
class Row:
    """A program. `columns`: without a limit, then as users do, then by limit."""

    name: str
    columns: list[Column] = field(default_factory=list)

    def of(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)


def run(make: Any, steps: int, name: str, wrap: Callable[[Any], Any], on_host: Callable[[int], bool] | None) -> Any:
    """Run a program twice: timed, then metered. Return its column, losses, and what it learnt."""
    from tests.memory.meter import Meter

    column = Column(name)
    try:
        program = make()
        step, times = wrap(program), []
        for i in range(steps):
            begun = time.thread_time()
            step(i)
            times.append(time.thread_time() - begun)
        column.planned = getattr(getattr(step, "report", None), "planned", 0)
        column.seconds = median(times[-column.planned :] if column.planned else times[FIRST:])
        program = make()
        step = wrap(program)
        with Meter(program.state(), on_host or getattr(step, "on_host", None) or (lambda address: False)) as meter:
            losses = [step(i).item() for i in range(steps)]
        column.peak = meter.peak
        return column, losses, [value.clone() for value in program.state()]
    except (OutOfMemoryError, RuntimeError, NotImplementedError) as error:
        column.refused = str(error).splitlines()[0]
        return column, None, None


def saved(program: Any, hooks: SavedOnHost) -> Callable[[int], torch.Tensor]:
    """The step with its saved tensors on the host."""

    def step(i: int) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
            return program.step(i)

    return step


def checkpointed(program: Any) -> Any:
    """Run every block of a program's modules as a checkpoint."""
    for module in program.modules:
        for block in module if isinstance(module, nn.ModuleList) else [module]:
            if len([*block.children()]) > 0 or isinstance(block, nn.RNNBase):
                block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return program


def under(program: Any, size: int, more: dict[str, Any]) -> Limited[[int], torch.Tensor]:
    """The step under a limit."""
    return limit(program.step, size, **more)


def row_of(make: Any, steps: int, parts: list[int], plan: bool) -> Row:
    """Run a program in all ways."""
    more: dict[str, Any] = {"strict": True, "warm_up": 1 if plan else steps}
    row, host = Row(make.__name__), SavedOnHost()
    plain, losses, state = run(make, steps, "plain", lambda program: program.step, None)
    row.columns.append(plain)
    for name, wrap in (
        ("host", lambda program: saved(program, host)),
        ("checkpoint", lambda program: checkpointed(program).step),
        ("both", lambda program: saved(checkpointed(program), host)),
    ):
        row.columns.append(run(make, steps, name, wrap, host.on_host)[0])
    for part in parts:
        size = plain.peak * part // 100
        wrap = functools.partial(under, size=size, more=more)
        column, found, learnt = run(make, steps, f"{part}%", wrap, None)
        if found is not None:
            column.same = found == losses and all(map(torch.equal, learnt, state))
        row.columns.append(column)
    return row


def in_turns(make: Any, steps: int, part: int) -> list[str]:
    """Run a program plain, on demand and planned, call by call in turns: a row of ratios of processor time."""
    size = _peak(make, lambda program: program.step) * part // 100
    demand, plan = under(make(), size, {"warm_up": steps}), under(make(), size, {})
    times = _in_turns({"plain": make().step, "demand": demand, "plan": plan}, steps)

    def ratio(one: str, other: str) -> str:
        return _ratio(times[one][-steps // 2 :], times[other][-steps // 2 :])

    report = plan.report
    return [
        make.__name__, f"{part} %", str(report.period), f"{report.planned} of {report.calls}",
        ratio("demand", "plain"), ratio("plan", "plain"), ratio("demand", "plan"),
    ]  # fmt: skip


def beside_peers(make: Any, steps: int) -> Iterator[list[str]]:
    """Run a program plain, as a user does, and under a limit of that peak, call by call in turns: a row for each."""
    host = SavedOnHost()
    peers: dict[str, Callable[[Any], Callable[[int], Any]]] = {
        "host": lambda program: saved(program, host), "checkpoint": lambda program: checkpointed(program).step,
    }  # fmt: skip
    peak = _peak(make, lambda program: program.step)
    for name, wrap in peers.items():
        size = _peak(make, wrap, host.on_host)
        step = limit(make().step, size)
        calls = {"plain": make().step, "peer": wrap(make()), "ours": step}
        times = _in_turns(calls, steps)
        first = steps - min(step.report.planned, steps // 2)
        later = {each: found[first:] for each, found in times.items()}
        most = _peak(make, lambda program, size=size: limit(program.step, size), calls=METERED)
        yield [
            make.__name__, f"{name}: {size / peak:.3f}", f"{most / size:.3f}", f"{step.report.planned} of {steps}",
            _ratio(later["peer"], later["plain"]), _ratio(later["ours"], later["plain"]),
            _ratio(later["ours"], later["peer"]),
        ]  # fmt: skip


def _peak(
    make: Any, wrap: Callable[[Any], Any], on_host: Callable[[int], bool] | None = None, calls: int = 2 * FIRST + 1
) -> int:
    """Run a program's first calls; return the meter's peak."""
    from tests.memory.meter import Meter

    program = make()
    step = wrap(program)
    with Meter(program.state(), on_host or getattr(step, "on_host", lambda address: False)) as meter:
        for i in range(calls):
            step(i)
    return int(meter.peak)


def _in_turns(calls: dict[str, Callable[[int], Any]], steps: int) -> dict[str, list[float]]:
    """Run the same calls of several programs in turns. Return seconds of the program's thread, by program."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = [*calls.items()]
    for i in range(steps):
        random.shuffle(order)  # after a watched call the caches hold less of a program
        for name, call in order:
            torch.manual_seed(i)
            begun = time.thread_time()
            call(i)
            times[name].append(time.thread_time() - begun)
    return times


def _ratio(one: list[float], other: list[float]) -> str:
    low, middle, high = quantiles([a / b for a, b in zip(one, other, strict=True)], n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def wrong(row: Row, parts: list[int]) -> list[str]:
    """What contradicts the claims: other bits, a limit not kept, or a cell refused in which others stay within it."""
    found, plain = [], row.of("plain")
    for part in parts:
        ours, size = row.of(f"{part}%"), plain.peak * part // 100
        others = [each.name for each in row.columns[1:4] if not each.refused and each.peak <= size]
        if not ours.same:
            found.append(f"{row.name} {part}%: other bits")
        if ours.peak > size:
            found.append(f"{row.name} {part}%: {ours.peak} bytes, limit {size}")
        if ours.refused and others:
            found.append(f"{row.name} {part}%: refused, and {', '.join(others)} would do")
    return found


def show(rows: list[Row], parts: list[int]) -> None:
    """Print the table: the peak as a part of the unlimited one, and the time of a step as a multiple."""
    table = Table(box=None, pad_edge=False)
    names = [each.name for each in rows[0].columns[1:]]
    for head in ("", "peak KiB", "step ms", *names):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows:
        plain = row.of("plain")
        cells = (
            "–" if each.refused else f"{each.peak / plain.peak:.2f} × {each.seconds / plain.seconds:.1f}"
            for each in row.columns[1:]
        )  # fmt: skip
        table.add_row(row.name, f"{plain.peak / 1024:.0f}", f"{plain.seconds * 1e3:.1f}", *cells)
    console.print(table)
    cells = [row.of(f"{part}%") for row in rows for part in parts]
    refused = sum(bool(each.refused) for each in cells)
    console.print(f"{len(cells) - refused} of {len(cells)} cells ran within the limit, {refused} were refused.")
    for row in rows:
        for each in wrong(row, parts):
            console.print(each)


def main(
    steps: Annotated[int, typer.Option(min=FIRST + 1)] = 8,
    parts: Annotated[str, typer.Option(help="Limits, in percent of the peak.")] = "70,50,30",
    only: Annotated[str, typer.Option(help="Programs, by name.")] = "",
    plan: Annotated[bool, typer.Option(help="Plan calls that repeat; otherwise all run on demand.")] = True,
    turns: Annotated[bool, typer.Option(help="Only compare calls on demand and by a plan with plain ones.")] = False,
    peers: Annotated[
        bool, typer.Option(help="Only compare limits of their peaks with what users do, in turns.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Run all programs, and show."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT))
    from tests.memory.matrix_programs import OTHERS, PROGRAMS

    names = only.split(",")
    chosen = [each for each in (*PROGRAMS, *OTHERS) if each.__name__ in names or (not only and each in PROGRAMS)]
    limits = [int(each) for each in parts.split(",")]
    if peers:
        print("| program | limit | measured / limit | planned | peer / plain | ours / plain | ours / peer |")
        print("|" + "---|" * 7)
        for make in chosen:
            for row in beside_peers(make, steps):
                print("| " + " | ".join(row) + " |", flush=True)
        return
    if turns:
        print("| program | limit | period | planned | demand / plain | plan / plain | demand / plan |")
        print("|" + "---|" * 7)
        for make in chosen:
            for part in limits:
                print("| " + " | ".join(in_turns(make, steps, part)) + " |", flush=True)
        return
    rows = [row_of(make, steps, limits, plan) for make in track(chosen, "programs", console=Console(stderr=True))]
    show(rows, limits)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    typer.run(main)
