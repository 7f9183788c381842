"""`vk memory calibrate` and `place`: costs of memory accesses, and the placement of a call's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from rich.console import Console
from rich.table import Table

from vkernels.autotune.arguments import built
from vkernels.inspect.specialisation import parse_specialisation
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.errors import OptionError
from vkernels.library.tasks import library_tasks
from vkernels.memory.calibrate_cpu import calibrate_cpu
from vkernels.memory.calibrate_gpu import calibrate_gpu
from vkernels.memory.calibration import Calibration
from vkernels.memory.calibration_file import MACHINE, load, save, to_json
from vkernels.memory.gpu_timer import TorchTimer
from vkernels.memory.placement.choose import AlternativePlacement, PlacementChoice, PlacementDecision, choose
from vkernels.memory.placement.costs import BufferPlacement
from vkernels.memory.placement.kernels import launch_of, limits_with, program_of, tensor_bytes
from vkernels.memory.placement.modelled import modelled
from vkernels.targets import Target, limits_of

from ..formatting import format_bytes, format_seconds, printable
from ..options import target_named
from ..results import check_writable
from .options import console_for, size_from, status_line, write_result

CPU = "cpu"
LEGEND = "Times: of the whole call if only that tensor were placed differently. !: exceeds the limit."


def calibrate(target: str, flash: Path | None, out: Path | None, json: Path | None) -> None:
    """Measure or model a device, print it and write it."""
    check_writable(out)
    check_writable(json)
    if flash is not None and target != CPU:
        raise OptionError("--flash can only be measured with --target cpu")

    console = console_for(json)
    with status_line(console, "measuring") as report:
        found = _calibrated(target, flash, report)
    show_calibration(console, found)
    if out is not None:
        save(found, out)
        console.print(f"  written to {out}")
    write_result(json, "calibrate", calibration=to_json(found))


def _calibrated(name: str, flash: Path | None, report: Callable[[str], None]) -> Calibration:
    """Measure a present device, model an absent one. Raises `OptionError` for an unknown target."""
    if name == CPU:
        return calibrate_cpu(flash, report)

    target = target_named(name, None, None)
    vendor, _, number = name.partition(":")
    if vendor in ("nvidia", "amd") and number.isdecimal():
        return calibrate_gpu(TorchTimer(int(number)), target, report)

    return modelled(target)


def place(
    kernel: str, target: str, specialisation: tuple[str | None, str | None, str | None], limit: str | None,
    calibration: Path | None, json: Path | None,
) -> None:  # fmt: skip
    """Choose where each tensor of a call lives. `specialisation`: dtype, shapes and constants."""
    check_writable(json)
    least = None if limit is None else size_from(limit, "--limit")

    device = target_named(target, None, None)
    found = _calibration(device, calibration)
    request = parse_specialisation(*specialisation)
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

    access = calibration.access
    if access is None:
        raise OptionError(f"the calibration is of {calibration.target}, a CPU: placing needs those of a GPU")
    kernel, limits = built(task), limits_with(limits_of(target), access)
    launch = launch_of(kernel, task.shape, limits, strides_of(task), pin=kernel_of(task).pin)
    return choose(program_of(launch, tensor_bytes(kernel, task.shape)), access, limit)


def _calibration(target: Target, path: Path | None) -> Calibration:

    return modelled(target) if path is None else load(path)


def show_calibration(console: Console, found: Calibration) -> None:
    """Print a calibration, a line for each figure; * marks unverified ones."""
    console.print(printable(f"{found.target}: {found.device}, {found.origin}"), style="bold")
    table = _table("", "machine")
    for name in MACHINE:
        value = getattr(found.machine, name)
        if value is not None and not name.startswith("fault"):
            table.add_row(name + "*" * (name in found.unverified), _figure(name, value))
    console.print(table)
    if found.access is not None:
        table = _table("", "access")
        for name, text in _access_rows(found):
            table.add_row(name, text)
        console.print(table)
    if found.unverified:
        console.print("  * neither measured nor published")


def _access_rows(found: Calibration) -> Iterator[tuple[str, str]]:
    for name, value in to_builtins(found.access).items():
        if not isinstance(value, dict):
            yield name + "*" * (name in found.unverified), _figure(name, value)
            continue
        for part, figure in value.items():
            is_unverified = name in found.unverified or f"{name}.{part}" in found.unverified
            yield f"{name}.{part}" + "*" * is_unverified, _figure(part, figure)


def _figure(name: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    number = float(value)  # type: ignore[arg-type]
    if name.endswith("seconds"):
        return format_seconds(number)
    if name.endswith(("bytes", "at_once")):
        return format_bytes(number)
    return f"{number / 1e9:.3g} GB/s" if isfinite(number) else "unlimited"


def show_decision(console: Console, task: Task, found: Calibration, decision: PlacementDecision) -> None:
    """Print a decision, a row for each tensor."""
    console.print(printable(f"{task} on {found.target}, {found.origin}"), style="bold")
    table = _table("tensor", "bytes", "choice", *BufferPlacement, "takes")
    for choice in decision.choices:
        table.add_row(*_cells(choice))
    console.print(table)
    for choice in decision.choices:
        console.print(f"  {printable(choice.buffer)}: {choice.why}", soft_wrap=True)
    limit = "" if decision.limit is None else f" of {format_bytes(decision.limit)}"
    console.print(
        f"{format_seconds(decision.seconds)} in {format_bytes(decision.footprint)}{limit}; all copied: "
        f"{format_seconds(decision.copying_seconds)} in {format_bytes(decision.copying_footprint)}, "
        f"{decision.gain:.3g} times as long; {found.origin}",
        soft_wrap=True,
    )
    console.print(LEGEND, soft_wrap=True)


def _cells(choice: PlacementChoice) -> Iterator[str]:
    yield printable(choice.buffer)
    yield format_bytes(choice.size)
    yield choice.placement
    by_placement = {each.cost.placement: each for each in choice.alternatives}
    for placement in BufferPlacement:
        each = by_placement.get(placement)
        yield "–" if each is None else format_seconds(each.seconds) + "!" * (not each.fits)
    yield format_bytes(choice.cost.footprint)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number and head != "choice" else "left", no_wrap=True)
    return table


def decision_to_json(decision: PlacementDecision) -> dict[str, Any]:
    """Return a decision as JSON; docs/json.md documents the fields."""
    return {
        "seconds": decision.seconds, "footprint_bytes": decision.footprint, "limit_bytes": decision.limit,
        "copying_seconds": decision.copying_seconds, "copying_footprint_bytes": decision.copying_footprint,
        "tensors": [
            {
                "tensor": each.buffer, "bytes": each.size, "placement": str(each.placement), "why": each.why,
                "footprint_bytes": each.cost.footprint,
                "alternatives": [_alternative(other) for other in each.alternatives],
            }
            for each in decision.choices
        ],
    }  # fmt: skip


def _alternative(each: AlternativePlacement) -> dict[str, Any]:
    cost = each.cost
    return {
        "placement": str(cost.placement), "seconds": each.seconds, "fits": each.fits,
        "moving_seconds": cost.moving, "access_seconds": sum(cost.memory) + sum(cost.link),
        "host_seconds": cost.host, "footprint_bytes": cost.footprint, "prefetched": cost.prefetched, "why": cost.why,
    }  # fmt: skip
