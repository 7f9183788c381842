"""`vk tune`: the best plans of kernels on this machine, or on slices of it, by measuring."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import FileError, SetupError

from ..exits import Code
from ..results import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vkernels.autotune.database.database import Database

    from .run import Done

SCHEMA = 1
NONE = "none"

Kernels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KERNEL…]", help="all, kernels or families of the library, or FILE.py:KERNEL: the file is executed."
    ),
]
Target = Annotated[str, typer.Option(metavar="NAME", help="cpu, nvidia:0, …; with --offline any of `vk targets`.")]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="SPEC,…", help="Tune for these parts of the target: cores=1; all is the whole."),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shapes", metavar="M=…,N=…", help="Sizes in place of the usual ones."),
]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of the tensors that may have it, or of some.")
]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Budget = Annotated[str, typer.Option(metavar="60s|200", help="A time, or plans to try, for each kernel on each slice.")]
Search = Annotated[str, typer.Option(metavar="NAME", help="forest, local, genetic, random or exhaustive.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the search and of the arguments: the same tries the same.")]
Offline = Annotated[bool, typer.Option("--offline", help="Model times: the device need not be here.")]
Db = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="The tuning database, the user's own without it; or none."),
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there too; - is standard output.")]


Model = Annotated[
    str | None, typer.Option(metavar="FILE.py:FUNCTION", help="Tune what a torch model calls: `return model, inputs`.")
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
    offline: Offline = False,
    db: Db = None,
    json: Json = None,
) -> None:
    """Find the best plans of kernels by measuring them, and remember them: calls take them from then on.

    Ctrl-C ends it and keeps what was found. Exits with 1 where a kernel could not be tuned, and with 3 where the
    database cannot be written: that is tried before, and once more in the end.
    """
    check_writable(json)
    begun = time.monotonic()

    from vkernels.ir.errors import OptionError

    from .asked import slice_names, stop_from, wanted_tasks
    from .run import Asked, run, run_model
    from .show import console_for, show_summary

    if bool(kernels) == (model is not None):
        raise OptionError("vk tune: expected kernels, or --model")
    asked = Asked(
        kernels or [], wanted_tasks(shapes or [], dtype, constants), slice_names(target, slice_ or []),
        stop_from(budget), search, seed, offline,
    )  # fmt: skip
    console = console_for(to_errors=json == STANDARD_OUTPUT)
    with _database(db) as database:
        done = run(asked, database, console) if model is None else run_model(asked, model, database, console)
        if len(done.results) > 1 and model is None:
            show_summary(console, done.results)
        if json is not None:
            write_json(json, as_json(done, time.monotonic() - begun))
    if done.interrupted:
        raise typer.Exit(Code.INTERRUPTED)
    if done.refused:
        raise typer.Exit(Code.FINDING)


def as_json(done: Done, seconds: float) -> dict[str, Any]:
    """What was found as JSON: docs/json.md has the fields."""
    return {
        "schema_version": SCHEMA,
        "command": "tune",
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
    """The database, or none where that is said. Raises as it does, and `SetupError` where it cannot be written."""
    from vkernels.autotune.database import Database

    if url == NONE:
        return nullcontext()
    try:
        database = Database.open(url)
        database.check_writable()
    except (FileError, SetupError) as error:
        raise type(error)(f"{error}\nWhat is found could not be remembered; `--db none` tunes without that.") from error
    return database
