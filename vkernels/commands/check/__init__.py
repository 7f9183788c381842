"""`vk check`: compile kernels for absent devices, and report which fit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.compiler.judged_plans import JUDGED
from vkernels.ir.errors import OptionError

from .. import complete
from ..exits import Code
from ..options import (
    Cache,
    CompileSeconds,
    Constants,
    Deterministic,
    DType,
    Json,
    Judge,
    Layouts,
    Shape,
    chosen_targets,
)
from ..results import check_writable, console_for, progress_bar, write_results

if TYPE_CHECKING:
    from vkernels.inspect.cases import Case
    from vkernels.inspect.check.baseline import Baseline, Comparison
    from vkernels.inspect.check.cells import Cell
    from vkernels.inspect.check.inputs import InputsRun
    from vkernels.inspect.worker_client import InspectPool
    from vkernels.targets import Target


class Finding(StrEnum):
    """What `--fail-on` can make a failure."""

    MISFIT = "misfit"
    SPILL = "spill"


Kernels = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        autocompletion=complete.kernels,
        help="all, library kernels, or FILE.py:KERNEL (a vk.kernel or a plain Triton kernel; the file is executed).",
    ),
]
Targets = Annotated[
    str,
    typer.Option(
        metavar="all|NAME,…",
        autocompletion=complete.targets,
        help="Targets from `vk targets`, or slices of them: h100-sxm5-80:1g.10gb.",
    ),
]
Own = Annotated[
    Path | None, typer.Option("--table", metavar="FILE.toml", help="Also check the devices that this file describes.")
]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="SPEC,…", help="Check these slices of each target: 1g.10gb,3g.40gb or mps=50."),
]
Signature = Annotated[
    str | None, typer.Option(metavar="*fp16:16,i32,…", help="Parameter types of a plain Triton kernel.")
]
Warps = Annotated[int | None, typer.Option(min=1, help="num_warps of a plain Triton kernel.")]
Stages = Annotated[int | None, typer.Option(min=1, help="num_stages of a plain Triton kernel.")]
FailOn = Annotated[
    list[Finding] | None, typer.Option("--fail-on", help="Exit with 1 if a kernel does not fit, or spills.")
]
Against = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="Exit with 1 if a figure is worse than in this file.")
]
Written = Annotated[
    Path | None, typer.Option("--write-baseline", metavar="FILE", help="Write the figures, for --baseline later.")
]
Tolerance = Annotated[
    float, typer.Option(min=0.0, metavar="PERCENT", help="By how much figures may exceed those of --baseline.")
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="FUNCTION|FILE.npz",
        help="Also run on what this function of the file returns, or on these arrays; find races and bounds.",
    ),
]
Grid = Annotated[
    str | None,
    typer.Option(
        metavar="N,…", help="Programs of a plain Triton kernel on --inputs FILE.npz: 'cdiv(count, BLOCK), 4'."
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of compile processes. Default: all usable cores.")]


def check(
    kernels: Kernels,
    targets: Targets = "all",
    table: Own = None,
    slice_: Slices = None,
    dtype: DType = None,
    shape: Shape = None,
    constants: Constants = None,
    layouts: Layouts = None,
    deterministic: Deterministic = False,
    signature: Signature = None,
    warps: Warps = None,
    stages: Stages = None,
    json: Json = None,
    fail_on: FailOn = None,
    baseline: Against = None,
    write_baseline: Written = None,
    tolerance: Tolerance = 2.0,
    inputs: Inputs = None,
    grid: Grid = None,
    no_cache: Cache = False,
    workers: Workers = None,
    seconds: CompileSeconds = 120.0,
    judge: Judge = JUDGED,
) -> None:
    """Compile kernels for devices that need not be present; report which fit, and their registers and memory.

    Exit code 1: --fail-on found something, something is worse than in the baseline, the baseline has nothing of this
    run (unless another is written), or --inputs found a race or an access out of bounds.
    """
    check_writable(json)
    check_writable(write_baseline)
    before = None if baseline is None else _read(baseline)
    begun = time.monotonic()

    from vkernels.compiler.workers.compile_pool import CompilePool
    from vkernels.inspect.cases import as_deterministic
    from vkernels.inspect.check.check import CheckTools, case_on, triton_version
    from vkernels.inspect.check.check import check as check_cells
    from vkernels.inspect.check.input_file import ENDING
    from vkernels.inspect.resolve import JitOptions, resolve_cases
    from vkernels.inspect.specialisation import parse_specialisation
    from vkernels.inspect.worker_client import InspectPool
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.library.catalogue import CATALOGUE

    from .results import as_json, show, show_inputs

    if grid is not None and not (inputs or "").endswith(ENDING):
        raise OptionError(f"--grid goes with --inputs FILE{ENDING}; a function returns the grid itself")
    request = parse_specialisation(dtype, shape, constants, layouts)
    chosen = chosen_targets(targets, table, slice_ or [])
    triton = triton_version()
    with InspectPool(workers) as preparing, CompilePool(workers, seconds) as compiling, progress_bar() as progress:
        cases = resolve_cases(kernels, request, JitOptions(signature, warps, stages), CATALOGUE, preparing)
        if deterministic:
            cases = [as_deterministic(case) for case in cases]
        tools = CheckTools(preparing, compiling, None if no_cache else DiskCache(), triton, judge=judge)
        ran = () if inputs is None else _ran(cases, inputs, grid, chosen, preparing)
        checked = check_cells(cases, chosen, tools, progress)
    taken = time.monotonic() - begun
    show(checked, triton, taken, console_for(json, is_wide=True))
    run = list(zip([case_on(case, target) for case in cases for target in chosen], checked.cells, strict=True))
    found, fields = _compared(before, run, triton, tolerance, json)
    show_inputs(ran, inputs or "", console_for(json, is_wide=True))
    fields |= {"inputs": [each.to_json() for each in ran]} if inputs is not None else {}
    write_results(json, "check", **as_json(checked, triton, taken), **fields)
    if write_baseline is not None:
        _write(write_baseline, run, triton)
    worse = found is not None and bool(found.regressions or (found.strangers and write_baseline is None))
    if worse or any(each.finding for each in ran) or has_finding(checked.cells, fail_on or []):
        raise typer.Exit(Code.FINDING)


def _ran(
    cases: Sequence[Case], inputs: str, grid: str | None, targets: Sequence[Target], pool: InspectPool
) -> tuple[InputsRun, ...]:
    """The cases run on their inputs as compiled for the first target that is a GPU."""
    from vkernels.inspect.check.check import case_on
    from vkernels.inspect.check.input_file import ENDING
    from vkernels.inspect.check.inputs import run_on_inputs

    is_file = inputs.endswith(ENDING)
    if not is_file and any(not case.source.file for case in cases):
        raise OptionError("--inputs names a function of the kernel's file: give kernels as FILE.py:KERNEL")
    gpu = next((target for target in targets if target.vendor != "cpu"), None)
    if gpu is None:
        raise OptionError("--inputs runs code for GPUs: name one in --targets; kernel.interpret runs others")
    return run_on_inputs([case_on(case, gpu) for case in cases], inputs, gpu, pool, grid)


def _read(path: Path) -> Baseline:
    from vkernels.inspect.check.baseline import read_baseline

    return read_baseline(path)


def _write(path: Path, run: Sequence[tuple[Case, Cell]], triton: str) -> None:
    from vkernels.inspect.check.baseline import baseline_cell, write_baseline

    write_baseline(path, [baseline_cell(case, cell) for case, cell in run], triton)


def _compared(
    before: Baseline | None, run: Sequence[tuple[Case, Cell]], triton: str, tolerance: float, json: Path | None
) -> tuple[Comparison | None, dict[str, Any]]:
    """Print and return how a run compares with a baseline, and fields of the results."""
    if before is None:
        return None, {}
    from vkernels.inspect.check.baseline import compare

    from .against import as_json, show

    found = compare(before, run, tolerance)
    show(found, before, triton, console_for(json, is_wide=True))
    return found, {"baseline": as_json(found, before)}


def has_finding(cells: Sequence[Cell], findings: Sequence[Finding]) -> bool:
    """Whether a cell has one of the findings; unknown is no finding."""
    misfits = Finding.MISFIT in findings and any(cell.fits is False for cell in cells)
    return misfits or (Finding.SPILL in findings and any(cell.spill_bytes for cell in cells))
