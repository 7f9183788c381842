"""`vk explain`: show what the compiler decided for one kernel on one target, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.compiler.judged_plans import JUDGED
from vkernels.ir.errors import OptionError, PlanError, SetupError
from vkernels.targets import Target
from vkernels.targets.what_if import read_what_if

from .. import complete
from ..exits import Code
from ..formatting import printable
from ..options import (
    Cache,
    CompileSeconds,
    Constants,
    Deterministic,
    DType,
    Html,
    Json,
    Judge,
    Kernel,
    Layouts,
    Shape,
    target_named,
)
from ..results import check_writable, console_for, write_results

if TYPE_CHECKING:
    from vkernels.inspect.explain.explain import Explanation

LIST = "list"

Named = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", autocompletion=complete.targets, help="A target from `vk targets`, cpu, or a slice."
    ),
]
Part = Annotated[str | None, typer.Option("--slice", metavar="SLICE", help="A slice of the target: 1g.10gb, mps=50, …")]
Limits = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File of devices that --target may name.")]
Stage = Annotated[
    str | None, typer.Option("--ir", metavar="STAGE|list", help="Print only the IR after this compiler stage.")
]
WhatIfs = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if", metavar="shared=+32K,l2=2x,…", help="How modelled time changes under other limits. Repeatable."
    ),
]


def explain(
    kernel: Kernel,
    target: Named = None,
    slice_: Part = None,
    limits: Limits = None,
    shape: Shape = None,
    dtype: DType = None,
    constants: Constants = None,
    layouts: Layouts = None,
    deterministic: Deterministic = False,
    ir: Stage = None,
    json: Json = None,
    html: Html = None,
    no_cache: Cache = False,
    seconds: CompileSeconds = 120.0,
    judge: Judge = JUDGED,
    what_if: WhatIfs = None,
) -> None:
    """Explain how a kernel runs on a device that need not be present: phases, homes, plan, time, binary.

    Exit code 1: the kernel does not fit.
    """
    check_writable(json)
    check_writable(html)
    chosen = target_named(target, slice_, limits)
    if ir == LIST:
        return _list_stages(chosen)

    questions = [read_what_if(text, chosen, lambda name: target_named(name, None, limits)) for text in what_if or ()]
    if questions and ir is not None:
        raise OptionError("--what-if: --ir prints the IR of one plan; leave one of them out")

    from vkernels.compiler.workers.compile_pool import CompilePool
    from vkernels.inspect.check.check import CheckTools, triton_version
    from vkernels.inspect.explain.explain import explain as find
    from vkernels.inspect.explain.stages import check_stage
    from vkernels.inspect.resolve import resolve_case
    from vkernels.inspect.specialisation import parse_specialisation
    from vkernels.inspect.worker_client import InspectPool
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.library.catalogue import CATALOGUE

    if ir is not None:
        check_stage(ir, chosen.architecture, chosen.vendor == "cpu")
    request = parse_specialisation(dtype, shape, constants, layouts)
    triton = triton_version()
    with InspectPool(1, seconds) as preparing, CompilePool(None, seconds) as compiling:
        case, others = resolve_case(kernel, request, CATALOGUE, preparing)
        case = replace(case, deterministic=deterministic)
        tools = CheckTools(preparing, compiling, None if no_cache else DiskCache(), triton, judge=judge)
        found = find(case, chosen, tools, only_stage=ir or "", questions=questions)
    if ir is not None:
        return _print_stage(found, ir)
    _write(found, others, triton, json, html)
    if found.fits is not True:
        raise typer.Exit(Code.FINDING if found.fits is False else Code.ENVIRONMENT)


def _write(found: Explanation, others: tuple[str, ...], triton: str, json: Path | None, html: Path | None) -> None:
    from .results import as_json, show

    show(found, others, console_for(json))
    write_results(json, "explain", **as_json(found, triton))
    if html is not None:
        from .page import write_page

        write_page(html, found)


def _list_stages(target: Target) -> None:
    from vkernels.inspect.explain.stages import stages_of

    stages = stages_of(target.architecture, target.vendor == "cpu")
    width = max(map(len, stages))
    for name, what in stages.items():
        typer.echo(f"{name:{width}}  {what}")


def _print_stage(found: Explanation, stage: str) -> None:
    if stage in found.stages:
        typer.echo(printable(found.stages[stage], newlines=True), nl=not found.stages[stage].endswith("\n"))
        return
    kind = SetupError if found.unknown else PlanError
    raise kind(f"the kernel does not reach stage {stage} on {found.target.key}: {printable(found.reason)}")
