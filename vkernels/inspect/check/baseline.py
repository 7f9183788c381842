"""Baselines of checks: the figures of a run in a file, and what has become worse since."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated

import msgspec
from msgspec import Meta

from vkernels.ir.errors import FileError, SourceRange, at_place
from vkernels.memory.strict_json import Name, Number, Record, Whole, read_json, write_lines

from ..cases import Case, JitCase, KernelSource
from .cells import Cell

FORMAT = "vkernels check baseline"
VERSION = 1
MAX_CELLS, MAX_NAMES = 1 << 20, 200
Text = Annotated[str, Meta(max_length=10_000)]
Key = tuple[str, str, str, tuple[tuple[str, str], ...]]


class BaselineCell(Record, frozen=True):
    """The figures of a kernel on a target. `specialised`: sizes, constants, configuration and strides, as text.

    `registers`: of a thread. `shared`: bytes of a program. `spilled`: bytes of a thread. `bound_seconds`: least time
    of a call. Those that are not known are None.
    """

    kernel: Name
    target: Name
    dtype: Text
    specialised: Annotated[dict[Name, Text], Meta(max_length=MAX_NAMES)]
    fits: bool | None
    registers: Whole | None
    shared: Whole | None
    spilled: Whole | None
    bound_seconds: Number | None

    @property
    def key(self) -> Key:
        """What makes it the same cell in another run."""
        return self.kernel, self.target, self.dtype, tuple(sorted(self.specialised.items()))

    @property
    def shown(self) -> str:
        """The key, as a message shows it."""
        sizes = "".join(f" {name}={value}" for name, value in self.specialised.items())
        return f"{self.kernel} {self.dtype}{sizes} on {self.target}"


class Baseline(Record, frozen=True):
    """All cells of a run, by the Triton version that compiled them."""

    format: Name
    schema_version: Whole
    triton: Name
    cells: Annotated[list[BaselineCell], Meta(max_length=MAX_CELLS)]


def baseline_cell(case: Case, cell: Cell) -> BaselineCell:
    """The figures of a checked case."""
    name = f"{PurePath(case.source.file).as_posix()}:{case.source.name}" if case.source.file else case.source.name
    return BaselineCell(
        name, cell.target, cell.dtype, {key: str(value) for key, value in _specialised(case).items()}, cell.fits,
        cell.registers_per_thread, cell.shared_bytes, cell.spill_bytes, cell.bound_seconds,
    )  # fmt: skip


def _specialised(case: Case) -> Mapping[str, object]:
    if isinstance(case, JitCase):
        own = {f"divisible {name}": 16 for name in case.signature.divisible}
        return {**dict(case.signature.constants), **case.configuration, **own}
    strides = {f"strides {name}": ",".join(map(str, each)) for name, each in case.strides.items()}
    others = {f"dtype {name}": each for name, each in case.dtypes.items() if each != case.dtype}
    deterministic = {"deterministic": True} if case.deterministic else {}
    return {**case.shape, **case.constants, **strides, **others, **deterministic}


def write_baseline(path: Path, cells: Iterable[BaselineCell], triton: str) -> None:
    """Write a baseline, a line for each cell. Raises `FileError` for a path that cannot be written."""
    distinct = {cell.key: cell for cell in cells}.values()
    head = {"format": FORMAT, "schema_version": VERSION, "triton": triton}
    write_lines(path, head, cells=[msgspec.to_builtins(cell) for cell in distinct])


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises `FileError`, with the line, for a file that is none or has another version."""
    if not path.exists():
        raise FileError(f"there is no baseline {path}; --write-baseline {path} makes one")
    document = read_json(path)
    for name, expected in (("format", FORMAT), ("schema_version", VERSION)):
        if not isinstance(document.data, dict) or name not in document.data:
            document.refuse((), f"no baseline of `vk check`: the field {name!r} is missing, expected {expected!r}")
    found = document.convert(Baseline, FORMAT, VERSION)
    seen: set[Key] = set()
    for number, cell in enumerate(found.cells):
        if cell.key in seen:
            document.refuse(("cells", number), f"{cell.kernel} on {cell.target} stands twice")
        seen.add(cell.key)
    return found


@dataclass(frozen=True)
class Regression:
    """What is worse in a cell than in the baseline: `changes`, in words. `place`: of the kernel, if it is known."""

    now: BaselineCell
    changes: tuple[str, ...]
    place: SourceRange | None = None

    @property
    def message(self) -> str:
        """What to tell the author, with the line of the kernel."""
        return at_place(self.place, f"{self.now.shown}: {'; '.join(self.changes)}", kind="regression")


@dataclass(frozen=True)
class Comparison:
    """A run against its baseline. `compared`, `added`, `missing`: numbers of cells in both, only in the run, and only
    in the baseline. `unknown`: of those compared, that fitted and whose result is unknown now. `strangers`: of a run
    that has no cell of the baseline, the first cells of both."""

    regressions: tuple[Regression, ...]
    compared: int
    added: int
    missing: int
    unknown: int
    strangers: tuple[BaselineCell, BaselineCell] | None = None


def compare(baseline: Baseline, run: Sequence[tuple[Case, Cell]], tolerance: float) -> Comparison:
    """Compare a run with its baseline. `tolerance`: per cent by which a figure may grow."""
    before = {cell.key: cell for cell in baseline.cells}
    now = {cell.key: (case, cell, found) for case, found in run for cell in [baseline_cell(case, found)]}
    regressions = []
    for key, (case, cell, found) in now.items():
        changes = tuple(_worse(before[key], cell, found.reason, tolerance)) if key in before else ()
        if changes:
            regressions.append(Regression(cell, changes, kernel_place(case.source)))
    both = before.keys() & now.keys()
    unknown = sum(before[key].fits is not None and now[key][1].fits is None for key in both)
    strangers = None if both or not (before and now) else (baseline.cells[0], next(iter(now.values()))[1])
    return Comparison(tuple(regressions), len(both), len(now) - len(both), len(before) - len(both), unknown, strangers)


_FIGURES = (
    ("registers", "registers per thread", 1.0),
    ("shared", "bytes of shared memory", 1.0),
    ("spilled", "bytes spilled per thread", 1.0),
    ("bound_seconds", "µs least time by the static bound", 1e6),
)


def _worse(before: BaselineCell, now: BaselineCell, reason: str, tolerance: float) -> Iterator[str]:
    if before.fits is True and now.fits is False:
        yield f"does not fit any more: {reason}"
    for name, words, scale in _FIGURES:
        was, is_ = getattr(before, name), getattr(now, name)
        if was is not None and is_ is not None and is_ > was * (1 + tolerance / 100):
            grown = f", +{is_ / was - 1:.1%}" if was else ""
            yield f"{is_ * scale:.6g} {words}, were {was * scale:.6g}{grown}"


@cache
def kernel_place(source: KernelSource) -> SourceRange | None:
    """Where the kernel is defined, by parsing its file; None where that cannot be told."""
    path = source.file
    try:
        if not path:
            spec = importlib.util.find_spec(source.module)
            path = spec.origin if spec is not None and spec.origin is not None else ""
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError, ImportError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == source.name:
            column = node.col_offset + len("def ")
            return SourceRange(path, node.lineno, column, column + len(node.name))
    return None
