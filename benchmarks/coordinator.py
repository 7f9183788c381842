"""Two tasks on one CPU: what calls of the first cost beside the second, and what the second gets done.

    python benchmarks/coordinator.py [--cores 1|2] [--seconds 0.4] [--rounds 5] [--gap 1e-3] [--only softmax]
                                     [--apart] [--below normal] [--json FILE] [--markdown FILE]
    python benchmarks/coordinator.py --contracts [--cores 1|2] [--seconds 0.4] [--gap 1e-3] [--only softmax]
    python benchmarks/coordinator.py --throughput [--seconds 0.4] [--rounds 5] [--only softmax]
    python benchmarks/coordinator.py --simulated [--cores 1|2] [--seconds 0.4] [--rounds 5] [--only softmax]
    python benchmarks/coordinator.py --all [--only softmax]

The *high* task calls a kernel, sleeps for a while (`gap`), and calls it again; the *low* one calls its kernel in a
loop, in a thread of its own (`--apart`: in a process of its own). In turns: the high task alone; beside the low one as
the system shares (`default`); with the low task's thread under `SCHED_IDLE` (`idle class`); and with
`vk.priority("high")` and `vk.priority("low")` (`ours`; `--below normal`: and `vk.priority("normal")`). Of the high
task's calls p50 and p99 over those of the same turn alone; p99 of its answers, which count from the end of the sleep
that was asked for; the low task's calls a second over those by default, and over what it gets by itself, times the
part of the time in which the high task sleeps. Medians of the rounds, with their quartiles. At the end, calls with high
priority over those without, both alone.

`--contracts`: which calls `vk.admit` says will end in time, and which do. `--throughput`: two tasks at once on two
cores, as the system shares, one on each core, and within `vk.cohost`, over both in turns on both cores.
`--simulated`: calls of high priority as simulated from durations and gaps of both tasks alone, over those measured.
`--all`: all of these in turn, on two cores and on one, short enough to end within 15 minutes.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from common import Machine, Quartiles
from coordinator_all import run_all
from coordinator_contracts import contracts_kept
from coordinator_simulated import simulated
from coordinator_tasks import HIGH, LOW, Apart, Beside, use_cores
from coordinator_throughput import side_by_side
from coordinator_verdicts import Row, verdicts
from rich.console import Console

import vkernels as vk

console = Console(highlight=False)
SETTINGS = ("alone", "default", "idle class", "ours")
OVERHEAD = "ours, alone"


@dataclass(frozen=True)
class Turn:
    """Seconds of the high task's calls and answers, and calls a second of the low one. `sleeps`: part of the time."""

    p50: float
    p99: float
    answer: float
    rate: float
    sleeps: float


def turn(high: Callable[[], object], low: Beside | Apart, setting: str, seconds: float, gap: float, below: str) -> Turn:
    is_alone = setting in ("alone", OVERHEAD)
    if not is_alone:
        low.start(below if setting == "ours" else setting)
        time.sleep(0.02)
    begin, before, took, answers = time.perf_counter(), low.done.value, list[float](), list[float]()
    due = begin
    with vk.priority("high") if setting in ("ours", OVERHEAD) else nullcontext():
        while time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            high()
            end = time.perf_counter()
            took.append(end - start)
            answers.append(end - due)
            due = time.perf_counter() + gap
            time.sleep(gap)
    elapsed = time.perf_counter() - begin
    rate = (low.done.value - before) / elapsed
    if not is_alone:
        low.stop()
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return Turn(float(p50), float(p99), float(np.quantile(answers, 0.99)), rate, max(0.0, 1 - sum(took) / elapsed))


def low_alone(low: Beside | Apart, seconds: float) -> float:
    """Calls a second of the low task by itself."""
    low.start("default")
    time.sleep(0.02)
    begin, before = time.perf_counter(), low.done.value
    time.sleep(seconds)
    rate = (low.done.value - before) / (time.perf_counter() - begin)
    low.stop()
    return rate


high_alone: dict[str, Quartiles] = {}
"""Of each high task: p50 of its calls with high priority over that without, both alone."""


def measured(cores: int, seconds: float, rounds: int, gap: float, only: str, apart: bool, below: str) -> Iterator[Row]:
    processes: dict[str, Apart] = {}
    for high_name, make_high in HIGH.items():
        for low_name in LOW:
            if only not in f"{high_name} {low_name}":
                continue
            high = make_high()
            if apart and low_name not in processes:
                processes[low_name] = Apart(low_name, cores)
            low = processes[low_name] if apart else Beside(low_name, ctypes.c_int64())
            for _ in range(30):
                high()
            turns, by_itself, overheads = list[dict[str, Turn]](), list[float](), list[float]()
            for _ in range(rounds):
                turns.append({s: turn(high, low, s, seconds, gap, below) for s in SETTINGS})
                by_itself.append(low_alone(low, seconds))
                again = turn(high, low, OVERHEAD, seconds, gap, below)
                overheads.append(again.p50 / turn(high, low, "alone", seconds, gap, below).p50)
            for setting in SETTINGS[1:]:
                yield Row(
                    high_name, low_name, setting,
                    Quartiles.of([each[setting].p50 / each["alone"].p50 for each in turns]),
                    Quartiles.of([each[setting].p99 / each["alone"].p99 for each in turns]),
                    Quartiles.of([each[setting].answer / each["alone"].answer for each in turns]),
                    Quartiles.of([each[setting].rate / each["default"].rate for each in turns]),
                    Quartiles.of([
                        each[setting].rate / max(1e-9, alone * each[setting].sleeps)
                        for each, alone in zip(turns, by_itself, strict=True)
                    ]),
                )  # fmt: skip
            high_alone[high_name] = Quartiles.of([*overheads])
    for process in processes.values():
        process.end()


def shown(value: Quartiles) -> str:
    return f"{value.median:.2f} ({value.lower:.2f}–{value.upper:.2f})"


def main(
    cores: Annotated[int, typer.Option(help="cores that both tasks share")] = 1,
    seconds: Annotated[float, typer.Option(help="of a turn")] = 0.4,
    rounds: Annotated[int, typer.Option()] = 5,
    gap: Annotated[float, typer.Option(help="seconds between calls of the high task")] = 1e-3,
    only: Annotated[str, typer.Option(help="part of a pair's name")] = "",
    apart: Annotated[bool, typer.Option("--apart", help="two processes")] = False,
    below: Annotated[str, typer.Option(help="the low task's priority: low or normal")] = "low",
    contracts: Annotated[
        bool, typer.Option("--contracts", help="compare answers of vk.admit with what happens")
    ] = False,
    throughput: Annotated[bool, typer.Option("--throughput", help="tasks side by side, over in turns")] = False,
    everything: Annotated[bool, typer.Option("--all", help="all of these, within 15 minutes")] = False,
    is_simulated: Annotated[bool, typer.Option("--simulated", help="simulated over measured calls")] = False,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
    markdown: Annotated[Path | None, typer.Option()] = None,
) -> None:
    if everything:
        raise typer.Exit(run_all(only))
    use_cores(2 if throughput else cores)
    reports = [
        *([contracts_kept(seconds, gap, only)] if contracts else []),
        *([side_by_side(seconds, rounds, only)] if throughput else []),
        *([simulated(seconds, rounds, gap, only)] if is_simulated else []),
    ]
    if reports:
        for line in chain(*reports):
            console.print(line, soft_wrap=True)
        return
    lines = [
        "| high | low | setting | p50 / alone | p99 / alone | answers' p99 / alone | low / default | low / left |",
        "|---|---|---|---|---|---|---|---|",
    ]
    console.print(*lines, sep="\n")
    rows = []
    for row in measured(cores, seconds, rounds, gap, only, apart, below):
        rows.append(row)
        figures = " | ".join(map(shown, (row.p50, row.p99, row.answer, row.rate, row.left)))
        line = f"| {row.high} | {row.low} | {row.setting} | {figures} |"
        lines.append(line)
        console.print(line, soft_wrap=True)
    ends = [f"{name} alone, with high priority over without: {shown(ratio)}" for name, ratio in high_alone.items()]
    ends += verdicts(rows, high_alone)
    console.print("", *ends, sep="\n")
    if json_file is not None:
        machine = asdict(Machine.here(cores))
        json_file.write_text(json.dumps({"machine": machine, "cores": cores, "rows": [asdict(row) for row in rows]}))
    if markdown is not None:
        markdown.write_text("\n".join([*lines, "", *ends]) + "\n")


if __name__ == "__main__":
    typer.run(main)
