"""Schedules as JSON files: one absence a line, read strictly. Whether one fits a trace, `schedule_check.check` says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from vkernels.ir.write_file import write_file

from .links import Tier
from .schedule import Absence, SwapSchedule
from .strict_json import At, Document, read_json, shown

FORMAT, SCHEMA = "vkernels schedule", 1
FIELDS = ("tensor", "tier", "copy", "leave", "back", "next")
MAX_OPERATION_NUMBER = 1 << 40
"""Operations from the first, either way."""


def save(schedule: SwapSchedule, path: Path | str) -> None:
    """Write a schedule to a `.json` file, compressed if its name ends in `.gz`. Raises as `write_file`."""
    head = json.dumps({"format": FORMAT, "schema_version": SCHEMA, "faults": schedule.faults})
    lines = (json.dumps({name: getattr(each, name) for name in FIELDS}) for each in schedule.absences)
    text = f'{head[:-1]},\n"absences": [\n' + ",\n".join(lines) + "\n]}\n"
    write_file(path, gzip.compress(text.encode(), mtime=0) if Path(path).suffix == ".gz" else text)


def load(path: Path | str) -> SwapSchedule:
    """Read a schedule that `save` wrote. Raises `FileError` with the line."""
    document = read_json(path)
    whole = document.fields(document.data, (), ("format", "schema_version", "faults", "absences"))
    if whole["format"] != FORMAT:
        document.refuse(("format",), f"expected {FORMAT!r}")
    if whole["schema_version"] != SCHEMA or type(whole["schema_version"]) is not int:
        document.refuse(("schema_version",), f"expected {SCHEMA}")
    items = document.items(whole["absences"], ("absences",))
    absences = tuple(_absence(document, data, ("absences", n)) for n, data in enumerate(items))
    return SwapSchedule(absences, document.truth(whole["faults"], ("faults",)))


def _absence(document: Document, data: object, at: At) -> Absence:
    fields = document.fields(data, at, FIELDS)
    if fields["tier"] not in list(Tier):
        document.refuse((*at, "tier"), f"expected host or flash, got {shown(fields['tier'])}")
    copy = fields["copy"]
    if copy is not None and (type(copy) is not int or abs(copy) > MAX_OPERATION_NUMBER):
        document.refuse((*at, "copy"), f"expected a whole number or null, got {shown(copy)}")
    moments = {
        name: document.whole(fields[name], (*at, name), MAX_OPERATION_NUMBER) for name in ("leave", "back", "next")
    }
    tensor = document.whole(fields["tensor"], (*at, "tensor"), MAX_OPERATION_NUMBER)
    return Absence(tensor, Tier(fields["tier"]), copy, **moments)
