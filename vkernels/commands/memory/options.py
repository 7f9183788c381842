"""Parse sizes, rates, machines and traces of the `vk memory` commands; print and write their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from vkernels.ir.errors import FileError, OptionError
from vkernels.memory import trace_file
from vkernels.memory.byte_sizes import parse_size
from vkernels.memory.calibration_file import load
from vkernels.memory.imports import Problem, read_g10, read_minimalloc
from vkernels.memory.links import G10, MemoryMachine
from vkernels.memory.snapshots import SUFFIXES, RecordedHistory, read_snapshot
from vkernels.memory.strict_json import read_json
from vkernels.memory.trace import MemoryTrace

from ..results import STANDARD_OUTPUT, write_json

SCHEMA = 1
MachineOptions: TypeAlias = "tuple[str, str, str | None, str | None, Path | None]"
"""--host, --flash, --link, --flash-link and --calibration."""


def size_from(text: str, option: str) -> int:
    """Parse a size such as `40GiB`, `2.5 GB` or `4096`. Raises `OptionError`."""
    size = parse_size(text)
    if size is None:
        raise OptionError(f"{option}: expected a size such as 40GiB, 40GB or 4096, got {text!r}")
    return size


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

    Rates given as options override the calibration; the defaults are G10's (MICRO 2023). Raises `OptionError`, and
    `FileError` for the calibration.
    """
    device_bytes, host_bytes = size_from(device, "--device"), size_from(host, "--host")
    flash_bytes = inf if flash == "unlimited" else size_from(flash, "--flash")
    rates: dict[str, Any] = {}
    for tier, text, option in (("host", link, "--link"), ("flash", flash_link, "--flash-link")):
        if text is not None:
            rates[f"to_{tier}"] = rates[f"from_{tier}"] = rate_from(text, option)
    if calibration is not None:
        return replace(load(calibration).with_sizes(device_bytes, host_bytes, flash_bytes), **rates)
    machine = replace(G10, device_bytes=device_bytes, host_bytes=host_bytes, flash_bytes=flash_bytes, shared=None)
    machine = replace(machine, **rates)
    return replace(machine, shared=machine.to_host if machine.to_host > machine.to_flash else None)


def read_problem(path: Path, capacity: str | None) -> Problem | RecordedHistory | None:
    """Read MiniMalloc's CSV or a snapshot of torch's allocator, by the file's name; None for others.

    `capacity`: the text of `--device`, instead of that in the file's name. Raises `FileError` with the line, and
    `OptionError`.
    """
    size = None if capacity is None else size_from(capacity, "--device")
    if path.suffix == ".csv":
        problem = read_minimalloc(path)
        return problem if size is None else replace(problem, capacity=size)
    if path.suffix in SUFFIXES:
        history = read_snapshot(path)
        return replace(history, problem=replace(history.problem, capacity=size))
    return None


def read_trace(path: Path) -> MemoryTrace:
    """Read a vkernels trace or one of G10's. Raises `FileError` with the line."""
    if path.suffix == ".csv" or path.suffix in SUFFIXES:
        raise FileError(f"{path}: it has blocks but no operations; `vk memory plan` places them")
    data = read_json(path).data
    is_g10 = isinstance(data, dict) and "format" not in data and "kernels" in data
    return read_g10(path) if is_g10 else trace_file.load(path)


def console_for(json: Path | None) -> Console:
    """Return the console for text output."""
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
