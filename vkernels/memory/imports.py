"""Import foreign traces and allocation problems: G10's training steps, MiniMalloc's CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vkernels.ir.errors import FileError

from .strict_json import At, Document, read_json, read_text, shown
from .trace import MAX_SIZE, Lifetime, MemoryTrace, Operation, TracedTensor
from .trace_file import made_of

COLUMNS = ("id", "lower", "upper", "size")
G10_FIELDS = ("model", "batch", "clock_hz", "tensors", "kernels")
G10_MORE = ("defaults", "published_fraction_of_ideal")


@dataclass(frozen=True)
class Problem:
    """Blocks to be given offsets, over `count` moments, within `capacity` bytes (None: as few as can be)."""

    name: str
    blocks: tuple[Lifetime, ...]
    count: int
    capacity: int | None = None


def read_g10(path: Path | str) -> MemoryTrace:
    """A training step in the JSON that the data from G10's artifact is kept in: kernels' cycles at a clock, tensors.

    Weights are global. Raises `FileError` with the line.
    """
    document = read_json(path)
    whole = document.fields(document.data, (), G10_FIELDS, G10_MORE)
    clock = document.number(whole["clock_hz"], ("clock_hz",))
    if clock < 1:
        document.refuse(("clock_hz",), "expected cycles a second")
    model, batch = document.name(whole["model"], ("model",)), document.whole(whole["batch"], ("batch",))
    tensors = [_g10_tensor(document, data, n) for n, data in enumerate(document.items(whole["tensors"], ("tensors",)))]
    kernels = document.items(whole["kernels"], ("kernels",))
    operations = [_g10_kernel(document, data, ("kernels", n), clock, len(tensors)) for n, data in enumerate(kernels)]
    return made_of(document, f"{model} {batch}", tensors, operations)


def read_minimalloc(path: Path | str) -> Problem:
    """A CSV of blocks: `id,lower,upper,size`, `upper` exclusive; the capacity is the number in a name `X.N.csv`.

    Moments are numbered anew, without those at which nothing begins or ends. Raises `FileError` with the line.
    """
    path = Path(path)
    rows = [line.split(",") for line in read_text(path).splitlines()]
    if not rows or tuple(rows[0]) != COLUMNS:
        raise FileError(f"{path}:1: expected the columns {','.join(COLUMNS)}")
    numbers = [_csv_row(row, f"{path}:{n}") for n, row in enumerate(rows[1:], 2)]
    if not numbers:
        raise FileError(f"{path}:1: there are no blocks")
    moments = sorted({each for lower, upper, _ in numbers for each in (lower, upper)})
    number = {moment: n for n, moment in enumerate(moments)}
    blocks = tuple(Lifetime(number[lower], number[upper], size) for lower, upper, size in numbers)
    named = re.fullmatch(r"(.*)\.([0-9]{1,18})", path.stem)
    return Problem(
        named[1] if named else path.stem, blocks, len(moments) - 1, int(named[2]) if named else None
    )  # fmt: skip


def _csv_row(row: list[str], where: str) -> tuple[int, int, int]:
    """Lower, upper and size of a row."""
    if len(row) != len(COLUMNS):
        raise FileError(f"{where}: expected {len(COLUMNS)} values, got {len(row)}")
    for name, text in zip(COLUMNS[1:], row[1:], strict=True):
        if not re.fullmatch("[0-9]{1,18}", text) or int(text) > MAX_SIZE:
            raise FileError(f"{where}: {name}: expected a whole number from 0, got {shown(text)}")
    lower, upper, size = map(int, row[1:])
    if lower >= upper:
        raise FileError(f"{where}: it ends at {upper}, and begins at {lower}")
    return lower, upper, size


def _g10_tensor(document: Document, data: object, index: int) -> TracedTensor:
    at = ("tensors", index)
    fields = document.fields(data, at, ("id", "bytes", "weight"))
    if document.whole(fields["id"], (*at, "id")) != index:
        document.refuse((*at, "id"), f"expected {index}: ids count from 0")
    size = document.whole(fields["bytes"], (*at, "bytes"))
    return TracedTensor(f"tensor {index}", size, document.truth(fields["weight"], (*at, "weight")))


def _g10_kernel(document: Document, data: object, at: At, clock: float, tensors: int) -> Operation:
    fields = document.fields(data, at, ("name", "cycles", "inputs", "outputs", "workspace"))
    return Operation(
        document.name(fields["name"], (*at, "name")),
        document.whole(fields["cycles"], (*at, "cycles")) / clock,
        _g10_used(document, fields, "inputs", at, tensors),
        _g10_used(document, fields, "outputs", at, tensors),
        document.whole(fields["workspace"], (*at, "workspace")),
    )


def _g10_used(document: Document, fields: Any, field: str, at: At, tensors: int) -> tuple[int, ...]:
    found = document.items(fields[field], (*at, field))
    used = tuple(document.whole(each, (*at, field, n), tensors - 1) for n, each in enumerate(found))
    if len(set(used)) < len(used):
        document.refuse((*at, field), "a tensor stands twice")
    return used
