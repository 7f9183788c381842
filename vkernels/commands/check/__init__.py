"""`vk check`: kernels compiled for devices that need not be here, with what their binaries take, and which fit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Code
from ..results import STANDARD_OUTPUT, check_writable, write_json
from .targets import chosen_targets

if TYPE_CHECKING:
    from vkernels.runtime.checking.cells import Cell


class Finding(StrEnum):
    """What a command may be told to fail on."""

    MISFIT = "misfit"
    SPILL = "spill"


Kernels = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        help="all, kernels of the library, or FILE.py:KERNEL, a vk.kernel or plain Triton: the file is executed.",
    ),
]
Targets = Annotated[
    str,
    typer.Option(metavar="all|NAME,…", help="Targets, as `vk targets` lists them, or slices: h100-sxm5-80:1g.10gb."),
]
Own = Annotated[Path | None, typer.Option("--table", metavar="FILE.toml", help="Targets of one's own, checked too.")]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="SPEC,…", help="Cut each target so: 1g.10gb,3g.40gb, or mps=50; docs/slices.md."),
]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of the tensors that may have it, or of some.")
]
Shape = Annotated[str | None, typer.Option(metavar="M=…,N=…", help="Sizes in place of the usual ones.")]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Signature = Annotated[
    str | None, typer.Option(metavar="*fp16:16,i32,…", help="Types of a plain Triton kernel's parameters.")
]
Warps = Annotated[int | None, typer.Option(min=1, help="Warps of a plain Triton kernel.")]
Stages = Annotated[int | None, typer.Option(min=1, help="Stages of a plain Triton kernel's pipelined loops.")]
FailOn = Annotated[
    list[Finding] | None, typer.Option("--fail-on", help="Exit with 1 where a cell does not fit, or spills.")
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there too; - is standard output.")]
Cache = Annotated[bool, typer.Option("--no-cache", help="Compile everything anew, and keep nothing.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Compilers that run at once; all usable cores without it.")]
Seconds = Annotated[float, typer.Option(min=0.001, help="How long one compile may take.")]


def check(
    kernels: Kernels,
    targets: Targets = "all",
    table: Own = None,
    slice_: Slices = None,
    dtype: DType = None,
    shape: Shape = None,
    constants: Constants = None,
    signature: Signature = None,
    warps: Warps = None,
    stages: Stages = None,
    json: Json = None,
    fail_on: FailOn = None,
    no_cache: Cache = False,
    workers: Workers = None,
    seconds: Seconds = 120.0,
) -> None:
    """Compile kernels for devices that need not be here, and say which fit, with their real registers and memory.

    Exits with 1 where --fail-on finds something.
    """
    check_writable(json)
    begun = time.monotonic()

    from vkernels.runtime.checking.asking import preparing_pool
    from vkernels.runtime.checking.check import Tools, triton_version
    from vkernels.runtime.checking.check import check as check_cells
    from vkernels.runtime.compile.cache import DiskCache
    from vkernels.runtime.compile.workers import CompilePool

    from .cases import JitOptions, cases_for
    from .results import as_json
    from .show import progress_bar, show
    from .specialising import wanted_from

    wanted = wanted_from(dtype, shape, constants)
    chosen = chosen_targets(targets, table, slice_ or [])
    triton = triton_version()
    with preparing_pool(workers) as preparing, CompilePool(workers, seconds) as compiling, progress_bar() as progress:
        cases = cases_for(kernels, wanted, JitOptions(signature, warps, stages), preparing)
        tools = Tools(preparing, compiling, None if no_cache else DiskCache(), triton)
        checked = check_cells(cases, chosen, tools, progress)
    taken = time.monotonic() - begun
    show(checked, triton, taken, to_errors=json == STANDARD_OUTPUT)
    if json is not None:
        write_json(json, as_json(checked, triton, taken))
    if is_found(checked.cells, fail_on or []):
        raise typer.Exit(Code.FINDING)


def is_found(cells: Sequence[Cell], findings: Sequence[Finding]) -> bool:
    """Whether a cell has what the command is told to fail on; what nobody can tell is no finding."""
    misfits = Finding.MISFIT in findings and any(cell.fits is False for cell in cells)
    return misfits or (Finding.SPILL in findings and any(cell.spill_bytes for cell in cells))
