"""Traces as JSON files: one tensor or operation per line; docs/memory.md documents the fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from vkernels.ir.errors import TraceError

from .strict_json import Document, Name, Record, read_json, write_lines
from .trace import MemoryTrace, Operation, TracedTensor

FORMAT = "vkernels trace"
VERSION = 2
"""Version 1 had no source lines; it is read as well."""


class TraceFile(Record, frozen=True):
    """The contents of a file."""

    format: str
    schema_version: int
    name: Name
    tensors: tuple[TracedTensor, ...]
    operations: tuple[Operation, ...]


def save(trace: MemoryTrace, path: Path | str) -> None:
    """Write a trace to a `.json` file, compressed if its name ends in `.gz`. Raises as `write_file`."""
    head = {"format": FORMAT, "schema_version": VERSION, "name": trace.name}
    write_lines(path, head, tensors=map(_given, trace.tensors), operations=map(_given, trace.operations))


def load(path: Path | str) -> MemoryTrace:
    """Read a trace that `save` wrote. Raises `FileError` with the line, also for contradictions."""
    document = read_json(path)
    found = document.convert(TraceFile, FORMAT, VERSION, older=(1,))
    return trace_from(document, found.name, found.tensors, found.operations)


def trace_from(
    document: Document,
    name: str,
    tensors: tuple[TracedTensor, ...],
    operations: tuple[Operation, ...],
    fields: Mapping[str | int, str] | None = None,
) -> MemoryTrace:
    """Build a trace from a document, whose names of `fields` may differ. Raises `FileError` for contradictions."""
    try:
        return MemoryTrace(name, tensors, operations)
    except TraceError as error:
        document.refuse(tuple((fields or {}).get(part, part) for part in error.at), error.message)


def _given(part: TracedTensor | Operation) -> dict[str, Any]:
    fields = msgspec.to_builtins(part).items()
    return {name: value for name, value in fields if value is not None and (name, value) != ("source", "")}
