"""Recorded search spaces: every point that somebody measured, read from files, for searches to be tried on.

Three kinds of JSON are known, each also gzipped: kernel_tuner's cache files, KTT's results, and the T4 format of the
auto-tuning community. Files are read as strangers': what is odd is a `FileError` that says what and where.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from vkernels.ir.errors import ArgumentError, FileError

from .searches.search import FailedPoint, Outcome
from .space import Point, SearchSpace, Value

MAX_RECORDING_BYTES = 1 << 29
"""Of a file's text, at most: a few kilobytes of gzip can hold more than memory does."""
SECONDS = {"Nanoseconds": 1e-9, "Microseconds": 1e-6, "Milliseconds": 1e-3, "Seconds": 1.0}
"""Units of KTT's durations."""
SHORT_SECONDS = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0} | {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
}
"""Units of T4's measurements."""

Row = tuple[dict[str, Value], Outcome]


@dataclass(frozen=True)
class RecordedSpace:
    """A space, and for each of its points the seconds a call or why it failed."""

    name: str
    space: SearchSpace
    outcomes: Mapping[Point, Outcome]

    @cached_property
    def optimum(self) -> float:
        """Seconds of the best point; infinite where all failed."""
        return min((seconds for seconds in self.outcomes.values() if isinstance(seconds, float)), default=float("inf"))

    def measure(self, point: Point) -> Outcome:
        """What was recorded."""
        return self.outcomes[point]


def read_recording(path: Path) -> RecordedSpace:
    """The space in a file. Raises `FileError` where it cannot be read or is none of the known kinds."""
    data = _parse(path, _text(path))
    if not isinstance(data, dict):
        raise FileError(f"{path}: expected an object, got {_shown(data)}")
    readers = {"cache": _kernel_tuner, "Results": _ktt, "results": _t4}
    for key, reader in readers.items():
        if key in data:
            return _recording(path, list(reader(path, data)))
    raise FileError(f"{path}: no recorded space: it has none of {', '.join(readers)}")


def _text(path: Path) -> bytes:
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            text = (gzip.GzipFile(fileobj=raw) if zipped else raw).read(MAX_RECORDING_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: cannot be read: {error}") from None
    if len(text) > MAX_RECORDING_BYTES:
        raise FileError(f"{path}: holds more than {MAX_RECORDING_BYTES >> 20} MiB")
    return text


def _parse(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: no JSON: {error}") from None


def _kernel_tuner(path: Path, data: dict[str, Any]) -> Iterator[Row]:
    """Times in ms, or the name of a failure."""
    names = _object(path, data, "tune_params")
    for key, entry in _object(path, data, "cache").items():
        where = f"{path}: cache: {_shown(key)}"
        if not isinstance(entry, dict):
            raise FileError(f"{where}: expected an object, got {_shown(entry)}")
        time = entry.get("time")
        failed = FailedPoint(time) if isinstance(time, str) else None
        yield _values(where, entry, list(names)), failed or _seconds(where, time, 1e-3)


def _ktt(path: Path, data: dict[str, Any]) -> Iterator[Row]:
    unit = SECONDS.get(str(_object(path, data, "Metadata").get("TimeUnit")))
    if unit is None:
        raise FileError(f"{path}: Metadata: TimeUnit: expected one of {', '.join(SECONDS)}")
    for number, entry in enumerate(_list(path, data, "Results")):
        where = f"{path}: Results: {number}"
        if not isinstance(entry, dict):
            raise FileError(f"{where}: expected an object, got {_shown(entry)}")
        pairs = _list(where, entry, "Configuration")
        if not all(isinstance(pair, dict) and isinstance(pair.get("Name"), str) for pair in pairs):
            raise FileError(f"{where}: Configuration: expected objects with Name and Value")
        named = {pair["Name"]: pair.get("Value") for pair in pairs}
        right = entry.get("Status") == "Ok"
        outcome = _seconds(where, entry.get("TotalDuration"), unit) if right else FailedPoint(str(entry.get("Status")))
        yield _values(where, named, list(named)), outcome


def _t4(path: Path, data: dict[str, Any]) -> Iterator[Row]:
    for number, entry in enumerate(_list(path, data, "results")):
        where = f"{path}: results: {number}"
        if not isinstance(entry, dict):
            raise FileError(f"{where}: expected an object, got {_shown(entry)}")
        named = _object(where, entry, "configuration")
        invalid = entry.get("invalidity", "correct")
        yield (
            _values(where, named, list(named)),
            _t4_seconds(where, entry) if invalid == "correct" else FailedPoint(str(invalid)),
        )


def _t4_seconds(where: str, entry: dict[str, Any]) -> float:
    for measured in _list(where, entry, "measurements"):
        if isinstance(measured, dict) and measured.get("name") == "time":
            unit = SHORT_SECONDS.get(str(measured.get("unit", "ms")))
            if unit is None:
                raise FileError(f"{where}: unit: expected one of {', '.join(SHORT_SECONDS)}")
            return _seconds(where, measured.get("value"), unit)
    raise FileError(f"{where}: no measurement of time")


def _recording(path: Path, rows: list[Row]) -> RecordedSpace:
    if not rows:
        raise FileError(f"{path}: has no points")
    names = list(rows[0][0])
    outcomes: dict[Point, Outcome] = {}
    for number, (values, outcome) in enumerate(rows):
        if set(values) != set(names):
            raise FileError(f"{path}: point {number} has other parameters than the first: {', '.join(values)}")
        outcomes[tuple(values[name] for name in names)] = outcome
    parameters = {name: _ordered([point[at] for point in outcomes]) for at, name in enumerate(names)}
    try:
        return RecordedSpace(
            path.name.removesuffix(".gz").removesuffix(".json"), SearchSpace.of_points(parameters, outcomes), outcomes
        )
    except ArgumentError as error:
        raise FileError(f"{path}: {error}") from None


def _ordered(values: list[Value]) -> list[Value]:
    """Each once: numbers by size, others as they come."""
    distinct = list(dict.fromkeys(values))
    numbers = [value for value in distinct if isinstance(value, (int, float))]
    return [*sorted(numbers)] if len(numbers) == len(distinct) else distinct


def _values(where: str, named: dict[str, Any], names: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in names:
        value = named.get(name, named)
        usable = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value))
        if not usable:
            raise FileError(f"{where}: {name}: expected a value, got {'nothing' if value is named else _shown(value)}")
        found[name] = value
    return found


def _seconds(where: str, value: object, unit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise FileError(f"{where}: expected a time above 0, got {_shown(value)}")
    return float(value) * unit


def _object(where: Path | str, data: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(data.get(key), dict):
        raise FileError(f"{where}: {key}: expected an object, got {_shown(data.get(key))}")
    found: dict[str, Any] = data[key]
    return found


def _list(where: Path | str, data: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(data.get(key), list):
        raise FileError(f"{where}: {key}: expected a list, got {_shown(data.get(key))}")
    found: list[Any] = data[key]
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
