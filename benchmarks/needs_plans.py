"""Random plans of library kernels, and their lowerings: what benchmarks/needs.py compiles."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from rich.console import Console
from xdsl.dialects.builtin import TensorType

from vkernels.compiler.arguments import dense_tensors
from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.compile_gpu import lower_for
from vkernels.compiler.specialise import facts_for, kernel_in
from vkernels.inspect.cases import KernelSource
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.specialisation import SpecialisationRequest, kernel_case, specialise
from vkernels.ir.dialect import DotOp, PhaseOp, ScratchOp, SizeOp, TileOp, WholeOp, axes_of
from vkernels.ir.errors import Error, PlanError
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.bounds import power_above
from vkernels.ir.transforms.split_phases import split_phases
from vkernels.language.samples import CatalogueEntry

SEED = 20261121
MOST_ELEMENTS = 256
"""Elements a thread (of 32 a warp) that a plan's largest tile may have: larger ones take minutes to compile."""
MOST_SCRATCH = 320 << 10
"""Bytes of scratchpad: above what any device has, and not by so much that nobody would try."""

console = Console(highlight=False)


@dataclass(frozen=True)
class Subject:
    """A kernel for its usual arguments. `crossing`: labels of what may have a home; `copyable`: scratchpads.
    `spaces`: axes that a tile has together; `multiplied`: axes of dots' matrices."""

    entry: CatalogueEntry
    preparer: KernelPreparer
    tiles: dict[str, int]
    wholes: dict[str, int]
    crossing: tuple[str, ...]
    copyable: tuple[str, ...]
    stored: frozenset[str]
    spaces: tuple[frozenset[str], ...]
    multiplied: frozenset[str]
    splittable: bool

    @property
    def name(self) -> str:
        shape = ",".join(f"{name}={size}" for name, size in self.entry.shape.items())
        return f"{self.entry.name}({shape})"


def subject_of(entry: CatalogueEntry) -> Subject:
    kernel = getattr(import_module(entry.module), entry.name)
    source, request = KernelSource(entry.name, entry.module), SpecialisationRequest()
    task = specialise(source, kernel.parameters, request, entry.shape, entry.dtype, entry.computed)
    case = kernel_case(task, kernel.parameters, request, entry.dtype)
    preparer = KernelPreparer(kernel, case.shape, case.dtypes, case.scalars, case.constants)
    phases = preparer.module.clone()
    split_phases(phases)
    ops = list(kernel_in(phases).walk())
    wholes = {op.axis.data: _extent(op, case.shape) for op in ops if isinstance(op, WholeOp)}
    results = [r for op in ops if isinstance(op, PhaseOp) for r in op.results_ if set(axes_of(r)) & set(wholes)]
    scratch = [op for op in ops if isinstance(op, ScratchOp)]
    spaces = {frozenset(axes_of(v)) for op in ops for v in op.results if isinstance(v.type, TensorType)}
    return Subject(
        entry, preparer, {op.axis.data: _extent(op, case.shape) for op in ops if isinstance(op, TileOp)}, wholes,
        tuple(dict.fromkeys(r.name_hint for r in results if r.name_hint)), tuple(op.label.data for op in scratch),
        frozenset(str(d) for op in scratch for d in op.result.type.shape), tuple(spaces),
        frozenset(axis for op in ops if isinstance(op, DotOp) for axis in _matrix_axes(op)), not scratch,
    )  # fmt: skip


def _matrix_axes(op: DotOp) -> set[str]:
    """All but those of a batch."""
    left, right = set(axes_of(op.left)), set(axes_of(op.right))
    return left ^ right | {op.axis.data}


def _extent(op: TileOp | WholeOp, sizes: Mapping[str, int]) -> int:
    return sizes[op.extent.owner.size.data] if isinstance(op.extent.owner, SizeOp) else 64


def random_plan(subject: Subject, rng: random.Random) -> Plan:
    """Any plan in powers of two whose largest tile is not beyond `MOST_ELEMENTS` a thread."""
    warps = rng.choice((1, 2, 4, 4, 8, 8, 16))
    sizes: dict[str, int] = {}
    for _ in range(1000):
        sizes = _random_sizes(subject, rng)
        if 1 <= _largest(subject, sizes) / (32 * warps) <= MOST_ELEMENTS:
            break
    tiles = {axis: sizes[axis] for axis in subject.tiles}
    chunks = {axis: sizes[axis] for axis in subject.wholes}
    chunked = [axis for axis, extent in subject.wholes.items() if chunks[axis] < extent]
    homes = {label: rng.choice(list(Home)[1:]) for label in subject.crossing if chunked and rng.random() < 0.6}
    copies = tuple(label for label in subject.copyable if rng.random() < 0.5)
    splits = {}
    if subject.splittable and len(chunked) == 1 and not subject.multiplied and rng.random() < 0.15:
        homes, splits = {}, {chunked[0]: 4}
    lanes = rng.choice([*tiles, *chunks]) if rng.random() < 0.2 else _lanes(subject)
    stages = rng.choice((1, 2, 3, 4)) if subject.multiplied else rng.choice((1, 1, 1, 3))
    return Plan(tiles, chunks, homes, copies, splits, lanes=lanes, warps=warps, stages=stages)


def _random_sizes(subject: Subject, rng: random.Random) -> dict[str, int]:
    axes = subject.tiles | subject.wholes
    if not subject.multiplied:
        sizes = {axis: 1 << rng.randint(0, min(13, _log(extent))) for axis, extent in axes.items()}
    else:
        most = {axis: 8 if axis in subject.tiles else 7 for axis in axes}
        least = {axis: 4 if axis in subject.multiplied else 0 for axis in axes}
        sizes = {a: 1 << rng.randint(min(least[a], _log(e)), min(most[a], _log(e))) for a, e in axes.items()}
        sizes |= {axis: 1 for axis in axes if axis not in subject.multiplied and rng.random() < 0.7}
    for axis, extent in subject.wholes.items():
        if extent <= 1 << 13 and axis not in subject.multiplied | subject.stored and rng.random() < 0.3:
            sizes[axis] = power_above(extent)
    return sizes


def _largest(subject: Subject, sizes: Mapping[str, int]) -> int:
    """Elements of the largest tile."""
    return max(math.prod(sizes[axis] for axis in space if axis in sizes) for space in subject.spaces)


def _log(number: int) -> int:
    return power_above(number).bit_length() - 1


def _lanes(subject: Subject) -> str:
    return [*subject.tiles, *subject.wholes][-1] if not subject.multiplied else [*subject.tiles][-1]


def plans_of(subject: Subject, count: int) -> Iterator[tuple[Plan, list[tuple[str, str, GpuOptions]]]]:
    """The first `count` random plans that the kernel can have, each with name, text and options of its launches."""
    rng = random.Random(f"{SEED} {subject.name}")
    found = 0
    for _ in range(40 * count):
        plan = random_plan(subject, rng)
        try:
            launches = lowered(subject, plan)
        except PlanError:
            continue
        except Error as error:
            console.print(f"[yellow]{subject.name}: {error}")
            continue
        if any(options.scratch_bytes > MOST_SCRATCH for _, _, options in launches):
            continue
        yield plan, launches
        found += 1
        if found == count:
            return


def lowered(subject: Subject, plan: Plan) -> list[tuple[str, str, GpuOptions]]:
    """Name, text and options of each launch. Raises `PlanError` where the kernel cannot have the plan."""
    preparer = subject.preparer
    crossing = any(home in (Home.SHARED, Home.MEMORY) for home in plan.homes.values())
    for exact in (crossing, True):
        facts = facts_for(
            kernel_in(preparer.module), plan, preparer.sizes,
            dense_tensors(preparer.kernel, preparer.sizes, preparer.dtypes), exact, True,
        )  # fmt: skip
        try:
            lowering = lower_for(preparer.module, plan, facts)
        except PlanError:
            if exact:
                raise
            continue
        names = [launch.name for launch in lowering.lowered.launches]
        return [(n, job.text, job.options) for n, job in zip(names, lowering.jobs(""), strict=True)]
    raise AssertionError("one of two returned or raised")
