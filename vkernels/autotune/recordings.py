"""Recorded search spaces: all points of a space with their measurements, read from files, to evaluate searches on.

Three kinds of JSON are supported, each also gzipped: kernel_tuner's cache files, KTT's results, and the T4 format of
the auto-tuning community. Invalid files raise `FileError` with the place.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vkernels.ir.errors import ArgumentError, FileError

from .searches.search import FailedPoint, Outcome
from .space import Point, SearchSpace, Value

MAX_RECORDING_BYTES = 1 << 29
"""Maximal size of a file's text: a few kilobytes of gzip can hold more than fits into memory."""
UNITS = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0}
UNITS |= {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

Duration = Annotated[float, Meta(gt=0)]
Row = tuple[Mapping[str, Value], Outcome]


class KernelTunerCache(Struct):
    """Times are in ms, or the name of a failure."""

    tune_params: dict[str, Any]
    cache: dict[str, dict[str, Any]]

    def rows(self) -> Iterator[Row]:
        for key, entry in self.cache.items():
            if missing := self.tune_params.keys() - entry.keys():
                raise msgspec.ValidationError(f"cache: {key!r:.60}: has no {', '.join(missing)}")
            values = msgspec.convert({name: entry[name] for name in self.tune_params}, dict[str, Value])
            time = msgspec.convert(entry.get("time"), str | Duration)
            yield values, FailedPoint(time) if isinstance(time, str) else time * UNITS["ms"]


class _KttMetadata(Struct):
    TimeUnit: Literal["Nanoseconds", "Microseconds", "Milliseconds", "Seconds"]


class _KttParameter(Struct):
    Name: str
    Value: Value


class _KttResult(Struct):
    Configuration: list[_KttParameter]
    Status: str
    TotalDuration: float


class KttFile(Struct):
    """KTT's results."""

    Metadata: _KttMetadata
    Results: list[_KttResult]

    def rows(self) -> Iterator[Row]:
        unit = UNITS[self.Metadata.TimeUnit.lower()]
        for each in self.Results:
            is_timed = each.Status == "Ok" and each.TotalDuration > 0
            outcome = unit * each.TotalDuration if is_timed else FailedPoint(each.Status)
            yield {parameter.Name: parameter.Value for parameter in each.Configuration}, outcome


class _T4Measurement(Struct):
    name: str
    value: Any = None
    unit: str = "ms"


class _T4Result(Struct):
    configuration: dict[str, Value]
    measurements: list[_T4Measurement]
    invalidity: str = "correct"


class T4File(Struct):
    """Results in the T4 format."""

    results: list[_T4Result]

    def rows(self) -> Iterator[Row]:
        for number, each in enumerate(self.results):
            if each.invalidity != "correct":
                yield each.configuration, FailedPoint(each.invalidity)
                continue
            time = next((found for found in each.measurements if found.name == "time"), None)
            if time is None or time.unit not in UNITS:
                raise msgspec.ValidationError(f"results: {number}: no measurement of time in {', '.join(UNITS)}")
            yield each.configuration, UNITS[time.unit] * msgspec.convert(time.value, Duration)


KINDS: dict[str, type[KernelTunerCache | KttFile | T4File]] = {
    "cache": KernelTunerCache, "Results": KttFile, "results": T4File,
}  # fmt: skip


@dataclass(frozen=True)
class RecordedSpace:
    """A space, with the seconds per call or the failure of each point."""

    name: str
    space: SearchSpace
    outcomes: Mapping[Point, Outcome]

    @cached_property
    def optimum(self) -> float:
        """Seconds of the best point; infinite if all failed."""
        return min((seconds for seconds in self.outcomes.values() if isinstance(seconds, float)), default=float("inf"))

    def measure(self, point: Point) -> Outcome:
        """The recorded outcome."""
        return self.outcomes[point]


def read_recording(path: Path) -> RecordedSpace:
    """Read the space in a file. Raises `FileError` if it cannot be read or has an unknown format."""
    try:
        data = msgspec.json.decode(_text(path))
        kind = next((kind for key, kind in KINDS.items() if isinstance(data, dict) and key in data), None)
        if kind is None:
            raise FileError(f"{path}: no recorded space: it is no object with one of {', '.join(KINDS)}")
        return _recording(path, list(msgspec.convert(data, kind).rows()))
    except (msgspec.MsgspecError, ArgumentError, RecursionError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: {error}") from None


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


def _recording(path: Path, rows: list[Row]) -> RecordedSpace:
    if not rows:
        raise FileError(f"{path}: has no points")
    names = list(rows[0][0])
    outcomes: dict[Point, Outcome] = {}
    for number, (values, outcome) in enumerate(rows):
        if set(values) != set(names):
            raise FileError(f"{path}: point {number} has other parameters than the first: {', '.join(values)}")
        outcomes[tuple(values[name] for name in names)] = outcome
    parameters = {name: _sorted({point[at]: None for point in outcomes}) for at, name in enumerate(names)}
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return RecordedSpace(name, SearchSpace.of_points(parameters, outcomes), outcomes)


def _sorted(values: Mapping[Value, None]) -> list[Value]:
    numbers = [value for value in values if isinstance(value, int | float)]
    return [*sorted(numbers)] if len(numbers) == len(values) else [*values]
