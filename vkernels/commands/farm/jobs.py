"""`vk farm submit`, `status`, `logs` and `cancel`: a user's jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError

from .. import complete
from ..exits import Code
from ..formatting import format_seconds, printable
from ..options import Constants, DType, Json
from ..results import check_writable, console_for, table_of, write_results

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vkernels.farm.records import Wanted

Login = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Login file of the farm. Default: that of the farm started on this machine."),
]
Kernels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KERNEL…",
        autocompletion=complete.kernels,
        help="all, library kernels or families, or FILE.py:KERNEL (is executed).",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="FILE.py:FUNCTION", help="Kernels of a torch model, which is run here once to find them."),
]
Target = Annotated[
    str, typer.Option(metavar="NAME", help="Device to tune for: cpu, nvidia, amd, or one by name: h100-sxm5-80.")
]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="SPEC,…", help="Slices of the target: cores=1; all is the whole device."),
]
Device = Annotated[str, typer.Option(metavar="TEXT", help="Only on devices with this in their names.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shapes", "--shape", metavar="M=…,N=…", help="Sizes; repeat it for several shapes."),
]
Budget = Annotated[
    str, typer.Option(metavar="60s|200", help="Seconds, or number of plans, for each kernel on each slice.")
]
Search = Annotated[str, typer.Option(metavar="NAME", help="Search: forest, local, genetic, random or exhaustive.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed for the search.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the job has ended. Exit code 1: a part of it failed.")]
Number = Annotated[int, typer.Argument(metavar="JOB", min=1, help="Number of the job.")]
Live = Annotated[bool, typer.Option("--live", help="Show it again and again, until interrupted.")]


def submit(
    kernels: Kernels = None,
    model: Model = None,
    target: Target = "cpu",
    slice_: Slices = None,
    shapes: Shapes = None,
    dtype: DType = None,
    constants: Constants = None,
    device: Device = "",
    budget: Budget = "60s",
    search: Search = "forest",
    seed: Seed = 0,
    wait: Wait = False,
    login: Login = None,
    json: Json = None,
) -> None:
    """Have kernels tuned by a farm; prints the number of the job. The file of a kernel is sent along."""
    check_writable(json)
    if bool(kernels) == (model is not None):
        raise OptionError("vk farm submit: give kernels, or --model")

    from vkernels.autotune.drive import stop_from
    from vkernels.farm.client import Farm

    from ..tune.run import slice_names

    stop = stop_from(budget, "--budget")
    farm = Farm.from_login(login)
    tasks = tasks_of_model(model) if model else _tasks(kernels or [], shapes or [], dtype, constants)
    number = farm.submit(
        tasks, slice_names(target, slice_ or []), seconds=stop.seconds, plans=stop.evaluations,
        title=model.rpartition("/")[2] if model else "", device=device, search=search, seed=seed,
    )  # fmt: skip
    console = console_for(json, is_wide=True)
    console.print(f"job {number}: {len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}")
    job = farm.wait(number) if wait else farm.job(number)
    if wait:
        _show(console.print, job)
    write_results(json, "farm submit", job=job)
    if wait and job["state"] != "done":
        raise typer.Exit(Code.FINDING)


def _tasks(kernels: Sequence[str], shapes: Sequence[str], dtype: str | None, constants: str | None) -> list[Wanted]:
    from vkernels.farm.records import Wanted
    from vkernels.library.tasks import library_tasks

    from ..tune.run import wanted_tasks

    requests = wanted_tasks(shapes, dtype, constants)
    return [Wanted(task.to_request()) for request in requests for task in library_tasks(kernels, request)]


def tasks_of_model(model: str) -> list[Wanted]:
    """The tasks of a torch model with their calls and seconds, of which it runs a few here. Raises as `read_model`."""
    from torch.nn import Module

    from vkernels.autotune.models import read_model, tasks_of
    from vkernels.farm.records import Wanted
    from vkernels.library.catalogue import CATALOGUE
    from vkernels.torch import replace

    module, arguments, named = read_model(model)
    layers = str(replace(module, everywhere=True)) if isinstance(module, Module) else ""
    parts = tasks_of(module, arguments, named, CATALOGUE, layers).parts
    if not parts:
        raise OptionError(f"{model} calls no kernel that can be tuned")
    return [Wanted(part.task.to_request(), part.calls, part.seconds) for part in parts]


def status(live: Live = False, login: Login = None, json: Json = None) -> None:
    """Show the jobs of a farm and its slices."""
    check_writable(json)

    from vkernels.farm.client import Farm

    farm = Farm.from_login(login)
    found = farm.status()
    console = console_for(json, is_wide=True)
    if live:
        from rich.live import Live as View

        with View(_board(found), console=console, auto_refresh=False) as view:
            try:
                while True:
                    time.sleep(1.0)
                    found = farm.status()
                    view.update(_board(found), refresh=True)
            except KeyboardInterrupt:
                pass
    else:
        console.print(_board(found))
    write_results(json, "farm status", **found)


def logs(job: Number, login: Login = None, json: Json = None) -> None:
    """Show a job's parts, and what happened to it."""
    check_writable(json)

    from vkernels.farm.client import Farm

    found = Farm.from_login(login).job(job)
    console = console_for(json, is_wide=True)
    for line in found["lines"]:
        at = time.strftime("%H:%M:%S", time.localtime(line["at"]))
        console.print(f"{at} {printable(line['text'], newlines=True)}", soft_wrap=True)
    _show(console.print, found)
    write_results(json, "farm logs", job=found)


def cancel(job: Number, login: Login = None) -> None:
    """End a job; what it found so far stays in the database."""
    from vkernels.farm.client import Farm

    Farm.from_login(login).cancel(job)
    console_for().print(f"job {job} is cancelled")


def _board(status: dict[str, Any]) -> RenderableType:
    from rich.console import Group

    figures = ("ended", "plans", "served", "gain")
    jobs = table_of("job", "user", "what", "state", *figures, right=("job", *figures), title="Jobs")
    for each in status["jobs"]:
        gain = "" if each["gain"] is None else f"{each['gain']:.2f}"
        jobs.add_row(
            str(each["number"]), each["user"], printable(each["title"]), each["state"],
            f"{each['ended']} of {each['parts']}", str(each["tried"]), f"{each['served']:.0f} s", gain,
        )  # fmt: skip
    slots = table_of("machine", "device", "slice", "cores", "job", title="Slices")
    for each in status["slots"]:
        cores = ", ".join(map(str, each["cores"]))
        slots.add_row(each["node"][:12], each["device"], each["slice"], cores, str(each["job"] or "idle"))
    waiting = [f"{status['unwritten']} entries wait for the database"] if status["unwritten"] else []
    return Group(jobs, slots, *waiting)


def _show(say: Any, job: dict[str, Any]) -> None:
    figures = ("turns", "plans", "default", "best", "gain")
    table = table_of("task", "slice", "state", *figures, right=figures)
    for part in job["parts"]:
        gain = f"{part['default'] / part['best']:.2f}" if part["best"] and part["default"] else ""
        times = ["" if part[name] is None else format_seconds(part[name]) for name in ("default", "best")]
        sizes = " ".join(f"{name}={size}" for name, size in part["task"]["shape"].items())
        name = str(part["task"]["kernel"]).rpartition(":")[2]
        table.add_row(
            f"{name} {sizes}", part["slice"], part["state"], str(part["turns"]), str(part["tried"]), *times, gain
        )
    say(table)
    for part in job["parts"]:
        if part["state"] == "failed":
            say(f"failed: {printable(part['reason'], newlines=True)}")
