"""Calibrations as JSON files, read strictly: errors name the line."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from math import inf, isfinite
from pathlib import Path
from typing import Any

from vkernels.ir.errors import OptionError
from vkernels.ir.write_file import write_file

from .calibration import AccessCosts, AccessRates, Calibration, Managed, Origin
from .links import ANY_SIZE, MemoryMachine
from .strict_json import At, Document, read_json, shown

FORMAT, SCHEMA = "vkernels calibration", 1
WHOLE = ("format", "schema_version", "target", "device", "origin", "machine", "access", "unverified", "sources")
OF_PLANS = ("device_bytes", "host_bytes", "flash_bytes")
"""Fields of a machine that are not part of a calibration: the planner sets them."""
MACHINE = tuple(each.name for each in fields(MemoryMachine) if each.name not in OF_PLANS)
ALWAYS = ("to_host", "from_host", "to_flash", "from_flash", "host_seconds", "flash_seconds")
"""Required figures of a machine."""
WHOLE_BYTES = ("fault_bytes", "at_once", "flash_at_once")
MAX_SOURCES = 100


def save(calibration: Calibration, path: Path | str) -> None:
    """Write a `.json` file. Raises as `write_file`."""
    write_file(path, json.dumps(to_json(calibration), indent=1) + "\n")


def to_json(calibration: Calibration) -> dict[str, Any]:
    """Return the file's contents; an infinite rate is null."""
    machine = {name: _finite(getattr(calibration.machine, name)) for name in MACHINE}
    return {
        "format": FORMAT, "schema_version": SCHEMA, "target": calibration.target, "device": calibration.device,
        "origin": str(calibration.origin), "machine": machine,
        "access": None if calibration.access is None else asdict(calibration.access),
        "unverified": list(calibration.unverified), "sources": dict(calibration.sources),
    }  # fmt: skip


def load(path: Path | str) -> Calibration:
    """Read a calibration that `save` wrote. Raises `FileError` with the line."""
    document = read_json(path)
    whole = document.fields(document.data, (), WHOLE)
    if whole["format"] != FORMAT:
        document.refuse(("format",), f"expected {FORMAT!r}")
    if whole["schema_version"] != SCHEMA or type(whole["schema_version"]) is not int:
        document.refuse(("schema_version",), f"expected {SCHEMA}")
    if whole["origin"] not in list(Origin):
        document.refuse(("origin",), f"expected measured or modelled, got {shown(whole['origin'])}")
    unverified = document.items(whole["unverified"], ("unverified",))
    try:
        return Calibration(
            document.name(whole["target"], ("target",)),
            document.name(whole["device"], ("device",)),
            Origin(whole["origin"]),
            _machine(document, whole["machine"]),
            None if whole["access"] is None else _access(document, whole["access"]),
            tuple(document.name(each, ("unverified", number)) for number, each in enumerate(unverified)),
            _sources(document, whole["sources"]),
        )
    except OptionError as error:
        document.refuse(("access",), str(error))


def _machine(document: Document, data: object) -> MemoryMachine:
    at: At = ("machine",)
    found = document.fields(data, at, ALWAYS, tuple(name for name in MACHINE if name not in ALWAYS))
    read: dict[str, Any] = {}
    for name, value in found.items():
        if name == "shared" and value is None:
            read[name] = None
        elif value is None and name not in ALWAYS:
            read[name] = inf
        else:
            number = document.number(value, (*at, name))
            read[name] = int(number) if name in WHOLE_BYTES else number
    try:
        return MemoryMachine(device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, **read)
    except OptionError as error:
        document.refuse(at, str(error))


def _access(document: Document, data: object) -> AccessCosts:
    at: At = ("access",)
    found = document.fields(data, at, [each.name for each in fields(AccessCosts)])
    read: dict[str, Any] = {}
    for name, value in found.items():
        here = (*at, name)
        if name in ("integrated", "is_cached"):
            read[name] = document.truth(value, here)
        elif name in ("device", "mapped"):
            rates = document.fields(value, here, [each.name for each in fields(AccessRates)])
            read[name] = AccessRates(**{rate: _rate(document, number, (*here, rate)) for rate, number in rates.items()})
        elif name == "managed":
            read[name] = None if value is None else _managed(document, value, here)
        else:
            read[name] = document.number(value, here) if name.endswith("seconds") else _rate(document, value, here)
    return AccessCosts(**read)


def _managed(document: Document, data: object, at: At) -> Managed:
    found = document.fields(data, at, [each.name for each in fields(Managed)])
    read: dict[str, Any] = {}
    for name, value in found.items():
        here = (*at, name)
        if name == "fault_bytes":
            read[name] = document.whole(value, here)
        elif name.endswith("seconds"):
            read[name] = document.number(value, here)
        else:
            read[name] = None if value is None else _rate(document, value, here)
    return Managed(**read)


def _rate(document: Document, value: object, at: At) -> float:
    rate = document.number(value, at)
    return rate if rate > 0 else document.refuse(at, "expected more than 0 bytes a second")


def _sources(document: Document, data: object) -> dict[str, str]:
    if not isinstance(data, dict) or len(data) > MAX_SOURCES:
        document.refuse(("sources",), f"expected an object of at most {MAX_SOURCES} texts")
    return {document.name(name, ("sources",)): document.name(text, ("sources", name)) for name, text in data.items()}


def _finite(value: float | None) -> float | None:
    return value if value is None or isfinite(value) else None
