"""`vk memory calibrate`: measure or model the cost of copies, links and memory accesses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..results import check_writable
from .options import Json, console_for, status_line, write_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from vkernels.memory.calibration import Calibration

CPU = "cpu"
Named = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help="cpu, nvidia:0 or amd:0: measured; any other target from `vk targets`: modelled.",
    ),
]
Folder = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Also measure the drive of this folder (cpu only).")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Output file, for the --calibration option of other commands."),
]


def calibrate(target: Named = CPU, flash: Folder = None, out: Out = None, json: Json = None) -> None:
    """Measure the cost of copies, links and memory accesses on this machine (some seconds).

    For an absent device the costs are modelled, from the target table and published figures.
    """
    from vkernels.ir.errors import OptionError

    check_writable(out)
    check_writable(json)
    if flash is not None and target != CPU:
        raise OptionError("--flash can only be measured with --target cpu")
    from vkernels.memory.calibration_file import save, to_json

    from .show_placing import show_calibration

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
        from vkernels.memory.calibrate_cpu import calibrate_cpu

        return calibrate_cpu(flash, report)
    from ..options import target_named

    target = target_named(name, None, None)
    vendor, _, number = name.partition(":")
    if vendor in ("nvidia", "amd") and number.isdecimal():
        from vkernels.memory.calibrate_gpu import calibrate_gpu
        from vkernels.memory.gpu_timer import TorchTimer

        return calibrate_gpu(TorchTimer(int(number)), target, report)
    from vkernels.memory.placement.modelled import modelled

    return modelled(target)
