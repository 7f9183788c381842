"""The first calls of fresh processes, with an empty cache and a full one, of two checkouts in turns.

    python benchmarks/first_calls.py OLD NEW [--rounds 9]

Prints seconds of wall and processor time for `import vkernels` and the first call of four library functions, and the
microseconds of a cached softmax call: medians, and NEW / OLD with its quartiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

SECONDS = 120
CALLS = {
    "softmax": "library.softmax(numbers(512, 512))",
    "matmul": "library.matmul(numbers(256, 256), numbers(256, 256))",
    "attention": "library.attention(*(numbers(2, 4, 128, 64) for _ in range(3)))",
    "csr_matmul": "library.csr_matmul(np.arange(0, 32769, 32), columns, numbers(32768), numbers(1024, 64))",
}
PROGRAM = """
import json, time
before = time.perf_counter(), time.process_time()
import vkernels
found = {"import": (time.perf_counter() - before[0], time.process_time() - before[1])}
import numpy as np
from vkernels import library
rng = np.random.default_rng(0)
columns = rng.integers(0, 1024, 32768)
numbers = lambda *shape: rng.standard_normal(shape).astype(np.float32)
before = time.perf_counter(), time.process_time()
CALL
found["first call"] = (time.perf_counter() - before[0], time.process_time() - before[1])
if "softmax" in "CALL":
    import torch
    x = torch.rand(4, 4)
    library.softmax(x)
    before = time.perf_counter()
    for _ in range(20000):
        library.softmax(x)
    found["cached call"] = ((time.perf_counter() - before) / 20000,) * 2
print(json.dumps(found))
"""


def run(checkout: Path, call: str, cache: str) -> dict[str, tuple[float, float]]:
    """Times of a fresh process: wall and processor seconds by what was done."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": cache, "XDG_DATA_HOME": os.devnull}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # both checkouts are to have their bytecode
    command = [sys.executable, "-c", PROGRAM.replace("CALL", CALLS[call])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, cwd=checkout)
    if done.returncode:
        raise SystemExit(f"{checkout}: {call}:\n{done.stderr}")
    found: dict[str, tuple[float, float]] = json.loads(done.stdout)
    return found


def main(
    old: Path, new: Path, rounds: Annotated[int, typer.Option(min=1, help="Processes of each kind and checkout.")] = 9
) -> None:
    """Compare the first calls of two checkouts."""
    checkouts = (old.resolve(), new.resolve())
    times: dict[tuple[str, str, str], tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as full:
        for call in CALLS:
            for checkout in checkouts:
                run(checkout, call, full)
        for number in range(rounds):
            for call in CALLS:
                for which in (0, 1) if number % 2 else (1, 0):
                    with tempfile.TemporaryDirectory() as empty:
                        found = {"empty": run(checkouts[which], call, empty), "full": run(checkouts[which], call, full)}
                    for cache, values in found.items():
                        for what, (wall, processor) in values.items():
                            named = call if what == "first call" else what
                            times.setdefault((named, cache, "wall"), ([], []))[which].append(wall)
                            times.setdefault((named, cache, "processor"), ([], []))[which].append(processor)
    table = Table("", "cache", "time", "old, s", "new, s", "new / old", "quartiles")
    for (what, cache, kind), (before, after) in times.items():
        if (what == "import" and cache == "empty") or (what == "cached call" and (cache, kind) != ("full", "wall")):
            continue
        low, middle, high = np.quantile(np.divide(after, before), (0.25, 0.5, 0.75))
        medians = (f"{np.median(values):.3g}" for values in (before, after))
        table.add_row(what, cache, kind, *medians, f"{middle:.2f}", f"{low:.2f}–{high:.2f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
