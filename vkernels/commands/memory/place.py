"""`vk memory place`: for each tensor of a kernel's call copy, zero-copy or managed memory, by modelled time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..results import check_writable
from .options import Json, console_for, size_from, telling, write_result

if TYPE_CHECKING:
    from vkernels.autotune.task import Task
    from vkernels.runtime.memory.calibration import Calibration
    from vkernels.runtime.memory.placement.choose import Decision
    from vkernels.runtime.targets import Target

Kernel = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A kernel of the library, or FILE.py:KERNEL: the file is executed.")
]
Named = Annotated[
    str, typer.Option("--target", metavar="NAME", help="A GPU of `vk targets`, integrated or not: jetson-agx-orin-64.")
]
Shapes = Annotated[str | None, typer.Option(metavar="M=…,N=…", help="Sizes in place of the usual ones.")]
DType = Annotated[
    str | None, typer.Option(metavar="NAME|TENSOR=NAME,…", help="Dtype of the tensors that may have it, or of some.")
]
Constants = Annotated[str | None, typer.Option(metavar="NAME=…,…", help="Values of constant parameters.")]
Limit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of the memory that the device works in, for all tensors: 64MiB.")
]
Calibrated = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What `vk memory calibrate --out` wrote; modelled without it."),
]


def place(
    kernel: Kernel,
    target: Named,
    shapes: Shapes = None,
    dtype: DType = None,
    constants: Constants = None,
    limit: Limit = None,
    calibration: Calibrated = None,
    json: Json = None,
) -> None:
    """Choose where each tensor of a call lives, with data that comes from the host and results that it wants.

    On integrated devices copy, zero-copy and managed memory are the same chips; on others they are a link apart.
    """
    from vkernels.ir.errors import OptionError

    check_writable(json)
    least = None if limit is None else size_from(limit, "--limit")
    from vkernels.autotune.usual import Wanted, usual_tasks

    from ..check.specialising import wanted_from
    from ..explain.subject import target_named
    from .show_placing import decision_to_json, show_decision

    device = target_named(target, None, None)
    found = _calibration(device, calibration)
    said = wanted_from(dtype, shapes, constants)
    console = console_for(json)
    with telling(console, "choosing a plan"):
        tasks = usual_tasks([kernel], Wanted(said.shape, said.dtype, said.dtypes, said.constants), on_gpu=True)
        if len(tasks) > 1:
            kernels = dict.fromkeys(task.kernel for task in tasks)
            if len(kernels) > 1:
                raise OptionError(f"{kernel} is several kernels: name one of {', '.join(kernels)}")
        decision = placed(tasks[0], device, found, least)
    show_decision(console, tasks[0], found, decision)
    write_result(
        json, "place", task=tasks[0].to_json(), target=device.key, origin=str(found.origin),
        integrated=device.integrated if found.access is None else found.access.integrated,
        unverified=list(found.unverified), **decision_to_json(decision),
    )  # fmt: skip


def placed(task: Task, target: Target, calibration: Calibration, limit: int | None) -> Decision:
    """The decision for one call on a device. Raises `OptionError` for a CPU, `MemoryPlanError` for too few bytes."""
    from vkernels.autotune.arguments import built, strides_of
    from vkernels.autotune.task import kernel_of
    from vkernels.ir.errors import OptionError
    from vkernels.runtime.memory.placement.choose import choose
    from vkernels.runtime.memory.placement.kernels import launch_of, limits_with, program_of, tensor_bytes
    from vkernels.runtime.targets import limits_of

    access = calibration.access
    if access is None:
        raise OptionError(f"the calibration is of {calibration.target}, a CPU: it has no figures to place by")
    kernel, limits = built(task), limits_with(limits_of(target), access)
    launch = launch_of(kernel, task.shape, limits, strides_of(task), pin=kernel_of(task).pin)
    return choose(program_of(launch, tensor_bytes(kernel, task.shape)), access, limit)


def _calibration(target: Target, path: Path | None) -> Calibration:
    from vkernels.runtime.memory.calibration_file import load
    from vkernels.runtime.memory.placement.modelled import modelled

    return modelled(target) if path is None else load(path)
