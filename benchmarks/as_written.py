"""Kernels as a newcomer writes them, against torch, eager and compiled, and against the best plan that a search finds.

    python benchmarks/as_written.py [--only attention] [--size usual] [--rounds 9] [--seconds 3] [--no-compile]
                                    [--search SECONDS] [--model h100-sxm5-80]… [--markdown FILE] [--json FILE]

The kernels are their formulas, without pins. A result is compared with float64 before it is timed. On one thread; the
time is that the thread itself ran, so that other work on the machine counts less. `ratio`: the seconds of the fastest
of torch's ways over ours, median and quartiles of interleaved rounds. `--search`: also tunes each kernel for so many
seconds on one core; `chosen / best` is the time of the chosen plan over that of the best found. `--model`: measures
nothing, and reports the modelled time of the chosen plan over the roofline on these devices, or `cpu` for this one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from as_written_cases import FAMILIES
from as_written_cases.case import ODD, SIZES, USUAL, WrittenCase
from common import Machine, keep_freed_memory
from library import geometric_mean
from library_turns import Ceilings, Result, clock_for, measure
from rich.console import Console

import vkernels as vk
from vkernels.autotune.drive import Stop
from vkernels.autotune.tune import tune
from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.task import Task
from vkernels.ir.cost_model.roofline import roofline
from vkernels.ir.errors import Error
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.runtime.dispatch import limits
from vkernels.targets import limits_of, target_named

console = Console(highlight=False)


def chosen_cases(only: Sequence[str], sizes: Sequence[str]) -> Iterator[WrittenCase]:
    """Family by family, so that not all tensors are in memory at once."""
    for name, family in FAMILIES.items():
        torch.manual_seed(0)
        for case in family.cases(*sizes):
            if not only or any(each == name or each in case.name for each in only):
                yield case


def searched(case: WrittenCase, seconds: float) -> float:
    """The time of the chosen plan over that of the best plan that tuning finds, nan where one has no time."""
    kernel = f"{case.kernel.function.__module__}:{case.kernel.name}"
    result = tune(Task(kernel, case.sizes, case.dtypes), "cpu:cores=1", Stop(seconds=seconds))
    if result.default is None or result.best is None:
        return float("nan")
    return result.default.seconds / result.best.seconds


def modelled(case: WrittenCase, device: str) -> float:
    """The modelled time of the chosen plan over the roofline."""
    within = limits() if device == "cpu" else limits_of(target_named(device))
    scalars = {
        p.name: {bool: "i1", int: "i64"}.get(type(value), "f64")
        for p, value in zip(case.kernel.parameters, case.arguments, strict=True)
        if p.kind == "scalar"
    }
    preparer = KernelPreparer(case.kernel, case.sizes, case.dtypes, scalars, {})
    kernel = kernel_in(preparer.module)
    chosen = choose_plan(kernel, case.sizes, within, strides=preparer.arguments.strides)
    return chosen.seconds / roofline(kernel, case.sizes, within).seconds


def row(result: Result, gain: float | None) -> str:
    ratio = f"{result.ratio.median:.2f} ({result.ratio.lower:.2f}–{result.ratio.upper:.2f})"
    times = " | ".join(f"{1e6 * spread.median:.0f}" for spread in (result.seconds, result.torch_seconds))
    best = "" if gain is None else f" {gain:.2f} |"
    return f"| {result.function} | {result.size} | {result.shape} | {times} | {result.baseline} | {ratio} |{best}"


def show_models(cases: Iterator[WrittenCase], devices: Sequence[str]) -> list[str]:
    lines = [f"| kernel | size | shape | {' | '.join(devices)} |", "|---" * (3 + len(devices)) + "|"]
    for case in cases:
        found = []
        for device in devices:
            try:
                found.append(f"{modelled(case, device):.2f}")
            except Error as error:
                found.append(type(error).__name__)
        lines.append(f"| {case.name} | {case.size} | {case.shape} | {' | '.join(found)} |")
        console.print(lines[-1], soft_wrap=True)
    return lines


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="families, kernels or parts of names; all unless given")
    ] = None,
    size: Annotated[list[str] | None, typer.Option(help=f"{', '.join(SIZES)}; usual and odd unless given")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="times that each takes its turn")] = 9,
    seconds: Annotated[float, typer.Option(help="that a case's turns may take")] = 3.0,
    compile_: Annotated[bool, typer.Option("--compile/--no-compile", help="also by torch.compile")] = True,
    compile_seconds: Annotated[int, typer.Option(help="that torch.compile may take for each way")] = 60,
    search: Annotated[float | None, typer.Option(help="seconds of tuning of each kernel")] = None,
    model: Annotated[list[str] | None, typer.Option(help="devices to model on; measures nothing")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Measure and compare; exits with 1 where any result is wrong."""
    cases = chosen_cases(only or (), size or (USUAL, ODD))
    if model:
        lines = show_models(cases, model)
        if markdown is not None:
            markdown.write_text("\n".join(lines) + "\n")
        return
    vk.set_threads(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    keep_freed_memory()
    here = str(Path(__file__).parent)  # processes of the search import the kernels
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    compiled = compile_ and any(shutil.which(name) for name in ("g++", "clang++", "gcc", "clang"))
    ceilings = Ceilings(1, clock_for(1))
    results: list[Result] = []
    lines = [
        f"{Machine.here(1).cpu}, one thread, torch {torch.__version__}; "
        + ("eager and torch.compile" if compiled else "eager ONLY: torch.compile was not run"),
        "",
        "| kernel | size | shape | µs | torch, µs | fastest of torch | ratio |"
        + (" chosen / best |" if search else ""),
        "|---" * (8 if search else 7) + "|",
    ]
    console.print("\n".join(lines), soft_wrap=True)
    for case in cases:
        result = measure(case.as_case(), ceilings, rounds, compiled, seconds, compile_seconds)
        results.append(result)
        lines.append(row(result, searched(case, search) if search else None))
        colour = "red" if result.ratio.median < 0.5 else "yellow" if result.ratio.median < 1 else "green"
        console.print(f"[{colour}]{lines[-1]}[/{colour}]", soft_wrap=True)
    lines += ["", f"Geometric mean of the ratios: {geometric_mean([each.ratio.median for each in results]):.2f}"]
    lines += [f"- not run: {r.function} {r.shape}, {name}: {why}" for r in results for name, why in r.failed.items()]
    wrong = [result for result in results if not result.error <= result.tolerance]
    lines += [f"- WRONG: {each.function} {each.shape}: error {each.error:.2g}" for each in wrong]
    print("\n".join(line for line in lines if not line.startswith("|")))
    if markdown is not None:
        markdown.write_text("\n".join(lines) + "\n")
    if json_file is not None:
        found = {"machine": Machine.here(1).as_json(), "results": [asdict(result) for result in results]}
        json_file.write_text(json.dumps(found, indent=1) + "\n")
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
