"""`vk tune`: find the best plans of kernels on this machine, or on slices of it, by measuring."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import FileError, OptionError, SetupError

from .. import complete
from ..exits import Code
from ..options import Constants, DType, Json
from ..results import check_writable, console_for, write_results

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database

    from .run import TuneOutcome

NONE = "none"

Kernels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KERNEL…",
        autocompletion=complete.kernels,
        help="all, library kernels or families, or FILE.py:KERNEL (the file is executed).",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=complete.targets,
        help="cpu, nvidia:0, …; with --offline any target from `vk targets`.",
    ),
]
Slices = Annotated[
    list[str] | None,
    typer.Option(
        "--slice", metavar="SPEC,…", help="Tune for these slices of the target: cores=1; all is the whole device."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shapes", "--shape", metavar="M=…,N=…", help="Sizes; repeat the option for several shapes."),
]
Budget = Annotated[
    str,
    typer.Option(
        metavar="60s|200",
        help="Time limit for each kernel on all slices, or number of plans to try for each kernel on each slice.",
    ),
]
Search = Annotated[str, typer.Option(metavar="NAME", help="Search: forest, local, genetic, random or exhaustive.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed for the search and the inputs.")]
Caches = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How plans are judged: program (must not be slower than the default with cold or warm arguments, nor when "
        "the results are used at once), cold or warm (arguments).",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Use modelled times; the device need not be present.")]
Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="Tuning database; none: do not store results. Default: the user's own file."
    ),
]


Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION", help="Tune the kernels of a torch model; FUNCTION returns (model, inputs)."
    ),
]

Live = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Page to open in a browser while tuning: it shows the progress."),
]

Signature = Annotated[
    str | None, typer.Option(metavar="*fp16:16,i32,…", help="Parameter types of a plain Triton kernel.")
]
Grid = Annotated[
    str | None,
    typer.Option(metavar="EXPRESSION", help="Grid of a plain Triton kernel: 'cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)'."),
]
Vary = Annotated[
    str | None,
    typer.Option(metavar="NAME,…", help="Block sizes of a plain Triton kernel to vary. Default: see the docs."),
]
Inputs = Annotated[
    str | None,
    typer.Option(metavar="FUNCTION", help="Function of the file that returns a plain Triton kernel's arguments."),
]
Configs = Annotated[
    Path | None,
    typer.Option(metavar="FILE.py", help="Write the best triton.Config for each target and slice to this file."),
]


def tune(
    kernels: Kernels = None,
    model: Model = None,
    target: Target = "cpu",
    slice_: Slices = None,
    shapes: Shapes = None,
    dtype: DType = None,
    constants: Constants = None,
    budget: Budget = "60s",
    search: Search = "forest",
    seed: Seed = 0,
    caches: Caches = "program",
    offline: Offline = False,
    db: Db = None,
    signature: Signature = None,
    grid: Grid = None,
    vary: Vary = None,
    inputs: Inputs = None,
    configs: Configs = None,
    live: Live = None,
    json: Json = None,
) -> None:
    """Find the best plans of kernels by measuring, and store them; later calls use them.

    Ctrl-C stops tuning and keeps the results so far. Exit code 1: a kernel could not be tuned; 3: the database is not
    writable (checked before tuning).
    """
    check_writable(json)
    check_writable(live)
    begun = time.monotonic()

    from vkernels.autotune.drive import stop_from

    from .model import run_model
    from .run import TuneRequest, run, show_summary, slice_names, wanted_tasks
    from .triton import TritonOptions, plain_triton, run_triton

    if bool(kernels) == (model is not None):
        raise OptionError("vk tune: give kernels, or --model")
    request = TuneRequest(
        kernels or [], wanted_tasks(shapes or [], dtype, constants), slice_names(target, slice_ or []),
        stop_from(budget, "--budget"), search, seed, offline, caches, begun, live,
    )  # fmt: skip
    console = console_for(json, is_wide=True)
    options = TritonOptions(signature, grid, vary, inputs, configs)
    if plain := plain_triton(kernels or []):
        if live is not None:
            raise OptionError("--live: there is no page for plain Triton kernels")
        if len(kernels or []) > 1 or len(request.wanted) > 1:
            raise OptionError(f"{plain[0]} is a plain Triton kernel: tune one at a time, with one --shapes")
        stop, slices = request.stop, request.slices
        tuned = run_triton(plain[0], slices, request.wanted[0], options, stop, seed, offline, console)
        write_results(json, "tune", seconds=time.monotonic() - begun, triton=[each.to_json() for each in tuned])
        if any(each.stopped == "interrupted" for each in tuned):
            raise typer.Exit(Code.INTERRUPTED)
        if any(each.best is None for each in tuned):
            raise typer.Exit(Code.FINDING)
        return
    if options.are_given:
        raise OptionError("--signature, --grid, --vary, --inputs and --configs apply to plain Triton kernels")
    with _database(db) as database:
        done = run(request, database, console) if model is None else run_model(request, model, database, console)
        if len(done.results) > 1 and model is None:
            show_summary(console, done.results)
        write_results(json, "tune", **as_json(done, time.monotonic() - begun))
    if done.interrupted:
        raise typer.Exit(Code.INTERRUPTED)
    if done.refused:
        raise typer.Exit(Code.FINDING)


def as_json(done: TuneOutcome, seconds: float) -> dict[str, Any]:
    """Return the results as JSON; docs/json.md documents the fields."""
    return {
        "seconds": seconds,
        "interrupted": done.interrupted,
        "results": [result.to_json() for result in done.results] if done.model is None else [],
        "crossed": [{"task": task.to_json(), **crossed.to_json()} for task, crossed in done.crossed],
        "model": None if done.model is None else done.model.to_json(),
        "refused": [
            {"task": task.to_json(), "slice": slice_, "reason": reason} for task, slice_, reason in done.refused
        ],
    }


def _database(url: str | None) -> AbstractContextManager[Database | None]:
    """Open the database, unless the URL is `none`. Raises as it does, and `SetupError` if it is not writable."""
    from vkernels.autotune.database import Database

    if url == NONE:
        return nullcontext()
    try:
        database = Database.open(url)
        database.check_writable()
    except (FileError, SetupError) as error:
        raise type(error)(f"{error}\nResults could not be stored; `--db none` tunes without storing them.") from error
    return database
