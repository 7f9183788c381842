"""What the commands about memory have in common: options, sizes and rates in words, traces of either form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.errors import OptionError

from ..results import STANDARD_OUTPUT, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from vkernels.runtime.memory.links import Machine
    from vkernels.runtime.memory.trace import Trace

SCHEMA = 1
HOST, LINK, FLASH_LINK = "128GiB", "15.754GB/s", "3.2GB/s"
"""PCIe 3.0 x16, and a flash drive: G10's defaults (MICRO 2023)."""
UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1 << 10 * n for n, letter in enumerate("KMGT", 1)}}
UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("kMGT", 1)}
UNLIMITED = "unlimited"
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kKMGT]?i?B?)")

TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="What `vk memory record` wrote, or a step of G10's artifact.")
]
Host = Annotated[str, typer.Option(metavar="SIZE", help="Of the host, for what leaves the device.")]
Flash = Annotated[str, typer.Option(metavar="SIZE", help="Of flash; 0 is none, and there is no end of it unless said.")]
Link = Annotated[
    str | None,
    typer.Option(metavar="RATE", help=f"Of the device's link, each way; flash shares it. {LINK} unless calibrated."),
]
FlashLink = Annotated[
    str | None, typer.Option(metavar="RATE", help=f"Of flash, each way. {FLASH_LINK} unless calibrated.")
]
Calibrated = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What `vk memory calibrate --out` wrote: the links' figures."),
]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there too; - is standard output.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw memory, transfers and waits there, as a page of its own.")
]


def size_from(text: str, option: str) -> int:
    """Bytes, of `40GiB`, `2.5 GB` or `4096`. Raises `OptionError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        raise OptionError(f"{option}: expected a size as 40GiB, 40GB or 4096, got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


def rate_from(text: str, option: str) -> float:
    """Bytes a second, of `16GB/s`. Raises `OptionError`, also for none."""
    size = size_from(text.removesuffix("/s"), option) if text.endswith("/s") else 0
    if not size:
        raise OptionError(f"{option}: expected a rate as 16GB/s, got {text!r}")
    return float(size)


def machine_from(
    device: str, host: str, flash: str, link: str | None, flash_link: str | None, calibration: Path | None = None
) -> Machine:
    """A device, its host and flash, which share the device's link unless they were calibrated apart; rates that are
    named count before a calibration's. Raises `OptionError`, and `FileError` for the calibration."""
    from dataclasses import replace

    from vkernels.runtime.memory.links import G10, Machine

    sizes = size_from(device, "--device"), size_from(host, "--host")
    flash_bytes = inf if flash == UNLIMITED else size_from(flash, "--flash")
    rate = None if link is None else rate_from(link, "--link")
    flash_rate = None if flash_link is None else rate_from(flash_link, "--flash-link")
    if calibration is not None:
        from vkernels.runtime.memory.calibration_file import load

        named = {**_both_ways("host", rate), **_both_ways("flash", flash_rate)}
        return replace(load(calibration).with_sizes(*sizes, flash_bytes), **named)
    rate, flash_rate = rate or rate_from(LINK, "--link"), flash_rate or rate_from(FLASH_LINK, "--flash-link")
    return Machine(
        device_bytes=sizes[0], host_bytes=sizes[1],
        to_host=rate, from_host=rate, to_flash=flash_rate, from_flash=flash_rate, flash_bytes=flash_bytes,
        shared=rate if rate > flash_rate else None,
        host_seconds=G10.host_seconds, flash_seconds=G10.flash_seconds,
    )  # fmt: skip


def _both_ways(tier: str, rate: float | None) -> dict[str, Any]:
    return {} if rate is None else {f"to_{tier}": rate, f"from_{tier}": rate}


def read_trace(path: Path) -> Trace:
    """A trace of our own, or one of G10's. Raises `FileError` with the line."""
    from vkernels.runtime.memory.imports import read_g10
    from vkernels.runtime.memory.strict_json import read_json
    from vkernels.runtime.memory.trace_file import load

    data = read_json(path).data
    is_g10 = isinstance(data, dict) and "format" not in data and "kernels" in data
    return read_g10(path) if is_g10 else load(path)


def console_for(json: Path | None) -> Console:
    """Where words for people go."""
    from rich.console import Console

    return Console(stderr=json == STANDARD_OUTPUT, highlight=False, markup=False)


@contextmanager
def telling(console: Console, words: str) -> Iterator[Callable[[str], None]]:
    """Shows what is being done, where the console is a terminal; call what it gives with what is done next."""
    with console.status(words) as status:
        yield status.update


def write_result(path: Path | None, command: str, **results: Any) -> None:
    """As JSON, where it is asked for."""
    if path is not None:
        write_json(path, {"schema_version": SCHEMA, "command": f"memory {command}", **results})
