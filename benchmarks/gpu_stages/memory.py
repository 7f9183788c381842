"""Training steps in part of the memory that they need: the same bits, then a step's time (benchmarks/gpu_memory.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any

import gpu_memory
import torch
from gpu_memory import Training, cnn, measured_links, record, same_algorithms, time_program, transformer

from .case import Case, WrongResultError
from .gpu import Gpu

ROUNDS = 7
SMALL: dict[str, Callable[[], Any]] = {
    "transformer": lambda: transformer(32, 1, 2, 16),
    "cnn": lambda: cnn(8, 2, 4, 16),
}


def cases(gpu: Gpu) -> list[Case]:
    if gpu.is_simulated:  # the CPU itself runs them
        gpu_memory.ON, gpu_memory.STEPS, gpu_memory.TRANSFER = "cpu", 5, 1 << 20
    programs = SMALL if gpu.is_simulated else gpu_memory.PROGRAMS
    rounds = 1 if gpu.is_simulated else ROUNDS
    links = cache(measured_links)
    found = []
    for name, make in programs.items():
        for part in gpu_memory.PARTS[:1] if gpu.is_simulated else gpu_memory.PARTS:

            def right(name: str = name, make: Any = make, part: float = part) -> dict[str, Any]:
                with torch.enable_grad(), same_algorithms():
                    done = gpu_memory.check(name, make, part)
                if not done.right:
                    raise WrongResultError(done.problem)
                return {"peak": done.peak, "arena": done.arena, "host": done.host, "moved": done.moved}

            def timed(name: str = name, make: Any = make, part: float = part) -> dict[str, Any]:
                with torch.enable_grad(), same_algorithms():
                    peak = record(Training(make).step).peak
                    done = time_program(name, make, part, int(peak * part), links(), rounds)
                return {"milliseconds": asdict(done), "of_simulated": done.of_simulated}

            found += [
                Case(f"{name} in {part:.0%}: the same bits", right, 150.0),
                Case(f"{name} in {part:.0%}: time", timed, 150.0),
            ]
    return sorted(found, key=lambda case: case.name.endswith("time"))  # correctness first
