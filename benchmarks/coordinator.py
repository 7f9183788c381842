"""Two tasks on one CPU: what calls of the first cost beside the second, and what the second gets done.

    python benchmarks/coordinator.py [--cores 1|2] [--seconds 0.4] [--rounds 5] [--gap 1e-3] [--only softmax]
                                     [--apart] [--below normal] [--json FILE] [--markdown FILE]

The *high* task calls a kernel, sleeps for a while (`gap`), and calls it again; the *low* one calls its kernel in a
loop, in a thread of its own (`--apart`: in a process of its own). In turns: the high task alone; beside the low one as
the system shares (`default`); with the low task's thread under `SCHED_IDLE` (`idle class`); and with
`vk.priority("high")` and `vk.priority("low")` (`ours`; `--below normal`: and `vk.priority("normal")`). Of the high
task's calls p50 and p99 over those of the same turn alone; p99 of its answers, which count from the end of the sleep
that was asked for; the low task's calls a second over those by default. Medians of the rounds, with their quartiles.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import torch
import typer
from common import Machine, Quartiles
from rich.console import Console

import vkernels as vk
from vkernels import library

console = Console(highlight=False)
SETTINGS = ("alone", "default", "idle class", "ours")


def softmax(rows: int, columns: int) -> Callable[[], object]:
    x, out = torch.randn(rows, columns), torch.empty(rows, columns)
    return lambda: library.softmax(x, out=out)


def layer_norm(rows: int, columns: int) -> Callable[[], object]:
    x, weight, bias = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)
    return lambda: library.layer_norm(x, weight, bias)


def matmul(size: int) -> Callable[[], object]:
    a, b = torch.randn(size, size), torch.randn(size, size)
    return lambda: library.matmul(a, b)


HIGH = {
    "layer_norm 64×1024": lambda: layer_norm(64, 1024),
    "softmax 512×1024": lambda: softmax(512, 1024),
    "matmul 256³": lambda: matmul(256),
    "softmax 2048×4096": lambda: softmax(2048, 4096),
}
LOW = {
    "layer_norm 64×1024": lambda: layer_norm(64, 1024),
    "matmul 1024³": lambda: matmul(1024),
    "softmax 4096×4096": lambda: softmax(4096, 4096),
}
"""Short ones and long ones, bound by arithmetic, by caches and by memory."""


@dataclass(frozen=True)
class Turn:
    """Seconds of the high task's calls and answers, and calls a second of the low one."""

    p50: float
    p99: float
    answer: float
    rate: float


class Count(Protocol):
    """Calls of the low task so far; one thread writes it."""

    value: int


def low_task(call: Callable[[], object], setting: str, is_over: threading.Event, done: Count) -> None:
    """`setting`: of the low task, "low" or "normal" for ours."""
    if setting == "idle class":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with vk.priority("low") if setting == "low" else vk.priority("normal") if setting == "normal" else nullcontext():
        while not is_over.is_set():
            call()
            done.value += 1


class Beside:
    """The low task in a thread of this process."""

    def __init__(self, name: str, done: Count):
        self.call, self.done = LOW[name](), done
        for _ in range(30):
            self.call()

    def start(self, setting: str) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=low_task, args=(self.call, setting, self._is_over, self.done))
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Apart:
    """The low task in a process of its own."""

    def __init__(self, name: str, cores: int):
        context = multiprocessing.get_context("spawn")
        self.done: Count = context.RawValue("q")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=other_process, args=(name, cores, theirs, self.done), daemon=True)
        self._process.start()
        self._pipe.recv()

    def start(self, setting: str) -> None:
        self._pipe.send(setting)
        self._pipe.recv()

    def stop(self) -> None:
        self._pipe.send("stop")
        self._pipe.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def other_process(name: str, cores: int, pipe: Connection, done: Count) -> None:
    use_cores(cores)
    task = Beside(name, done)
    pipe.send("ready")
    while True:
        task.start(pipe.recv())
        pipe.send("started")
        pipe.recv()
        task.stop()
        pipe.send("stopped")


def turn(high: Callable[[], object], low: Beside | Apart, setting: str, seconds: float, gap: float, below: str) -> Turn:
    if setting != "alone":
        low.start(below if setting == "ours" else setting)
        time.sleep(0.02)
    begin, before, took, answers = time.perf_counter(), low.done.value, list[float](), list[float]()
    due = begin
    with vk.priority("high") if setting == "ours" else nullcontext():
        while time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            high()
            end = time.perf_counter()
            took.append(end - start)
            answers.append(end - due)
            due = time.perf_counter() + gap
            time.sleep(gap)
    rate = (low.done.value - before) / (time.perf_counter() - begin)
    if setting != "alone":
        low.stop()
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return Turn(float(p50), float(p99), float(np.quantile(answers, 0.99)), rate)


@dataclass(frozen=True)
class Row:
    """Of one pair and setting: p50, p99 and answers' p99 over alone, the low task's rate over that by default."""

    high: str
    low: str
    setting: str
    p50: Quartiles
    p99: Quartiles
    answer: Quartiles
    rate: Quartiles


def use_cores(number: int) -> None:
    """Let this process use the first so many of its cores."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:number]))
    vk.set_threads(number)
    torch.set_num_threads(number)


def measured(cores: int, seconds: float, rounds: int, gap: float, only: str, apart: bool, below: str) -> Iterator[Row]:
    for high_name, make_high in HIGH.items():
        for low_name in LOW:
            if only not in f"{high_name} {low_name}":
                continue
            high = make_high()
            low = Apart(low_name, cores) if apart else Beside(low_name, ctypes.c_int64())
            for _ in range(30):
                high()
            turns = [{s: turn(high, low, s, seconds, gap, below) for s in SETTINGS} for _ in range(rounds)]
            if isinstance(low, Apart):
                low.end()
            for setting in SETTINGS[1:]:
                yield Row(
                    high_name, low_name, setting,
                    Quartiles.of([each[setting].p50 / each["alone"].p50 for each in turns]),
                    Quartiles.of([each[setting].p99 / each["alone"].p99 for each in turns]),
                    Quartiles.of([each[setting].answer / each["alone"].answer for each in turns]),
                    Quartiles.of([each[setting].rate / each["default"].rate for each in turns]),
                )  # fmt: skip


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
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
    markdown: Annotated[Path | None, typer.Option()] = None,
) -> None:
    use_cores(cores)
    lines = [
        "| high | low | setting | high p50 / alone | high p99 / alone | answers' p99 / alone | low / default |",
        "|---|---|---|---|---|---|---|",
    ]
    console.print(*lines, sep="\n")
    rows = []
    for row in measured(cores, seconds, rounds, gap, only, apart, below):
        rows.append(row)
        figures = " | ".join(map(shown, (row.p50, row.p99, row.answer, row.rate)))
        line = f"| {row.high} | {row.low} | {row.setting} | {figures} |"
        lines.append(line)
        console.print(line)
    if json_file is not None:
        machine = asdict(Machine.here(cores))
        json_file.write_text(json.dumps({"machine": machine, "cores": cores, "rows": [asdict(row) for row in rows]}))
    if markdown is not None:
        markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    typer.run(main)
