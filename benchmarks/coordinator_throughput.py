"""The throughput of two tasks at once on two cores, over both in turns on both: as the system shares, one on each core,
and as `vk.cohost` decides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations_with_replacement

from common import Quartiles
from coordinator_tasks import HIGH, LOW

import vkernels as vk

TASKS = {**HIGH, **LOW}
LEARNING = 1.0
"""Seconds in which `vk.cohost` learns about a pair before it is measured."""


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second of a task by itself."""
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return calls / (time.perf_counter() - begin)


def rates(
    calls: tuple[Callable[[], object], ...], seconds: float, within: Callable[[], AbstractContextManager[object]]
) -> list[float]:
    """Calls a second of tasks side by side, each in a thread."""
    found = [0.0] * len(calls)
    start = threading.Barrier(len(calls))

    def run(number: int) -> None:
        with within():
            start.wait()
            found[number] = rate(calls[number], seconds)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def on(cores: int, calls: tuple[Callable[[], object], ...]) -> None:
    """Let each call use so many cores, and be settled."""
    vk.set_threads(cores)
    with vk.patient():
        for call in calls:
            for _ in range(30):
                call()


def side_by_side(seconds: float, rounds: int, only: str) -> Iterator[str]:
    """A line for each pair: the sum of what each task gets beside the other over what it gets alone on both cores.

    In turns, each with its part of the time, that sum is 1.
    """
    yield "| task | task | default | one on each core | `vk.cohost` | each of them within it | needs, decided |"
    yield "|---|---|---|---|---|---|---|"
    for one, other in combinations_with_replacement(TASKS, 2):
        if only not in f"{one} {other}":
            continue
        calls = TASKS[one](), TASKS[other]()
        default, cores, ours = list[list[float]](), list[list[float]](), list[list[float]]()
        for number in range(rounds):
            on(1, calls)
            by_core = rates(calls, seconds, nullcontext)
            on(2, calls)
            rates(calls, LEARNING if number == 0 else seconds, vk.cohost)
            for kept, within in ((default, nullcontext), (ours, vk.cohost)):
                alone = [rate(call, seconds) for call in calls]
                kept.append(_over(rates(calls, seconds, within), alone))
            cores.append(_over(by_core, alone))
        first, second = (Quartiles.of([each[task] for each in ours]).median for task in range(2))
        shown = " | ".join(map(_sum, (default, cores, ours)))
        yield f"| {one} | {other} | {shown} | {first:.2f}, {second:.2f} | {_decided()} |"


def _over(found: list[float], alone: list[float]) -> list[float]:
    return [got / had for got, had in zip(found, alone, strict=True)]


def _sum(parts: list[list[float]]) -> str:
    found = Quartiles.of([sum(each) for each in parts])
    return f"{found.median:.2f} ({found.lower:.2f}–{found.upper:.2f})"


def _decided() -> str:
    """What `vk.cohost` knows of the pair that met last."""
    company = vk.stats().companies[-1]
    way = "side by side" if company.is_beside else "in turns"
    return f"{company.what} {company.needed:.2f}, {way}"
