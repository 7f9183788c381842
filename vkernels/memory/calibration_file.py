"""Calibrations as JSON files."""

from __future__ import annotations

import json
from dataclasses import fields
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from vkernels.ir.errors import OptionError
from vkernels.ir.write_file import write_file

from .calibration import AccessCosts, Calibration, Origin
from .links import ANY_SIZE, MemoryMachine
from .strict_json import Name, Number, Record, read_json

SIZES = ("device_bytes", "host_bytes", "flash_bytes")
"""Fields of a machine that are not part of a calibration: the planner sets them."""
MACHINE = tuple(each.name for each in fields(MemoryMachine) if each.name not in SIZES)
REQUIRED = ("to_host", "from_host", "to_flash", "from_flash", "host_seconds", "flash_seconds")
WHOLE_BYTES = ("fault_bytes", "translation_bytes", "at_once", "flash_at_once")
LINKS = ("shared", "host_to_flash", "flash_to_host")
"""Links that a machine may lack."""
MachineFigures = msgspec.defstruct(
    "MachineFigures",
    [(name, Number) if name in REQUIRED else (name, Number | None | UnsetType, UNSET) for name in MACHINE],
    bases=(Record,),
    kw_only=True,
)
"""Figures of a machine; null is an infinite rate, or one of the `LINKS` that is not there."""

FORMAT = "vkernels calibration"


class CalibrationFile(Record, frozen=True):
    """The contents of a file."""

    format: str
    schema_version: int
    target: Name
    device: Name
    origin: Origin
    machine: MachineFigures  # type: ignore[valid-type]
    access: AccessCosts | None
    unverified: tuple[Name, ...]
    sources: Annotated[dict[Name, Name], Meta(max_length=100)]


def save(calibration: Calibration, path: Path | str) -> None:
    """Write a `.json` file. Raises as `write_file`."""
    write_file(path, json.dumps(to_json(calibration), indent=1) + "\n")


def to_json(calibration: Calibration) -> dict[str, Any]:
    """Return the file's contents; an infinite rate is null."""
    machine = {name: getattr(calibration.machine, name) for name in MACHINE}
    found: dict[str, Any] = msgspec.to_builtins({
        "format": FORMAT, "schema_version": 1,
        "target": calibration.target, "device": calibration.device, "origin": calibration.origin,
        "machine": {name: value if value is None or isfinite(value) else None for name, value in machine.items()},
        "access": calibration.access, "unverified": calibration.unverified, "sources": calibration.sources,
    })  # fmt: skip
    return found


def load(path: Path | str) -> Calibration:
    """Read a calibration that `save` wrote. Raises `FileError` with the line."""
    document = read_json(path)
    found = document.convert(CalibrationFile, FORMAT)
    figures: dict[str, Any] = {}
    for name in MACHINE:
        value = getattr(found.machine, name)
        if value is None and name not in LINKS:
            value = inf
        if value is not UNSET:
            figures[name] = int(value) if name in WHOLE_BYTES else value
    try:
        machine = MemoryMachine(device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, **figures)
    except OptionError as error:
        document.refuse(("machine",), str(error))
    return Calibration(
        found.target, found.device, found.origin, machine, found.access, found.unverified, found.sources
    )  # fmt: skip
