"""`vk memory calibrate`: what moving and reaching memory costs here, or on a device that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..results import check_writable
from .options import Json, console_for, telling, write_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from vkernels.runtime.memory.calibration import Calibration

CPU = "cpu"
Named = Annotated[
    str, typer.Option("--target", metavar="NAME", help="cpu, nvidia:0, amd:0, or any of `vk targets`: modelled.")
]
Folder = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Measure the drive of this folder too (cpu).")]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="For the --calibration of others.")]


def calibrate(target: Named = CPU, flash: Folder = None, out: Out = None, json: Json = None) -> None:
    """Measure what copies, links and accesses cost on this machine, for some seconds.

    Of a device that is not here it says what the table of targets and published figures give: modelled.
    """
    from vkernels.ir.errors import OptionError

    check_writable(out)
    check_writable(json)
    if flash is not None and target != CPU:
        raise OptionError("--flash: only the CPU's flash is measured")
    from vkernels.runtime.memory.calibration_file import save, to_json

    from .show_placing import show_calibration

    console = console_for(json)
    with telling(console, "measuring") as tell:
        found = _calibrated(target, flash, tell)
    show_calibration(console, found)
    if out is not None:
        save(found, out)
        console.print(f"  written to {out}")
    write_result(json, "calibrate", calibration=to_json(found))


def _calibrated(name: str, flash: Path | None, tell: Callable[[str], None]) -> Calibration:
    """Measured where it is here, else modelled. Raises `OptionError` for a target that there is not."""
    if name == CPU:
        from vkernels.runtime.memory.calibrate_cpu import calibrate_cpu

        return calibrate_cpu(flash, tell)
    from ..explain.subject import target_named

    target = target_named(name, None, None)
    vendor, _, number = name.partition(":")
    if vendor in ("nvidia", "amd") and number.isdecimal():
        from vkernels.runtime.memory.calibrate_gpu import calibrate_gpu
        from vkernels.runtime.memory.gpu_timer import TorchTimer

        return calibrate_gpu(TorchTimer(int(number)), target, tell)
    from vkernels.runtime.memory.placement.modelled import modelled

    return modelled(target)
