"""The throughput of two tasks side by side, one on each of two cores, over both in turns on both cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

from common import Quartiles
from coordinator_tasks import HIGH, LOW

import vkernels as vk

TASKS = {**HIGH, **LOW}


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second of a task by itself."""
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return calls / (time.perf_counter() - begin)


def rates(calls: tuple[Callable[[], object], ...], seconds: float) -> list[float]:
    """Calls a second of tasks side by side, each in a thread."""
    found = [0.0] * len(calls)
    start = threading.Barrier(len(calls))

    def run(number: int) -> None:
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
    """A line for each pair: the sum of what each task gets side by side over what it gets alone on both cores.

    In turns, each with its part of the time, that sum is 1.
    """
    yield "| task | task | side by side over in turns | each over alone on both cores |"
    yield "|---|---|---|---|"
    for one, other in combinations_with_replacement(TASKS, 2):
        if only not in f"{one} {other}":
            continue
        calls = TASKS[one](), TASKS[other]()
        parts = list[list[float]]()
        for _ in range(rounds):
            on(2, calls)
            alone = [rate(call, seconds) for call in calls]
            on(1, calls)
            parts.append([got / had for got, had in zip(rates(calls, seconds), alone, strict=True)])
        whole = Quartiles.of([sum(each) for each in parts])
        first, second = (Quartiles.of([each[number] for each in parts]).median for number in range(2))
        shown = f"{whole.median:.2f} ({whole.lower:.2f}–{whole.upper:.2f})"
        yield f"| {one} | {other} | {shown} | {first:.2f}, {second:.2f} |"
