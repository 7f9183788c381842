"""Needs against binaries: random plans of the library's kernels, compiled for many GPUs that need not be here.

    python benchmarks/needs.py collect RECORDS.jsonl [--plans 20] [--only softmax] [--workers 2]
    python benchmarks/needs.py judge RECORDS.jsonl … [--wrong]

`collect` appends what each binary takes to a file of one JSON object a line and may be stopped and begun again: what
is there, or in the compile cache, is not compiled anew. `judge` compares with what `annotate_needs` predicts: whether
the plan fits the device, and in which order plans use registers.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from xdsl.dialects.builtin import TensorType

from vkernels.compiler.arguments import dense_tensors
from vkernels.compiler.backends.resources import amd, nvidia
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.compiler.compile_gpu import lower_for
from vkernels.compiler.specialise import facts_for, kernel_in
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileJob
from vkernels.inspect.cases import KernelSource
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.specialisation import SpecialisationRequest, kernel_case, specialise
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.analysis.needs.needs import SPILL_ALLOWANCE
from vkernels.ir.dialect import DotOp, PhaseOp, ScratchOp, SizeOp, TileOp, WholeOp, axes_of
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.bounds import power_above
from vkernels.ir.transforms.split_phases import split_phases
from vkernels.library.catalogue import CATALOGUE, CatalogueEntry
from vkernels.targets import known_targets, limits_of

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx1100")
SEED = 20261121
MOST_ELEMENTS = 256
"""Elements a thread (of 32 a warp) that a plan's largest tile may have: larger ones take minutes to compile."""
MOST_SCRATCH = 320 << 10
"""Bytes of scratchpad: above what any device has, and not by so much that nobody would try."""

console = Console(highlight=False)
app = typer.Typer(add_completion=False)


# Random plans


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


# What binaries take


def taken(binary: Binary) -> dict[str, int]:
    """Registers and stack bytes a thread, shared bytes a program, as the binary's own tables say."""
    if binary.architecture.startswith("sm_"):
        facts = nvidia.facts_of(binary.code, binary.name, binary.architecture)
        registers, stack, static = facts.registers, facts.stack, facts.static_shared
    else:
        table = amd.table_of(binary.assembly, binary.name)
        registers, stack, static = table.registers, table.stack, table.static_shared
    return {
        "registers": registers, "stack": stack, "shared": static + binary.shared, "threads": binary.threads,
        "tensor_memory": binary.tensor_memory,
    }  # fmt: skip


def plan_as_json(plan: Plan) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(plan)))  # type: ignore[no-any-return]


def plan_from_json(value: Mapping[str, Any]) -> Plan:
    lists = {key: tuple(value[key]) for key in ("copies", "packs", "streams", "order")}
    homes = {label: Home(home) for label, home in value["homes"].items()}
    known = set(Plan.__dataclass_fields__)
    return Plan(**{k: v for k, v in {**value, **lists, "homes": homes}.items() if k in known})


@app.command()
def collect(
    records: Path,
    plans: int = 20,
    only: str = "",
    workers: int = 2,
    architectures: Annotated[str, typer.Option(help="comma-separated")] = ",".join(ARCHITECTURES),
) -> None:
    """Compile and append to RECORDS; a plan after another of every kernel, so that it can be stopped at any time."""
    have = set()
    if records.exists():
        have = {_key(json.loads(line)) for line in records.read_text().splitlines()}
    subjects = [subject_of(entry) for entry in CATALOGUE if not only or only in (entry.name, entry.family)]
    streams = {subject.name: plans_of(subject, plans) for subject in subjects}
    with CompilePool(workers, seconds=90) as pool, records.open("a") as file:
        for number in range(plans):
            for name, stream in streams.items():
                pair = next(stream, None)
                if pair is None:
                    continue
                plan, launches = pair
                wanted = [a for a in architectures.split(",") if (name, number, a) not in have]
                for record in _compiled(name, number, plan, launches, wanted, pool):
                    file.write(json.dumps(record) + "\n")
                file.flush()
            console.print(f"plan {number + 1} of {plans}")


# Judging


FITTED_ON = ("sm_80", "gfx942")
HELD_OUT = ("mlp", "attention", "segment_sum", "csr_matmul", "cumulative_sum", "stencil")
"""Families of kernels that constants were not fitted on; those of others on `FITTED_ON` alone."""


@dataclass(frozen=True)
class Judged:
    """One plan of a kernel on one architecture: what was predicted, and what the binaries say.

    `need`: registers of the worst launch, and 4-byte words that it spills. `fits`: whether shared memory, tensor memory
    and threads are within limits and a thread spills no more than `SPILLED` bytes; `fits_without`: no byte at all.
    """

    kernel: str
    family: str
    architecture: str
    predicted: float
    need: float
    spilled: int
    predicted_fit: bool
    fits: bool
    fits_without: bool
    shared_right: bool

    @property
    def is_held_out(self) -> bool:
        return self.family in HELD_OUT or self.architecture not in FITTED_ON


def judged(lines: Iterable[str]) -> Iterator[Judged]:
    """Records whose launches all compiled, each plan once, with what needs predict of them."""
    subjects = {subject.name: subject for subject in map(subject_of, CATALOGUE)}
    limits: dict[str, Limits] = {}
    for target in known_targets().values():
        limits.setdefault(target.architecture, limits_of(target))
    seen = set()
    for record in map(json.loads, lines):
        key = json.dumps([record["kernel"], record["architecture"], record["plan"]], sort_keys=True)
        if key in seen or record["kernel"] not in subjects or any("failure" in one for one in record["launches"]):
            continue
        seen.add(key)
        yield _judged(record, subjects[record["kernel"]], limits[record["architecture"]])


def _judged(record: Mapping[str, Any], subject: Subject, limits: Limits) -> Judged:
    device, launches = NeedsDevice.of(limits), record["launches"]
    use = annotate_needs(kernel_in(subject.preparer.module)).evaluate(
        plan_from_json(record["plan"]), subject.preparer.sizes, device
    )
    worst = {name: max(launch[name] for launch in launches) for name in ("shared", "tensor_memory", "stack", "threads")}
    room = worst["tensor_memory"] <= limits.tensor_memory and worst["threads"] <= limits.threads
    shared = worst["shared"] <= limits.shared
    predicted_shared = use.shared_bytes <= limits.shared
    predicted_room = use.tensor_memory_columns <= limits.tensor_memory and use.threads <= limits.threads
    need = max(launch["registers"] + launch["stack"] / 4 for launch in launches)
    return Judged(
        subject.name, subject.entry.family, record["architecture"], use.registers_a_thread, need, worst["stack"],
        predicted_shared and predicted_room and not use.spills, shared and room and worst["stack"] <= SPILL_ALLOWANCE,
        shared and room and worst["stack"] == 0, shared == predicted_shared,
    )  # fmt: skip


def spearman(rows: Sequence[Judged]) -> float:
    """Of predicted registers and of what was needed; not a number where fewer than five plans or no difference."""
    from scipy.stats import spearmanr

    if len(rows) < 5 or len({row.need for row in rows}) < 2 or len({row.predicted for row in rows}) < 2:
        return math.nan
    return float(spearmanr([row.predicted for row in rows], [row.need for row in rows]).statistic)


def summary(rows: Sequence[Judged]) -> list[str]:
    """Plans, those that fit; right about fit, about shared memory, about fit with no byte spilled; then Spearman's
    coefficient of each kernel on each architecture: median, tenth percentile, share of 0.8 or more, and the median
    without spills.
    """
    cells: dict[tuple[str, str], list[Judged]] = {}
    for row in rows:
        cells.setdefault((row.kernel, row.architecture), []).append(row)
    all_ = [rho for cell in cells.values() if not math.isnan(rho := spearman(cell))]
    dry = [rho for cell in cells.values() if not math.isnan(rho := spearman([r for r in cell if not r.spilled]))]

    def share(right: Iterable[bool]) -> str:
        listed = list(right)
        return f"{100 * sum(listed) / len(listed):.1f} %"

    def quantile(values: Sequence[float], at: float) -> str:
        return f"{np.quantile(values, at):.2f}" if values else "–"

    return [
        str(len(rows)), share(r.fits for r in rows), share(r.fits == r.predicted_fit for r in rows),
        share(r.shared_right for r in rows), share(r.fits_without == r.predicted_fit for r in rows),
        quantile(all_, 0.5), quantile(all_, 0.1), share(rho >= 0.8 for rho in all_) if all_ else "–",
        quantile(dry, 0.5),
    ]  # fmt: skip


HEADER = (
    "",
    "plans",
    "fit",
    "fit right",
    "shared right",
    "right, no byte spilled",
    "ρ",
    "ρ, tenth",
    "ρ ≥ 0.8",
    "ρ, no spills",
)


def table(rows: Sequence[Judged]) -> Iterator[str]:
    """As Markdown: what constants were fitted on and what not, then architectures, then kernels."""
    groups: dict[str, list[Judged]] = {"all": list(rows)}
    fitted = [row for row in rows if not row.is_held_out]
    groups["fitted on"] = fitted
    groups["held out: architectures"] = [r for r in rows if r.family not in HELD_OUT and r.is_held_out]
    groups["held out: kernels"] = [row for row in rows if row.family in HELD_OUT]
    for row in rows:
        groups.setdefault(row.architecture, []).append(row)
    for row in sorted(rows, key=lambda row: row.kernel):
        groups.setdefault(row.kernel, []).append(row)
    yield f"| {' | '.join(HEADER)} |"
    yield f"|---|{'---:|' * (len(HEADER) - 1)}"
    for name, members in groups.items():
        if members:
            yield f"| {name} | {' | '.join(summary(members))} |"


@app.command()
def judge(records: list[Path], wrong: bool = False) -> None:
    """Compare RECORDS with predictions; `--wrong` lists the plans about whose fit they are wrong."""
    rows = list(judged(line for path in records for line in path.read_text().splitlines()))
    for line in table(rows):
        print(line)
    for row in rows if wrong else ():
        if row.fits != row.predicted_fit:
            print(row)


def _key(record: Mapping[str, Any]) -> tuple[str, int, str]:
    return record["kernel"], record["number"], record["architecture"]


def _compiled(
    name: str,
    number: int,
    plan: Plan,
    launches: list[tuple[str, str, GpuOptions]],
    wanted: list[str],
    pool: CompilePool,
) -> Iterator[dict[str, Any]]:
    jobs = [CompileJob(text, a, options) for a in wanted for _, text, options in launches]
    found: dict[int, dict[str, Any]] = {}
    for finished in compile_cached(jobs, pool, DiskCache()):
        outcome = finished.outcome
        at = {"name": launches[finished.index % len(launches)][0], "seconds": outcome.seconds}
        at["scratch"] = jobs[finished.index].options.scratch_bytes
        kept = taken(outcome.binary) if isinstance(outcome, CompiledBinary) else {"failure": outcome.message[:200]}
        found[finished.index] = at | kept
    for place, architecture in enumerate(wanted):
        mine = [found[place * len(launches) + n] for n in range(len(launches))]
        yield {
            "kernel": name, "number": number, "architecture": architecture, "plan": plan_as_json(plan),
            "launches": mine,
        }  # fmt: skip


if __name__ == "__main__":
    app()
