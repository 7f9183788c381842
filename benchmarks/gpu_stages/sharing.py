"""Two tasks on one GPU: what calls of the first take beside the second, and what the second gets done meanwhile.

The *high* task calls a kernel, waits for it, and sleeps; the *low* one calls its kernel in a loop, and waits after
every `AHEAD` calls. Each has a thread and a stream. In turns: the high task alone; beside the low one as the device
shares (`default`); with streams of higher priority for the high task (`streams`); and with `vk.priority` (`ours`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from common import Quartiles

import vkernels as vk
from vkernels import library

from .case import Case, WrongResultError
from .gpu import Gpu

Call = Callable[[], torch.Tensor]
SETTINGS = ("alone", "default", "streams", "ours")
GAP, AHEAD = 1e-3, 4
SECONDS, ROUNDS = 0.25, 5
WARM = 60
"""Calls of the high task before those that count; profiles need 20."""


def softmax(rows: int, columns: int) -> Call:
    x = torch.randn(rows, columns, device="cuda")
    return lambda: library.softmax(x)


def matmul(size: int) -> Call:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    return lambda: library.matmul(a, b)


HIGH: dict[str, Callable[[], Call]] = {
    "softmax 4096×1024": lambda: softmax(4096, 1024),
    "matmul 1024³": lambda: matmul(1024),
}
LOW: dict[str, Callable[[], Call]] = {
    "softmax 4096×4096": lambda: softmax(4096, 4096),
    "matmul 4096³": lambda: matmul(4096),
    "matmul 12288³": lambda: matmul(12288),
}
"""Some 30 µs, 200 µs and 5 ms of an H200: shorter than the gap, and longer."""


def cases(gpu: Gpu) -> list[Case]:
    return [
        Case(f"{high} beside {low}", lambda high=high, low=low: shared(HIGH[high](), LOW[low](), gpu), 90.0)
        for high in HIGH
        for low in LOW
    ]


def shared(high: Call, low: Call, gpu: Gpu) -> dict[str, Any]:
    """Microseconds of calls of the high task, and calls a second of the low one, in each setting."""
    if gpu.is_simulated:
        pytest.skip("a simulated GPU has no time to share")
    exact = high().clone(), low().clone()
    torch.cuda.synchronize()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # so that the interpreter's lock is not what is measured
    found: dict[str, list[tuple[float, float, float]]] = {setting: [] for setting in SETTINGS}
    try:
        for number in range(ROUNDS + 1):
            for setting in SETTINGS:
                turn = one_turn(high, low, setting, exact)
                if number:
                    found[setting].append(turn)
    finally:
        sys.setswitchinterval(before)
    names = "p50", "p99", "rate"
    fillings = {name: asdict(each) for name, each in vk.stats().fillings.items()}
    return {
        setting: {
            name: asdict(Quartiles.of(list(each))) for name, each in zip(names, zip(*turns, strict=True), strict=True)
        }
        for setting, turns in found.items()
    } | {"fillings": fillings}


def one_turn(
    high: Call, low: Call, setting: str, exact: tuple[torch.Tensor, torch.Tensor]
) -> tuple[float, float, float]:
    """p50 and p99 of the high task's calls, in microseconds, and the low task's calls a second."""
    is_over, done, wrong = threading.Event(), [0], []

    def in_a_loop() -> None:
        with torch.cuda.stream(torch.cuda.Stream()), vk.priority("low" if setting == "ours" else "normal"):
            while not is_over.is_set():
                for _ in range(AHEAD):
                    result = low()
                torch.cuda.current_stream().synchronize()
                done[0] += AHEAD
            if not torch.equal(result, exact[1]):
                wrong.append("low")

    beside = threading.Thread(target=in_a_loop)
    if setting != "alone":
        beside.start()
    stream = torch.cuda.Stream(priority=-1 if setting == "streams" else 0)
    taken = []
    try:
        with torch.cuda.stream(stream), vk.priority("high" if setting == "ours" else "normal"):
            for _ in range(WARM):
                high()
                stream.synchronize()
                time.sleep(GAP)
            begun, at = time.perf_counter(), done[0]
            while time.perf_counter() - begun < SECONDS:
                start = time.perf_counter()
                result = high()
                stream.synchronize()
                taken.append(time.perf_counter() - start)
                time.sleep(GAP)
            rate = (done[0] - at) / (time.perf_counter() - begun)
    finally:
        is_over.set()
        if setting != "alone":
            beside.join()
    if not torch.equal(result, exact[0]):
        wrong.append("high")
    if wrong:
        raise WrongResultError(f"other bits of {', '.join(wrong)} in setting {setting}")
    return 1e6 * float(np.median(taken)), 1e6 * float(np.quantile(taken, 0.99)), rate
