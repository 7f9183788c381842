"""The library's kernels on a GPU against torch there: first whether they are right, then what a launch costs the host,
then how fast they are.

    python benchmarks/gpu.py [--only matmul] [--rounds 21] [--check-only] [--json FILE]

Each kernel runs on sizes of one, odd and large, in f32, f16 and bf16, and is compared with torch in float64 on the
device. Timings are by the device's own events, vkernels and torch in turns, with the L2 cache flushed before each; the
table gives medians and quartiles. `memory`: training steps in 60 and 40 % of their memory (gpu_memory.py). Where there
is no GPU it says so and exits with 3; 1 where any result is wrong.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import gpu_memory
import numpy as np
import torch
import typer
from common import Quartiles, times_faster
from gpu_cases import CHECKED, DTYPES, ON, TIMED, Case, Check, Run, check, empty, normal
from rich.console import Console
from rich.table import Table

from vkernels.library.rows import softmax_rows

NO_GPU = 3

console = Console(highlight=False)


@dataclass(frozen=True)
class Timing:
    """Microseconds on the device, how many times faster than torch, and GB/s or TFLOP/s by our median."""

    kernel: str
    shape: tuple[int, ...]
    dtype: str
    ours: Quartiles
    torch: Quartiles
    ratio: Quartiles
    rate: float
    unit: str


# Right?


def checks(names: list[str]) -> Iterator[Check]:
    """Every kernel on every checked shape in every dtype. Ends early where the device is lost."""
    for name in names:
        make, shapes = CHECKED[name]
        for dtype in DTYPES:
            for shape in shapes:
                found = check(make(*shape, dtype))
                yield found
                if found.problem and device_is_lost():
                    return


def device_is_lost() -> bool:
    """Whether an earlier kernel has broken the context: nothing runs any more then."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


# How fast?

FLUSHED = 2
"""Times the L2 cache's size that is written between two runs."""


class Clock:
    """Times on the device, each run after a flush of the L2 cache."""

    def __init__(self) -> None:
        size = torch.cuda.get_device_properties(0).L2_cache_size
        self._cache = torch.empty(FLUSHED * max(size, 1 << 25), dtype=torch.uint8, device=ON)

    def microseconds(self, run: Run) -> float:
        """One run. The flush keeps the device busy while the host launches it."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._cache.zero_()
        self._cache.zero_()
        start.record()
        run()
        stop.record()
        stop.synchronize()
        return 1e3 * start.elapsed_time(stop)


def time_case(case: Case, clock: Clock, rounds: int) -> Timing:
    """Ours and torch's in turns, after two rounds that are not counted."""
    assert case.theirs is not None
    runs = {"ours": case.ours, "torch": case.theirs}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 2):
        for name, run in runs.items():
            microseconds = clock.microseconds(run)
            if number >= 2:
                taken[name].append(microseconds)
    ours = Quartiles.of(taken["ours"])
    rate = case.work / (ours.median * 1e-6)
    dtype = str(case.dtype).removeprefix("torch.")
    return Timing(
        case.kernel, case.shape, dtype, ours, Quartiles.of(taken["torch"]), times_faster(taken["torch"], taken["ours"]),
        rate / (1e12 if case.computes else 1e9), "TFLOP/s" if case.computes else "GB/s",
    )  # fmt: skip


CALLS = 200
"""Launches that the host starts before it waits: few enough for the device's queue."""


def launch_overheads(rounds: int) -> dict[str, Quartiles]:
    """Microseconds of the host's time for a cached call of a small softmax, and for torch's."""
    x, out, other = normal(32, 64, dtype=torch.float32), *(empty(32, 64, dtype=torch.float32) for _ in range(2))
    runs: dict[str, Callable[[], object]] = {
        "vkernels": lambda: softmax_rows(x, out),
        "torch": lambda: torch.softmax(x, -1, out=other),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            seconds = time.perf_counter() - start
            if number:
                taken[name].append(1e6 * seconds / CALLS)
    torch.cuda.synchronize()
    return {name: Quartiles.of(values) for name, values in taken.items()}


# What is said


def machine() -> dict[str, Any]:
    """The device and the versions of everything between it and a kernel."""
    import triton

    from vkernels.runtime.gpu.device import gpu_device

    device, properties = gpu_device("cuda:0"), torch.cuda.get_device_properties(0)
    return {
        "device": properties.name, "architecture": device.architecture, "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count, "like": device.target.like,
        "limits": asdict(device.limits), "driver": torch.version.cuda or torch.version.hip,
        "python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__,
        "numpy": np.__version__,
    }  # fmt: skip


def table_of(timings: list[Timing]) -> Table:
    table = Table(box=None)
    for title in ("kernel", "shape", "dtype", "µs", "torch µs", "times faster", "rate"):
        table.add_column(title, justify="left" if title == "kernel" else "right", no_wrap=True)
    for t in timings:
        shape = "×".join(map(str, t.shape))
        rate = f"{t.rate:.1f} {t.unit}"
        table.add_row(t.kernel, shape, t.dtype, str(t.ours), f"{t.torch.median:.1f}", str(t.ratio), rate)
    return table


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="softmax, layer_norm, matmul, spdnn, memory; all unless given.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each takes its turn.")] = 21,
    check_only: Annotated[bool, typer.Option("--check-only", help="Time nothing.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Check, then measure; exits with 1 where any result is wrong, with 3 where there is no GPU."""
    known = [*CHECKED, "memory"]
    unknown = set(only or ()) - set(known)
    if unknown:
        raise typer.BadParameter(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if not torch.cuda.is_available():
        console.print(f"no GPU: torch {torch.__version__} finds none here, so there is nothing to measure")
        raise typer.Exit(NO_GPU)
    names = [name for name in only or known if name in CHECKED]
    torch.manual_seed(0)
    about = machine()
    console.print(f"{about['device']} ({about['architecture']}), torch {about['torch']}, Triton {about['triton']}")
    report: dict[str, Any] = {"schema_version": 1, "machine": about, "checks": [], "timings": [], "problems": []}
    try:
        ok = not names or _check_all(names, report)
        if names and not check_only and not device_is_lost():
            ok &= _time_all(names, rounds, report)
        if "memory" in (only or known) and not device_is_lost():
            ok &= _check_memory(report)
            if not check_only and not device_is_lost():
                ok &= _time_memory(rounds, report)
    finally:
        if json_file is not None:
            json_file.write_text(json.dumps(report, indent=1) + "\n")
    raise typer.Exit(0 if ok else 1)


def _check_all(names: list[str], report: dict[str, Any]) -> bool:
    begin, all_right = time.perf_counter(), True
    for found in checks(names):
        report["checks"].append(asdict(found))
        all_right &= found.right
        shape = "×".join(map(str, found.shape))
        verdict = found.problem or f"{found.of_allowed:.2f} of the error allowed"
        console.print(
            f"{'right' if found.right else '[red]WRONG[/red]'} {found.kernel} {shape} {found.dtype}: {verdict}"
        )
    console.print(f"checked in {time.perf_counter() - begin:.0f} s, compiling included")
    return all_right


def _time_all(names: list[str], rounds: int, report: dict[str, Any]) -> bool:
    overheads = launch_overheads(rounds)
    report["launch_microseconds"] = {name: asdict(spread) for name, spread in overheads.items()}
    console.print(f"host time of a cached launch: {overheads['vkernels']} µs; torch's {overheads['torch']} µs")
    clock, timings, all_right = Clock(), [], True
    for name in names:
        for dtype in DTYPES:
            for shape in TIMED[name]:
                try:
                    timings.append(time_case(CHECKED[name][0](*shape, dtype), clock, rounds))
                except Exception as error:
                    report["problems"].append([name, shape, str(dtype), f"{type(error).__name__}: {error}"])
                    console.print(f"[red]{name} {shape} {dtype}[/red]: {type(error).__name__}: {error}")
                    all_right = False
                    if device_is_lost():
                        return False
                else:
                    report["timings"].append(asdict(timings[-1]))
    console.print(table_of(timings))
    return all_right


def _check_memory(report: dict[str, Any]) -> bool:
    report["memory_checks"], all_right = [], True
    for found in gpu_memory.checks():
        report["memory_checks"].append(asdict(found))
        all_right &= found.right
        sizes = f"{found.arena / 2**20:.0f} of {found.peak / 2**20:.0f} MiB, {found.moved / 2**20:.0f} MiB moved"
        console.print(
            f"{'right' if found.right else '[red]WRONG[/red]'} {found.program} at {found.part:.0%}: "
            f"{found.problem or f'the same bits after {gpu_memory.STEPS} steps, in {sizes}'}"
        )
    return all_right


def _time_memory(rounds: int, report: dict[str, Any]) -> bool:
    found: list[gpu_memory.Timing] = []
    try:
        with gpu_memory.same_algorithms():
            found.extend(gpu_memory.timings(rounds))
    except Exception as error:
        report["problems"].append(["memory", f"{type(error).__name__}: {error}"])
        console.print(f"[red]memory[/red]: {type(error).__name__}: {error}")
        return False
    finally:
        report["memory_timings"] = [asdict(each) for each in found]
        console.print(gpu_memory.table_of(found))
    return True


if __name__ == "__main__":
    typer.run(main)
