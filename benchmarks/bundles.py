"""The first calls of fresh processes: from a bundle, and compiled with a full cache and an empty one, in turns.

    python benchmarks/bundles.py [softmax matmul attention csr_matmul] [--rounds 9] [--json FILE]

Prints milliseconds from loading the bundle to the end of the first call, beyond imports; bytes of the bundle; and
whether its results have the bits of the compiled call. Processes that run a bundle cannot import Triton, LLVM, SymPy or
xDSL. The CPU is not measured: its family's rates are in every cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from common import Quartiles
from rich.console import Console
from rich.table import Table

SECONDS = 120
TARGETS = {"one": "cpu", "three": "cpu,cpu:x86-64-v3,cpu:x86-64-v4"}
PROGRAMS = """
import numpy as np
from vkernels import library

rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def softmax():
    return library.softmax, (numbers(512, 512),)


def matmul():
    return library.matmul, (numbers(256, 256), numbers(256, 256))


def attention():
    return library.attention, tuple(numbers(2, 4, 128, 64) for _ in range(3))


def csr_matmul():
    columns = rng.integers(0, 1024, 32768)
    return library.csr_matmul, (np.arange(0, 32769, 32), columns, numbers(32768), numbers(1024, 64))
"""
NAMES = "softmax", "matmul", "attention", "csr_matmul"
CALL = """
import hashlib, json, sys
from contextlib import nullcontext
from time import perf_counter

folder, name, bundle = sys.argv[1:]
sys.path.insert(0, folder)
if bundle:
    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("triton", "llvmlite", "sympy", "xdsl"):
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, Refuse())
before = perf_counter()
import programs
import vkernels as vk
import vkernels.bundles.load
imported = perf_counter() - before
function, inputs = getattr(programs, name)()
begun = perf_counter()
with vk.load(bundle, trust="unsigned").active() if bundle else nullcontext():
    result = function(*inputs)
    first = perf_counter() - begun
    begun = perf_counter()
    function(*inputs)
    second = perf_counter() - begun
digest = hashlib.sha256(result.tobytes()).hexdigest()
print(json.dumps({"import": imported, "first": first, "second": second, "digest": digest}))
"""
WAYS = "bundle", "full cache", "empty cache"


def run(
    calls: Annotated[list[str] | None, typer.Argument()] = None,
    rounds: Annotated[int, typer.Option()] = 9,
    to: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Build, and measure in turns."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="vkernels-bundles-") as name:
        folder = Path(name)
        (folder / "programs.py").write_text(PROGRAMS)
        _new_cache(folder / "full")
        for program in calls or NAMES:
            found[program] = _measured(folder, program, rounds)
    Console().print(_table(found))
    if to is not None:
        to.write_text(json.dumps(found, indent=2) + "\n")


def _measured(folder: Path, program: str, rounds: int) -> dict[str, Any]:
    made = {name: folder / f"{program}-{name}.vkb" for name in TARGETS}
    for name, path in made.items():
        options = "--targets", TARGETS[name], "-o", str(path)
        _vk(folder / "full", "build", f"{folder / 'programs.py'}:{program}", *options)
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS:
            cache = folder / ("full" if way != "empty cache" else f"{program}-{number}")
            if way == "empty cache":
                _new_cache(cache)
            answer = _call(folder, cache, program, str(made["one"]) if way == "bundle" else "")
            if number:
                runs[way].append(answer)
    digests = {each["digest"] for way in ("bundle", "full cache") for each in runs[way]}
    return {
        "bytes": {name: path.stat().st_size for name, path in made.items()},
        "same_bits": len(digests) == 1,
        **{way: {part: [each[part] for each in runs[way]] for part in ("import", "first", "second")} for way in WAYS},
    }


def _table(found: dict[str, Any]) -> Table:
    table = Table("call", "bytes", "bits", *(f"{way} ms" for way in WAYS), "second call ms", box=None)
    for program, each in found.items():
        first = [str(Quartiles.of([1e3 * seconds for seconds in each[way]["first"]])) for way in WAYS]
        second = Quartiles.of([1e3 * seconds for seconds in each["bundle"]["second"]])
        sizes = " / ".join(f"{size:,}" for size in each["bytes"].values())
        table.add_row(program, sizes, "same" if each["same_bits"] else "other", *first, str(second))
    return table


def _call(folder: Path, cache: Path, program: str, bundle: str) -> dict[str, Any]:
    command = [sys.executable, "-c", CALL, str(folder), program, bundle]
    answer: dict[str, Any] = json.loads(_output(command, cache))
    return answer


def _new_cache(cache: Path) -> None:
    """A cache with the rates of the CPU's family, so that no process measures."""
    program = "from vkernels.targets.cpu_rates import *; store_cpu_rates(family_cpu_rates())"
    _output([sys.executable, "-c", program], cache)


def _vk(cache: Path, *arguments: str) -> None:
    _output([sys.executable, "-c", "from vkernels.commands import main; main()", *arguments], cache)


def _output(command: list[str], cache: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


if __name__ == "__main__":
    typer.run(run)
