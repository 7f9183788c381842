"""Schedules as JSON files: one absence per line. `schedule_check.check` compares one with a trace."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .schedule import Absence, SwapSchedule
from .strict_json import Record, read_json, write_lines

FORMAT = "vkernels schedule"


class ScheduleFile(Record, frozen=True):
    """The contents of a file."""

    format: str
    schema_version: int
    faults: bool
    absences: tuple[Absence, ...]


def save(schedule: SwapSchedule, path: Path | str) -> None:
    """Write a schedule to a `.json` file, compressed if its name ends in `.gz`. Raises as `write_file`."""
    head = {"format": FORMAT, "schema_version": 1, "faults": schedule.faults}
    write_lines(path, head, absences=map(msgspec.to_builtins, schedule.absences))


def load(path: Path | str) -> SwapSchedule:
    """Read a schedule that `save` wrote. Raises `FileError` with the line."""
    found = read_json(path).convert(ScheduleFile, FORMAT)
    return SwapSchedule(found.absences, found.faults)
