"""Every function of the library against torch, eager and compiled, in turns, beside what the machine can do.

    python benchmarks/library.py [--only softmax] [--size small] [--threads 2] [--rounds 9] [--no-compile]
                                 [--json FILE] [--markdown FILE]

Each function runs at three sizes in f32 with memory for results of its own, as torch's does. A result is compared with
float64 before it is timed. Of torch's formulations, eager and by torch.compile (which needs a C++ compiler), the
fastest one counts. `ceiling`: the part reached of copying as many bytes as must move, or of multiply-adds. Geometric
means are over functions and sizes; bars: at least 1.0 at every size, none under 0.5.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from common import Machine, keep_freed_memory
from library_cases import FAMILIES
from library_cases.case import TOLERANCES, Case, in_dtype
from library_turns import Ceilings, Result, clock_for, measure
from rich.console import Console

import vkernels as vk
from vkernels import library

console = Console(highlight=False)
SIZES = ("small", "medium", "large")
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in TOLERANCES}


def chosen_cases(only: Sequence[str], sizes: Sequence[str], dtype: torch.dtype = torch.float32) -> Iterator[Case]:
    """Family by family, so that not all tensors are in memory at once; tensors of float32 in this dtype."""
    for family in FAMILIES.values():
        torch.manual_seed(0)
        for case in family.cases():
            named = not only or any(name in (case.function, f"{case.function}:") or name in case.shape for name in only)
            if named and case.size in sizes:
                yield in_dtype(case, dtype)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def of_functions(results: Sequence[Result]) -> list[float]:
    """One ratio a function and size: that of its cases together, so that one with many does not count for more."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for result in results:
        grouped.setdefault((result.function, result.size), []).append(result.ratio.median)
    return [geometric_mean(ratios) for ratios in grouped.values()]


def row(result: Result) -> str:
    ratio = f"{result.ratio.median:.2f} ({result.ratio.lower:.2f}–{result.ratio.upper:.2f})"
    times = " | ".join(f"{1e6 * spread.median:.1f}" for spread in (result.seconds, result.torch_seconds))
    return (
        f"| {result.function} | {result.size} | {result.shape} | {times} | {result.baseline} | {ratio} "
        f"| {100 * result.ceiling:.0f}% |"
    )


def report(results: Sequence[Result], machine: Machine, ceilings: Ceilings, compiler: str | None) -> str:
    """The table in Markdown, and what it comes to."""
    lines = [
        f"{machine.cpu}, {machine.threads} of {machine.cores} cores, torch {machine.torch}; baselines: eager"
        + (f" and torch.compile (inductor, {compiler})" if compiler else " ONLY: torch.compile was not run"),
        f"multiply-adds {ceilings.operations / 1e9:.0f} GFLOP/s, "
        f"copying 64 MiB {ceilings.copy_rate(1 << 26) / 1e9:.1f} GB/s",
        "",
        "| function | size | shape | µs | torch, µs | fastest of torch | times faster | of ceiling |",
        "|---|---|---|---|---|---|---|---|",
        *map(row, results),
        "",
    ]
    for size in (*SIZES, "all sizes"):
        ratios = of_functions([result for result in results if size in (result.size, "all sizes")])
        if ratios:
            lines.append(f"- {size}: geometric mean {geometric_mean(ratios):.2f} of {len(ratios)}")
    for bar in (0.5, 1.0):
        slow = sorted((r for r in results if r.ratio.median < bar), key=lambda result: result.ratio.median)
        names = ", ".join(f"{r.function} {r.shape} ({r.size}) {r.ratio.median:.2f}" for r in slow)
        lines.append(f"- under {bar}: {names or 'none'}")
    for result in results:
        for name, why in result.failed.items():
            lines.append(f"- not run: {result.function} {result.shape}, {name}: {why}")
    return "\n".join(lines)


def uncovered(cases: set[str]) -> list[str]:
    """Public functions that no case calls."""
    return sorted(name for name in library.__all__ if name not in cases)


def main(
    only: Annotated[list[str] | None, typer.Option(help="functions; all unless given")] = None,
    size: Annotated[list[str] | None, typer.Option(help=f"{', '.join(SIZES)}; all unless given")] = None,
    dtype: Annotated[str, typer.Option(help=f"of tensors: {', '.join(DTYPES)}")] = "float32",
    threads: Annotated[int | None, typer.Option(min=1, help="all cores unless given")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="times that each takes its turn")] = 9,
    compile_: Annotated[bool, typer.Option("--compile/--no-compile", help="also by torch.compile")] = True,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Measure and compare; exits with 1 where any result is wrong."""
    threads = threads or vk.get_threads()
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    keep_freed_memory()
    compiler = next((name for name in ("g++", "clang++", "gcc", "clang") if shutil.which(name)), None)
    if compile_ and compiler is None:
        console.print("[yellow]no C++ compiler: the baseline is torch eager only[/yellow]")
    compiled = compile_ and compiler is not None
    ceilings = Ceilings(threads, clock_for(threads))
    results: list[Result] = []
    if dtype not in DTYPES:
        raise typer.BadParameter(f"{dtype} is not one of {', '.join(DTYPES)}", param_hint="--dtype")
    without: list[str] = []
    for case in chosen_cases(only or (), size or SIZES, DTYPES[dtype]):
        try:
            result = measure(case, ceilings, rounds, compiled)
        except (vk.Error, RuntimeError, NotImplementedError) as problem:  # a dtype that one side does not take
            if dtype == "float32":
                raise
            without.append(f"{case.function} {case.shape}: {str(problem).splitlines()[0]}")
            continue
        results.append(result)
        colour = "red" if result.ratio.median < 0.5 else "yellow" if result.ratio.median < 1 else "green"
        console.print(f"[{colour}]{row(result)}[/{colour}]", soft_wrap=True)
    text = report(results, Machine.here(threads), ceilings, compiler if compiled else None)
    print("\n".join(line for line in text.splitlines() if not line.startswith("|")))
    if markdown is not None:
        markdown.write_text(text + "\n")
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(results, threads, ceilings, compiled), indent=1) + "\n")
    if not (only or size):
        print(f"- without a case: {', '.join(uncovered({result.function for result in results})) or 'none'}")
    for text in without:
        print(f"- not measured: {text}")
    wrong = [result for result in results if not result.error <= result.tolerance]
    for result in wrong:
        console.print(f"[red]{result.function} {result.shape} is wrong: error {result.error:.2g}[/red]")
    raise typer.Exit(1 if wrong else 0)


def as_json(results: Sequence[Result], threads: int, ceilings: Ceilings, compiled: bool) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "machine": Machine.here(threads).as_json(),
        "compiled": compiled,
        "ceilings": {"multiply_add": ceilings.operations, "copy": ceilings.copy_rate(1 << 26)},
        "results": [asdict(result) for result in results],
    }


if __name__ == "__main__":
    typer.run(main)
