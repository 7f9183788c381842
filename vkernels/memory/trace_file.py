"""Traces as JSON files: one tensor or operation per line, read strictly; docs/memory.md documents the fields."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vkernels.ir.errors import TraceError
from vkernels.ir.write_file import write_file

from .strict_json import At, Document, read_json
from .trace import MemoryTrace, Operation, TracedTensor

FORMAT, SCHEMA = "vkernels trace", 1


def save(trace: MemoryTrace, path: Path | str) -> None:
    """Write a trace to a `.json` file, compressed if its name ends in `.gz`. Raises as `write_file`."""
    text = "".join(_lines(trace))
    write_file(path, gzip.compress(text.encode(), mtime=0) if Path(path).suffix == ".gz" else text)


def load(path: Path | str) -> MemoryTrace:
    """Read a trace that `save` wrote. Raises `FileError` with the line, also for contradictions."""
    document = read_json(path)
    whole = document.fields(document.data, (), ("format", "schema_version", "name", "tensors", "operations"))
    if whole["format"] != FORMAT:
        document.refuse(("format",), f"expected {FORMAT!r}")
    if whole["schema_version"] != SCHEMA or type(whole["schema_version"]) is not int:
        document.refuse(("schema_version",), f"expected {SCHEMA}")
    name = document.name(whole["name"], ("name",))
    tensors = [
        _tensor(document, data, ("tensors", n)) for n, data in enumerate(document.items(whole["tensors"], ("tensors",)))
    ]
    operations = [
        _operation(document, data, ("operations", n))
        for n, data in enumerate(document.items(whole["operations"], ("operations",)))
    ]
    return made_of(document, name, tensors, operations)


def made_of(document: Document, name: str, tensors: list[TracedTensor], operations: list[Operation]) -> MemoryTrace:
    """Build a trace from a document. Raises `FileError` for contradictions."""
    try:
        return MemoryTrace(name, tuple(tensors), tuple(operations))
    except TraceError as error:
        document.refuse(error.at, error.message)


def _lines(trace: MemoryTrace) -> Iterator[str]:
    head = {"format": FORMAT, "schema_version": SCHEMA, "name": trace.name}
    yield f'{json.dumps(head)[:-1]},\n"tensors": [\n'
    yield ",\n".join(json.dumps(_of_tensor(each)) for each in trace.tensors)
    yield '\n],\n"operations": [\n'
    yield ",\n".join(json.dumps(_of_operation(each)) for each in trace.operations)
    yield "\n]}\n"


def _of_tensor(tensor: TracedTensor) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": tensor.name, "size": tensor.size, "global": tensor.is_global}
    if tensor.freed is not None:
        fields["freed"] = tensor.freed
    if tensor.made is not None:
        fields["made"] = tensor.made
    return fields


def _of_operation(op: Operation) -> dict[str, Any]:
    return {
        "name": op.name, "seconds": op.seconds, "reads": op.reads, "writes": op.writes, "scratch": op.scratch,
    }  # fmt: skip


def _tensor(document: Document, data: object, at: At) -> TracedTensor:
    fields = document.fields(data, at, ("name", "size", "global"), ("freed", "made"))
    moments = {
        name: document.whole(fields[name], (*at, name)) for name in ("freed", "made") if fields.get(name) is not None
    }
    return TracedTensor(
        document.name(fields["name"], (*at, "name")),
        document.whole(fields["size"], (*at, "size")),
        document.truth(fields["global"], (*at, "global")),
        **moments,
    )


def _operation(document: Document, data: object, at: At) -> Operation:
    fields = document.fields(data, at, ("name", "seconds", "reads", "writes", "scratch"))
    used = {
        name: tuple(
            document.whole(each, (*at, name, n)) for n, each in enumerate(document.items(fields[name], (*at, name)))
        )
        for name in ("reads", "writes")
    }
    return Operation(
        document.name(fields["name"], (*at, "name")),
        document.number(fields["seconds"], (*at, "seconds")),
        used["reads"],
        used["writes"],
        document.whole(fields["scratch"], (*at, "scratch")),
    )
