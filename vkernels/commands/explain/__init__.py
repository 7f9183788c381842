"""`vk explain`: what the compiler decided for one kernel on one target, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Code
from ..results import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from vkernels.runtime.explaining.explain import Explanation
    from vkernels.runtime.targets import Target

LIST = "list"

Kernel = Annotated[
    str,
    typer.Argument(metavar="KERNEL", help="A kernel of the library, or FILE.py:KERNEL: the file is executed."),
]
Named = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="A target as `vk targets` lists it, or cpu; or a slice.")
]
Part = Annotated[str | None, typer.Option("--slice", metavar="SLICE", help="Part of the target: 1g.10gb, mps=50, …")]
Limits = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Devices of one's own that --target may name.")]
Shape = Annotated[str | None, typer.Option(metavar="M=…,N=…", help="Sizes in place of the usual ones.")]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of the tensors that may have it, or of some.")
]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Stage = Annotated[
    str | None, typer.Option("--ir", metavar="STAGE|list", help="Print one stage of the compiler's work instead.")
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write what was found there; - is standard output.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it there, as a page of its own.")]
Cache = Annotated[bool, typer.Option("--no-cache", help="Compile everything anew, and keep nothing.")]
Seconds = Annotated[float, typer.Option(min=0.001, help="How long one compile may take.")]


def explain(
    kernel: Kernel,
    target: Named = None,
    slice_: Part = None,
    limits: Limits = None,
    shape: Shape = None,
    dtype: DType = None,
    constants: Constants = None,
    ir: Stage = None,
    json: Json = None,
    html: Html = None,
    no_cache: Cache = False,
    seconds: Seconds = 120.0,
) -> None:
    """Explain how a kernel runs on a device that need not be here: phases, homes, plan, time, binary.

    Exits with 1 where it does not fit.
    """
    check_writable(json)
    check_writable(html)
    from .subject import target_named

    chosen = target_named(target, slice_, limits)
    if ir == LIST:
        return _list_stages(chosen)

    from vkernels.runtime.checking.check import triton_version
    from vkernels.runtime.compile.cache import DiskCache
    from vkernels.runtime.compile.workers import CompilePool
    from vkernels.runtime.explaining.explain import Tools
    from vkernels.runtime.explaining.explain import explain as find
    from vkernels.runtime.explaining.preparing import PREPARER
    from vkernels.runtime.explaining.stages import check_stage

    from ..check.specialising import wanted_from
    from .subject import case_named

    if ir is not None:
        check_stage(ir, chosen.architecture, chosen.vendor == "cpu")
    wanted = wanted_from(dtype, shape, constants)
    triton = triton_version()
    preparing, compiling = CompilePool(1, seconds, compiler=PREPARER), CompilePool(None, seconds)
    with preparing, compiling:
        case, others = case_named(kernel, wanted, preparing)
        tools = Tools(preparing, compiling, None if no_cache else DiskCache(), triton)
        found = find(case, chosen, tools, only_stage=ir or "")
    if ir is not None:
        return _print_stage(found, ir)
    _write(found, others, triton, json, html)
    if found.fits is not True:
        raise typer.Exit(Code.FINDING if found.fits is False else Code.ENVIRONMENT)


def _write(found: Explanation, others: tuple[str, ...], triton: str, json: Path | None, html: Path | None) -> None:
    """Everything that was asked for."""
    from .show import show

    show(found, others, to_errors=json == STANDARD_OUTPUT)
    if json is not None:
        from .results import as_json

        write_json(json, as_json(found, triton))
    if html is not None:
        from .html import write_page

        write_page(html, found)


def _list_stages(target: Target) -> None:
    from vkernels.runtime.explaining.stages import stages_of

    stages = stages_of(target.architecture, target.vendor == "cpu")
    width = max(map(len, stages))
    for name, what in stages.items():
        typer.echo(f"{name:{width}}  {what}")


def _print_stage(found: Explanation, stage: str) -> None:
    """One stage's text. Raises `PlanError` or `SetupError` where the kernel does not come so far."""
    from vkernels.ir.errors import PlanError, SetupError

    from .words import printable

    if stage in found.stages:
        typer.echo(printable(found.stages[stage], newlines=True), nl=not found.stages[stage].endswith("\n"))
        return
    kind = SetupError if found.unknown else PlanError
    raise kind(f"there is no {stage} for {found.target.key}: {printable(found.reason)}")
