"""Options and helpers that the `vk memory` commands share: sizes, rates, traces, consoles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError

from ..options import Json as Json
from ..results import STANDARD_OUTPUT, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from vkernels.memory.links import MemoryMachine
    from vkernels.memory.trace import MemoryTrace

SCHEMA = 1
HOST, LINK, FLASH_LINK = "128GiB", "15.754GB/s", "3.2GB/s"
"""PCIe 3.0 x16 and a flash drive, the defaults of G10 (MICRO 2023)."""
UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1 << 10 * n for n, letter in enumerate("KMGT", 1)}}
UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("kMGT", 1)}
UNLIMITED = "unlimited"
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kKMGT]?i?B?)")

TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="File written by `vk memory record`, or a step of G10's artifact.")
]
Host = Annotated[str, typer.Option(metavar="SIZE", help="Host memory for tensors that leave the device.")]
Flash = Annotated[str, typer.Option(metavar="SIZE", help="Flash memory; 0 for none.")]
Link = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help=f"Rate of the device's link, each way; shared with flash. Default: calibrated, else {LINK}.",
    ),
]
FlashLink = Annotated[
    str | None, typer.Option(metavar="RATE", help=f"Rate of flash, each way. Default: calibrated, else {FLASH_LINK}.")
]
Calibrated = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Rates written by `vk memory calibrate --out`."),
]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write an HTML report: memory, transfers and waits over time.")
]


def size_from(text: str, option: str) -> int:
    """Parse a size such as `40GiB`, `2.5 GB` or `4096`. Raises `OptionError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        raise OptionError(f"{option}: expected a size such as 40GiB, 40GB or 4096, got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


def rate_from(text: str, option: str) -> float:
    """Parse a rate such as `16GB/s`, above 0. Raises `OptionError`."""
    size = size_from(text.removesuffix("/s"), option) if text.endswith("/s") else 0
    if not size:
        raise OptionError(f"{option}: expected a rate such as 16GB/s, got {text!r}")
    return float(size)


def machine_from(
    device: str, host: str, flash: str, link: str | None, flash_link: str | None, calibration: Path | None = None
) -> MemoryMachine:
    """Return a device with host and flash, which share the device's link unless calibrated separately.

    Rates given as options override the calibration. Raises `OptionError`, and `FileError` for the calibration.
    """
    from dataclasses import replace

    from vkernels.memory.links import G10, MemoryMachine

    sizes = size_from(device, "--device"), size_from(host, "--host")
    flash_bytes = inf if flash == UNLIMITED else size_from(flash, "--flash")
    rate = None if link is None else rate_from(link, "--link")
    flash_rate = None if flash_link is None else rate_from(flash_link, "--flash-link")
    if calibration is not None:
        from vkernels.memory.calibration_file import load

        named = {**_both_ways("host", rate), **_both_ways("flash", flash_rate)}
        return replace(load(calibration).with_sizes(*sizes, flash_bytes), **named)
    rate, flash_rate = rate or rate_from(LINK, "--link"), flash_rate or rate_from(FLASH_LINK, "--flash-link")
    return MemoryMachine(
        device_bytes=sizes[0], host_bytes=sizes[1],
        to_host=rate, from_host=rate, to_flash=flash_rate, from_flash=flash_rate, flash_bytes=flash_bytes,
        shared=rate if rate > flash_rate else None,
        host_seconds=G10.host_seconds, flash_seconds=G10.flash_seconds,
    )  # fmt: skip


def _both_ways(tier: str, rate: float | None) -> dict[str, Any]:
    return {} if rate is None else {f"to_{tier}": rate, f"from_{tier}": rate}


def read_trace(path: Path) -> MemoryTrace:
    """Read a vkernels trace or one of G10's. Raises `FileError` with the line."""
    from vkernels.memory.imports import read_g10
    from vkernels.memory.strict_json import read_json
    from vkernels.memory.trace_file import load

    data = read_json(path).data
    is_g10 = isinstance(data, dict) and "format" not in data and "kernels" in data
    return read_g10(path) if is_g10 else load(path)


def console_for(json: Path | None) -> Console:
    """Return the console for text output."""
    from rich.console import Console

    return Console(stderr=json == STANDARD_OUTPUT, highlight=False, markup=False)


@contextmanager
def status_line(console: Console, words: str) -> Iterator[Callable[[str], None]]:
    """Show the current step, if the console is a terminal; the yielded function sets the next one."""
    with console.status(words) as status:
        yield status.update


def write_result(path: Path | None, command: str, **results: Any) -> None:
    """Write results as JSON, if requested."""
    if path is not None:
        write_json(path, {"schema_version": SCHEMA, "command": f"memory {command}", **results})
