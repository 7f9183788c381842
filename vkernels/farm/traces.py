"""Traces of jobs and of nodes as CSV files, compressed if their names end in `.gz`; docs/farm.md has their columns."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from vkernels.ir.errors import FileError
from vkernels.memory.strict_json import read_text

from .jobs import Job

JOBS = ("arrival", "seconds", "cores", "user", "family", "shape", "gain")
GENTD26 = (
    "gmt_create", "predict_type", "predict_status", "exec_time_seconds", "groupId", "prompt_length",
    "negative_prompt_length", "num_images_per_prompt", "num_inference_steps", "checkpoint_model_version_id", "num_lora",
)  # fmt: skip
GENTD26_KIND = (
    "predict_type",
    "num_images_per_prompt",
    "num_inference_steps",
    "checkpoint_model_version_id",
    "num_lora",
)
STATES = ("SUCCEED", "FAILED", "PENDING", "PROCESSING")
NODES = ("time", "active", "total")
MOST_SECONDS = 1e12


@dataclass(frozen=True)
class NodeCount:
    """Nodes at work and all nodes, at a time in seconds since 1970."""

    time: float
    active: int
    total: int


def read_jobs(path: Path | str) -> tuple[Job, ...]:
    """Read jobs, in order of arrival: our own columns (`JOBS`), or those of Alibaba's GenTD26.

    Requests of GenTD26 that did not succeed are left out. Raises `FileError` with the line.
    """
    header, rows = _read(Path(path), (JOBS, GENTD26))
    if header == JOBS:
        jobs = [_job(row) for row in rows]
    else:
        jobs = [job for row in rows if (job := _request(row)) is not None]
    if not jobs:
        raise FileError(f"{path}: the trace has no job")
    return tuple(sorted(jobs, key=lambda job: job.arrival))


def read_nodes(path: Path | str) -> tuple[NodeCount, ...]:
    """Read numbers of nodes over time. Raises `FileError` with the line, also where times do not rise."""
    counts: list[NodeCount] = []
    for row in _read(Path(path), (NODES,))[1]:
        count = NodeCount(row.time("time"), row.whole("active", 0), row.whole("total", 1))
        if count.active > count.total:
            row.refuse("active", f"{count.active} nodes of {count.total}")
        if counts and count.time <= counts[-1].time:
            row.refuse("time", "times must rise")
        counts.append(count)
    if not counts:
        raise FileError(f"{path}: the trace has no row")
    return tuple(counts)


@dataclass(frozen=True)
class _Row:
    path: Path
    line: int
    fields: Mapping[str, str]

    def refuse(self, column: str, message: str) -> NoReturn:
        raise FileError(f"{self.path}:{self.line}: {column}: {message}")

    def number(self, column: str, is_positive: bool = False) -> float:
        text = self.fields[column]
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0 <= found <= MOST_SECONDS or (is_positive and not found):
            self.refuse(column, f"expected a {'positive number' if is_positive else 'number'}, got {text[:60]!r}")
        return found

    def whole(self, column: str, least: int) -> int:
        text = self.fields[column]
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= least):
            self.refuse(column, f"expected a whole number from {least} on, got {text[:60]!r}")
        return int(text)

    def name(self, column: str) -> str:
        text = self.fields[column]
        if len(text) > 1000 or not text.isprintable():
            self.refuse(column, f"expected a printable text, got {text[:60]!r}")
        return text

    def time(self, column: str) -> float:
        text = self.fields[column]
        try:
            return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        except ValueError:
            self.refuse(column, f"expected a time such as 2017-10-03 00:01:00, got {text[:60]!r}")


def _read(path: Path, known: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], Iterator[_Row]]:
    """The header, which must be one of the known, and the rows."""
    lines = csv.reader(read_text(path).splitlines(keepends=True), strict=True)
    try:
        header = tuple(next(lines, ()))
    except csv.Error as error:
        raise FileError(f"{path}:1: not CSV: {error}") from None
    if header not in known:
        expected = " or ".join(",".join(names) for names in known)
        raise FileError(f"{path}:1: expected the columns {expected}, got {','.join(header)[:200]!r}")
    return header, _rows(path, lines, header)


def _rows(path: Path, lines: Iterator[list[str]], header: tuple[str, ...]) -> Iterator[_Row]:
    line = 1
    while True:
        line += 1
        try:
            fields = next(lines, None)
        except csv.Error as error:
            raise FileError(f"{path}:{line}: not CSV: {error}") from None
        if fields is None:
            return
        if len(fields) != len(header):
            raise FileError(f"{path}:{line}: expected {len(header)} fields, got {len(fields)}")
        yield _Row(path, line, dict(zip(header, fields, strict=True)))


def _job(row: _Row) -> Job:
    return Job(
        row.number("arrival"),
        row.number("seconds", is_positive=True),
        row.name("user"),
        (row.name("family"), row.name("shape")),
        row.whole("cores", 1),
        row.number("gain", is_positive=True),
    )


def _request(row: _Row) -> Job | None:
    state = row.fields["predict_status"]
    if state not in STATES:
        row.refuse("predict_status", f"expected {', '.join(STATES)}, got {state[:60]!r}")
    if state != "SUCCEED":
        return None
    seconds = row.number("exec_time_seconds", is_positive=True)
    return Job(row.time("gmt_create"), seconds, row.name("groupId"), tuple(map(row.name, GENTD26_KIND)))
