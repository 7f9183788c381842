"""`vk memory place`: choose copied, zero-copy or managed memory for each tensor of a call, by modelled time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import Constants, DType, Kernel, Shape
from ..results import check_writable
from .options import Json, console_for, size_from, status_line, write_result

if TYPE_CHECKING:
    from vkernels.inspect.task import Task
    from vkernels.memory.calibration import Calibration
    from vkernels.memory.placement.choose import PlacementDecision
    from vkernels.targets import Target

Named = Annotated[
    str,
    typer.Option(
        "--target", metavar="NAME", help="A GPU from `vk targets`, integrated or discrete: jetson-agx-orin-64."
    ),
]
Limit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Limit of the device memory that all tensors use: 64MiB.")
]
Calibrated = Annotated[
    Path | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Costs written by `vk memory calibrate --out`. Default: modelled."
    ),
]


def place(
    kernel: Kernel,
    target: Named,
    shapes: Shape = None,
    dtype: DType = None,
    constants: Constants = None,
    limit: Limit = None,
    calibration: Calibrated = None,
    json: Json = None,
) -> None:
    """Choose where each tensor of a call lives, when inputs come from the host and results go back to it.

    On integrated devices copied, zero-copy and managed memory are the same chips; on discrete ones a link is between.
    """
    from vkernels.ir.errors import OptionError

    check_writable(json)
    least = None if limit is None else size_from(limit, "--limit")

    from vkernels.inspect.specialisation import parse_specialisation
    from vkernels.library.tasks import library_tasks

    from ..options import target_named
    from .show_placing import decision_to_json, show_decision

    device = target_named(target, None, None)
    found = _calibration(device, calibration)
    request = parse_specialisation(dtype, shapes, constants)
    console = console_for(json)
    with status_line(console, "choosing a plan"):
        tasks = library_tasks([kernel], request, on_gpu=True)
        if len(tasks) > 1:
            kernels = dict.fromkeys(task.name for task in tasks)
            if len(kernels) > 1:
                raise OptionError(f"{kernel} names several kernels; give one of {', '.join(kernels)}")
        decision = placed(tasks[0], device, found, least)
    show_decision(console, tasks[0], found, decision)
    write_result(
        json, "place", task=tasks[0].to_json(), target=device.key, origin=str(found.origin),
        integrated=device.integrated if found.access is None else found.access.integrated,
        unverified=list(found.unverified), **decision_to_json(decision),
    )  # fmt: skip


def placed(task: Task, target: Target, calibration: Calibration, limit: int | None) -> PlacementDecision:
    """Decide for one call on a device. Raises `OptionError` for a CPU, `MemoryPlanError` if the limit is too low."""
    from vkernels.autotune.arguments import built
    from vkernels.inspect.task import kernel_of, strides_of
    from vkernels.ir.errors import OptionError
    from vkernels.memory.placement.choose import choose
    from vkernels.memory.placement.kernels import launch_of, limits_with, program_of, tensor_bytes
    from vkernels.targets import limits_of

    access = calibration.access
    if access is None:
        raise OptionError(f"the calibration is of {calibration.target}, a CPU: placing needs those of a GPU")
    kernel, limits = built(task), limits_with(limits_of(target), access)
    launch = launch_of(kernel, task.shape, limits, strides_of(task), pin=kernel_of(task).pin)
    return choose(program_of(launch, tensor_bytes(kernel, task.shape)), access, limit)


def _calibration(target: Target, path: Path | None) -> Calibration:
    from vkernels.memory.calibration_file import load
    from vkernels.memory.placement.modelled import modelled

    return modelled(target) if path is None else load(path)
