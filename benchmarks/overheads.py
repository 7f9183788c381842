"""What vkernels costs beside the work itself: compiling, a cached call, importing.

    python benchmarks/overheads.py [--json FILE]

Bars: the spdnn kernel compiles from its author's text in under 150 ms; a cached call costs under 20 µs inline and
under 60 µs through the pool; `import vkernels` takes under 0.5 s and does not import torch. Each is the median of many.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

import vkernels as vk

SPDNN = Path(vk.__file__).parent / "library" / "spdnn.py"


@vk.kernel
def nothing_much(x: Float[vk.Tensor, "N"], y: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + y[i]


def fresh_spdnn(number: int) -> Any:
    """The library's kernel, read from its file again, so that nothing of it is remembered."""
    spec = importlib.util.spec_from_file_location(f"vkernels.library._fresh_{number}", SPDNN)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(SPDNN)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.spdnn


def spdnn_arguments(neurons: int = 1024, images: int = 64, layers: int = 1) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    y = rng.random((neurons, images), np.float32)
    column = rng.integers(0, neurons, (layers, neurons, 32), np.int32)
    weight = np.full((layers, neurons, 32), 1 / 16, np.float32)
    return y, column, weight, -0.3, np.empty_like(y), np.empty(images, np.float32)


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def compile_times(rounds: int) -> list[float]:
    """From the author's text to a finished first call of one small launch, so a little more than compiling."""
    arguments = spdnn_arguments()
    return [milliseconds(partial(fresh_spdnn(n), *arguments)) for n in range(rounds)]


def call_times(elements: int, rounds: int = 200, inner: int = 50) -> list[float]:
    """Microseconds of one cached call of a three-tensor kernel."""
    x, y, out = (np.ones(elements, np.float32) for _ in range(3))
    nothing_much(x, y, out)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            nothing_much(x, y, out)
        times.append(1e6 * (time.perf_counter() - start) / inner)
    return times


def numpy_times(elements: int, rounds: int = 200, inner: int = 50) -> list[float]:
    """Microseconds of the same work in NumPy on one thread, to tell work from overhead."""
    x, y, out = (np.ones(elements, np.float32) for _ in range(3))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            np.add(x, y, out=out)
        times.append(1e6 * (time.perf_counter() - start) / inner)
    return times


def import_times(rounds: int = 5) -> list[float]:
    clock = "time.perf_counter()"
    code = f"import sys, time; start = {clock}; import vkernels; print({clock} - start, 'torch' in sys.modules)"
    times = []
    for _ in range(rounds):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        seconds, torch = out.stdout.split()
        if torch == "True":
            raise RuntimeError("import vkernels imported torch")
        times.append(1e3 * float(seconds))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    compile_times(2)  # the compiler's own libraries are loaded once a process
    pooled, inline = 1 << 16, 64
    rows = {
        "compile spdnn, text to result (ms)": (compile_times(options.rounds), 150.0),
        f"cached call, inline, {inline} elements (µs)": (call_times(inline), 20.0),
        f"cached call, pool, {pooled} elements, work included (µs)": (call_times(pooled), 60.0),
        f"numpy.add, {pooled} elements, one thread (µs)": (numpy_times(pooled), None),
        "import vkernels (ms)": (import_times(), 500.0),
    }
    table = Table("what", "median", "quartiles", "bar")
    results = {}
    for what, (times, bar) in rows.items():
        low, middle, high = statistics.quantiles(times, n=4)
        table.add_row(what, f"{middle:.1f}", f"{low:.1f} – {high:.1f}", "" if bar is None else f"< {bar:.0f}")
        results[what] = {"median": middle, "quartiles": [low, high], "bar": bar}
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps({"schema_version": 1, "results": results}, indent=2))


if __name__ == "__main__":
    main()
