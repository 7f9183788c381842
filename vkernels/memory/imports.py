"""Import foreign traces and allocation problems: G10's training steps, MiniMalloc's CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vkernels.ir.errors import FileError
from vkernels.ir.write_file import write_file

from .strict_json import Name, Record, Whole, read_json, read_text
from .trace import Lifetime, MemoryTrace, Operation, TracedTensor
from .trace_file import trace_from

COLUMNS = ("id", "lower", "upper", "size")
OFFSET = "offset"


@dataclass(frozen=True)
class Problem:
    """Blocks that need offsets, over `count` moments, within `capacity` bytes (None: as few as possible).

    `names`: of the blocks, for people.
    """

    name: str
    blocks: tuple[Lifetime, ...]
    count: int
    capacity: int | None = None
    names: tuple[str, ...] = field(default=(), compare=False)

    def name_of(self, number: int) -> str:
        """The name of a block."""
        return self.names[number] if self.names else f"block {number}"


class G10Tensor(Record, frozen=True):
    """A tensor; weights are global."""

    id: Whole
    bytes: Whole
    weight: bool


class G10Kernel(Record, frozen=True):
    """An operation; inputs and outputs are ids of tensors."""

    name: Name
    cycles: Whole
    inputs: tuple[Whole, ...]
    outputs: tuple[Whole, ...]
    workspace: Whole


class G10Step(Record, frozen=True):
    """A training step of G10's artifact, at a clock in cycles a second."""

    model: Name
    batch: Whole
    clock_hz: Annotated[float, Meta(ge=1, le=1e30)]
    tensors: tuple[G10Tensor, ...]
    kernels: tuple[G10Kernel, ...]
    defaults: Any = None
    published_fraction_of_ideal: Any = None


G10_FIELDS: dict[str | int, str] = {
    "operations": "kernels",
    "size": "bytes",
    "seconds": "cycles",
    "reads": "inputs",
    "writes": "outputs",
}
"""Names of a trace's fields in these files."""


def read_g10(path: Path | str) -> MemoryTrace:
    """Read a training step from G10's artifact, converted to JSON. Raises `FileError` with the line."""
    document = read_json(path)
    step = document.convert(G10Step)
    for index, each in enumerate(step.tensors):
        if each.id != index:
            document.refuse(("tensors", index, "id"), f"expected {index}: ids count from 0")
    tensors = tuple(TracedTensor(f"tensor {each.id}", each.bytes, each.weight) for each in step.tensors)
    operations = tuple(
        Operation(each.name, each.cycles / step.clock_hz, each.inputs, each.outputs, each.workspace)
        for each in step.kernels
    )
    return trace_from(document, f"{step.model} {step.batch}", tensors, operations, G10_FIELDS)


def read_minimalloc(path: Path | str) -> Problem:
    """Read a CSV of blocks: `id,lower,upper,size`, `upper` exclusive; the capacity is the number in a name `X.N.csv`.

    A column `offset` is ignored. Moments are renumbered without those at which nothing begins or ends. Raises
    `FileError` with the line.
    """
    path = Path(path)
    rows = _rows(path)
    numbers: list[tuple[int, int, int]] = []
    names: list[str] = []
    for line, row in enumerate(rows, 2):
        try:
            name, lower, upper, size = msgspec.convert(row[:4], tuple[Name, Whole, Whole, Whole], strict=False)
        except msgspec.ValidationError as error:
            raise FileError(f"{path}:{line}: {error}") from None
        if lower >= upper:
            raise FileError(f"{path}:{line}: it ends at {upper}, and begins at {lower}")
        numbers.append((lower, upper, size))
        names.append(name)
    if not numbers:
        raise FileError(f"{path}:1: there are no blocks")
    moments = sorted({each for lower, upper, _ in numbers for each in (lower, upper)})
    number = {moment: n for n, moment in enumerate(moments)}
    blocks = tuple(Lifetime(number[lower], number[upper], size) for lower, upper, size in numbers)
    named = re.fullmatch(r"(.*)\.([0-9]{1,18})", path.stem)
    name, capacity = (named[1], int(named[2])) if named else (path.stem, None)
    return Problem(name, blocks, len(moments) - 1, capacity, tuple(names))


def write_minimalloc(source: Path | str, path: Path | str, offsets: Sequence[int]) -> None:
    """Write the rows of `source`, which `read_minimalloc` reads, with a column `offset`. Raises as `write_file`."""
    rows = [",".join((*COLUMNS, OFFSET))]
    rows += [",".join((*row[:4], str(offset))) for row, offset in zip(_rows(Path(source)), offsets, strict=True)]
    write_file(path, "\n".join(rows) + "\n")


def _rows(path: Path) -> list[list[str]]:
    """The rows below the header."""
    rows = [line.split(",") for line in read_text(path).splitlines()]
    if not rows or tuple(rows[0]) not in (COLUMNS, (*COLUMNS, OFFSET)):
        raise FileError(f"{path}:1: expected the columns {','.join(COLUMNS)}")
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(rows[0]):
            raise FileError(f"{path}:{line}: expected {len(rows[0])} columns, got {len(row)}")
    return rows[1:]
