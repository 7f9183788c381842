"""Times of each row: ours, the hand plan, torch, and the fastest configuration of the kernel by hand, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any

import torch
from common import Quartiles

import vkernels as vk
from vkernels.ir.plan_json import plan_to_json
from vkernels.library import matmul
from vkernels.library.rows import softmax_rows

from .case import RIGHT, Case
from .gpu import Gpu
from .records import Records
from .timings import Run, Timed, all_timed

ROUNDS, TRIALS = 21, 3
CALLS = 200
"""Launches that the host starts before it waits: few enough for the device's queue."""


def cases(gpu: Gpu) -> list[Case]:
    before = Records(gpu.records).of("time: right")
    found = [
        Case(name, lambda make=make, name=name: times(make(), before[name]["ways"], gpu), 120.0)
        for name, make in all_timed(gpu).items()
        if "ways" in before.get(name, {})
    ]
    return [*found, *(Case(name, lambda make=make: host_time(make(gpu), gpu)) for name, make in HOST.items())]


def _launches(gpu: Gpu) -> dict[str, Run]:
    x, out, other = (gpu.put(torch.zeros(32, 64)) for _ in range(3))
    return {"ours": lambda: softmax_rows(x, out), "torch": lambda: torch.softmax(x, -1, out=other)}


def _library_calls(gpu: Gpu) -> dict[str, Run]:
    a, b, out, other = (gpu.put(torch.zeros(64, 64)) for _ in range(4))
    return {"ours": lambda: matmul(a, b, out=out), "torch": lambda: torch.mm(a, b, out=other)}


HOST: dict[str, Callable[[Gpu], dict[str, Run]]] = {
    "host time of a launch": _launches, "host time of a library call": _library_calls,
}  # fmt: skip


def times(timed: Timed, ways: dict[str, str], gpu: Gpu) -> dict[str, Any]:
    """Microseconds of each way that was right, with the plan of ours."""
    plans: list[Any] = []
    with vk.on_launch(lambda event: plans.append(event.plan)):
        timed.ways["ours"]()
    runs = {name: run for name, run in timed.ways.items() if ways.get(name) == RIGHT}
    hands = {name: run for name, run in timed.hands.items() if ways.get(name) == RIGHT}
    trials = 1 if gpu.is_simulated else TRIALS
    best = min(hands, key=lambda name: median(taken(hands[name], trials, gpu)), default=None)
    if best is not None:
        runs["hand"] = hands[best]
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(3 if gpu.is_simulated else ROUNDS + 2):
        for name, run in runs.items():
            microseconds = gpu.microseconds(run)
            if number >= 2:
                rounds[name].append(microseconds)
    return {
        "microseconds": {name: asdict(Quartiles.of(found)) for name, found in rounds.items()},
        "hand": best, "plans": [dict(plan_to_json(each)) for each in plans],
        "hand_plan": None if timed.plan is None else dict(plan_to_json(timed.plan)),
        "operations": timed.operations, "moved": timed.moved,
    }  # fmt: skip


def taken(run: Run, count: int, gpu: Gpu) -> list[float]:
    """Microseconds of so many runs, after one that is not counted."""
    gpu.microseconds(run)
    return [gpu.microseconds(run) for _ in range(count)]


def host_time(runs: dict[str, Run], gpu: Gpu) -> dict[str, Any]:
    """Microseconds of the host's time for a cached call of something small: ours and torch's."""
    calls = 2 if gpu.is_simulated else CALLS
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(3 if gpu.is_simulated else ROUNDS + 1):
        for name, run in runs.items():
            gpu.synchronize()
            begun = time.perf_counter()
            for _ in range(calls):
                run()
            seconds = time.perf_counter() - begun
            if number:
                found[name].append(1e6 * seconds / calls)
    gpu.synchronize()
    return {"microseconds": {name: asdict(Quartiles.of(each)) for name, each in found.items()}}
