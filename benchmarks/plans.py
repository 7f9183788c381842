"""Chosen plans against the best that a search finds, and against their author's where a kernel has one, on this CPU.

    python benchmarks/plans.py [--only softmax] [--rounds 15] [--random 40] [--near 40] [--threads 2] [--json FILE]
    python benchmarks/plans.py --choosing cpu,h100-sxm5-80,mi300x [--only softmax] [--rounds 5]

The search runs `--random` plans of any kind and `--near` that the model likes best, each a few times, and takes the
fastest three; they and the chosen plan are then timed in turns, each after a call of its own, and the best of the three
is the best found. Ratios are medians of rounds: above 1 the chosen plan is faster. On one thread, seconds are those
that the thread itself ran, so that other work on the machine counts less. Kernels compute in float32.

`--choosing` times nothing but choosing a plan for every entry of the catalogue, at its sizes for a CPU or a GPU: of the
kernel with its needs, the first time and again (the least of the rounds).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter, thread_time
from typing import Annotated, Any

import numpy as np
import typer
from common import Quartiles, times_faster
from rich.console import Console
from rich.table import Table

import vkernels as vk
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.cases import KernelSource, kernel_at
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.specialisation import SpecialisationRequest, kernel_case, specialise
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import Chosen, choose_plan
from vkernels.ir.planning.decisions.decisions import neighbours, starting_choices
from vkernels.ir.planning.find_families import find_families
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.language.kernel import Kernel, Options
from vkernels.language.samples import CatalogueEntry
from vkernels.library.catalogue import CATALOGUE
from vkernels.runtime.dispatch import limits
from vkernels.targets import limits_of, target_named

SEED = 20261121
LARGEST_BODY = 512
"""Elements of registers' worth that a random plan unrolls, at most: more takes seconds to compile."""
CHOOSING_GOAL = 0.05
"""Seconds that choosing a plan may take."""
SLOWEST_SHOWN = 15
console = Console(highlight=False)


@dataclass(frozen=True)
class Subject:
    """A kernel of the library and sizes that a call takes some milliseconds for."""

    module: str
    name: str
    sizes: Mapping[str, int]

    @property
    def kernel(self) -> Any:
        return getattr(import_module(f"vkernels.library.{self.module}"), self.name)

    @property
    def has_own_plan(self) -> bool:
        """Whether its author decided all of its plan, or a part."""
        dtypes = {p.name: "float32" for p in self.kernel.parameters if p.kind == "tensor"}
        return self.kernel.pin is not None or self.kernel.plan_for(self.sizes, dtypes, limits()) is not None

    @property
    def label(self) -> str:
        return f"{self.name} {'×'.join(str(size) for size in self.sizes.values())}"


SUBJECTS = (
    Subject("rows", "softmax_rows", {"M": 65536, "N": 64}),
    Subject("rows", "softmax_rows", {"M": 4096, "N": 1024}),
    Subject("rows", "softmax_rows", {"M": 128, "N": 32768}),
    Subject("rows", "layer_norm_rows", {"M": 65536, "N": 64}),
    Subject("rows", "layer_norm_rows", {"M": 4096, "N": 1024}),
    Subject("rows", "layer_norm_rows", {"M": 128, "N": 32768}),
    Subject("rows", "summarise_exponentials", {"M": 4, "S": 16, "L": 65536}),
    Subject("rows", "normalise_exponentials", {"M": 4, "S": 16, "L": 65536}),
    Subject("rows", "summarise_moments", {"M": 4, "S": 16, "L": 65536}),
    Subject("rows", "normalise_moments", {"M": 4, "S": 16, "L": 65536}),
    Subject("dense", "matmul_bias", {"M": 512, "N": 512, "K": 512}),
    Subject("dense", "matmul_bias", {"M": 1000, "N": 1001, "K": 999}),
    Subject("dense", "mlp_rows", {"M": 512, "K": 256, "H": 1024, "N": 256}),
    Subject("attention", "attention_rows", {"B": 1, "G": 4, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64}),
    Subject("segments", "sum_segments", {"S": 16385, "R": 16384, "E": 1 << 20}),
    Subject("segments", "sum_segment_rows", {"S": 16385, "R": 16384, "E": 1 << 17, "C": 64}),
    Subject("sparse_products", "csr_times_dense", {"S": 16385, "R": 16384, "E": 1 << 18, "K": 16384, "C": 64}),
    Subject("scans", "cumulative_sum_rows", {"M": 4096, "N": 1024}),
    Subject("scans", "sum_of_each_segment", {"M": 4, "S": 16, "L": 65536}),
    Subject("scans", "cumulative_sum_segments", {"M": 4, "S": 16, "L": 65536}),
    Subject("stencils", "stencil_cross", {"B": 4, "M": 1024, "N": 1024}),
    Subject("stencils", "stencil_square", {"B": 4, "M": 1024, "N": 1024}),
    Subject("spdnn", "spdnn", {"L": 8, "N": 1024, "K": 32, "I": 2048}),
    Subject("spdnn", "take_columns", {"N": 1024, "P": 8192, "I": 4096}),
)


@dataclass(frozen=True)
class Result:
    """Seconds a call in the last turns; `found`: of how many plans the search timed the best."""

    label: str
    chosen: Quartiles
    author: Quartiles | None
    best: Quartiles
    against_author: Quartiles | None
    against_best: Quartiles
    rung: str
    modelled: float
    choosing: float
    found: int
    chosen_plan: Plan
    best_plan: Plan


def arguments_of(subject: Subject, choose: np.random.Generator) -> list[Any]:
    """Random tensors of declared shapes; indices in range; what attention's function lays out otherwise, so."""
    sizes = subject.sizes
    made: list[Any] = []
    for parameter in subject.kernel.parameters:
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in parameter.dimensions)
        if parameter.kind == "scalar":
            made.append(0.5)
        elif parameter.kind == "constant":
            made.append(parameter.default)
        elif parameter.name == "start":
            made.append(np.linspace(0, sizes["E"], sizes["S"]).astype(np.int32))
        elif parameter.name == "column":
            most = {"spdnn": "N", "take_columns": "P", "csr_times_dense": "K"}[subject.name]
            made.append(choose.integers(0, sizes[most], shape).astype(np.int32))
        elif subject.name == "attention_rows" and parameter.name in ("q", "out"):
            made.append(_aligned(choose.standard_normal((*shape[:3], shape[4], shape[3]), np.float32)).swapaxes(3, 4))
        else:
            made.append(_aligned(choose.standard_normal(shape, np.float32)))
    return made


def _aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose address is a multiple of 64, as torch's are: NumPy's are of 16, which stores past caches are not."""
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def strides_of(subject: Subject, arguments: list[Any]) -> dict[str, tuple[int, ...]]:
    return {
        parameter.name: tuple(stride // value.itemsize for stride in value.strides)
        for parameter, value in zip(subject.kernel.parameters, arguments, strict=True)
        if isinstance(value, np.ndarray)
    }


def space_of(subject: Subject, arguments: list[Any], within: Limits) -> PlanSearchSpace:
    kernel = subject.kernel
    dtypes, scalars, constants = [], [], []
    for parameter, value in zip(kernel.parameters, arguments, strict=True):
        if isinstance(value, np.ndarray):
            dtypes.append((parameter.name, str(value.dtype)))
        elif parameter.kind == "scalar":
            scalars.append((parameter.name, "f64"))
        else:
            constants.append((parameter.name, value))
    module = kernel.build(Signature(tuple(dtypes), tuple(scalars), tuple(constants)))
    return read_space(kernel_in(module), subject.sizes, within, None, strides_of(subject, arguments))


def random_plans(space: PlanSearchSpace, count: int, choose: random.Random) -> list[Plan]:
    """Plans of any kind and sizes, not only of those that the model likes."""
    plans: list[Plan] = []
    starts = list(starting_choices(space))
    for _ in range(20 * count):
        if len(plans) == count:
            break
        move = choose.choice(starts)
        for _ in range(choose.randint(0, 4)):
            move = choose.choice(list(neighbours(space, move)) or [move])
        try:
            setting = plan_grid(space, move).only(True)
        except Error:
            continue
        number = math.prod(setting.shape)
        one = setting.only(np.arange(number) == choose.randrange(number))
        if max(np.max(one.tile(step.axes)) for loop in one.loops for step in loop.steps) > LARGEST_BODY * 4:
            continue
        plans += [plan for plan in one.plans() if plan not in plans]
    return plans


def liked_plans(space: PlanSearchSpace, count: int) -> list[Plan]:
    """The best sizes of the best kinds, as modelled, some of each kind."""
    kinds = sorted(find_families(space), key=lambda kind: kind.least)
    found: list[Plan] = []
    for rank in range(8):
        for kind in kinds:
            if rank < len(kind.best) and len(found) < count:
                plans = kind.batch.plans()
                found.append(plans[kind.best[rank]])
    return found


@dataclass(frozen=True)
class Choosing:
    """Processor seconds of choosing a plan: the first time, and again."""

    label: str
    device: str
    first: float
    again: float


def choosing_times(entry: CatalogueEntry, device: str, rounds: int) -> Choosing:
    """Of a kernel of the catalogue, on `cpu` (this one) or a device of the table."""
    source = KernelSource(entry.name, entry.module)
    kernel, request = kernel_at(source), SpecialisationRequest()
    within = limits() if device == "cpu" else limits_of(target_named(device))
    shape = kernel.samples.cpu_sizes or entry.shape if within.warp == 1 else entry.shape
    task = specialise(source, kernel.parameters, request, shape, entry.dtype, entry.computed, kernel.samples)
    case = kernel_case(task, kernel.parameters, request, entry.dtype)
    preparer = KernelPreparer(kernel, case.shape, case.dtypes, case.scalars, case.constants)
    ir = kernel_in(preparer.module).clone()
    needs = annotate_needs(ir)

    def choose() -> Chosen:
        return choose_plan(ir, preparer.sizes, within, needs, preparer.arguments.strides, kernel.pin)

    first = _timed(choose, thread_time)
    again = min(_timed(choose, thread_time) for _ in range(rounds))
    label = f"{entry.name} {'×'.join(str(size) for size in case.shape.values())}"
    return Choosing(label, device, first, again)


def show_choosing(only: str, devices: list[str], rounds: int) -> None:
    """The slowest entries of each device, and what all come to."""
    for device in devices:
        entries = [entry for entry in CATALOGUE if only in entry.name]
        times = sorted((choosing_times(entry, device, rounds) for entry in entries), key=lambda each: -each.again)
        table = Table(f"on {device}", "first, ms", "again, ms")
        for each in times[:SLOWEST_SHOWN]:
            table.add_row(each.label, f"{1e3 * each.first:.0f}", f"{1e3 * each.again:.0f}")
        console.print(table)
        for name, found in (("first", [each.first for each in times]), ("again", [each.again for each in times])):
            most, high, middle = (1e3 * float(np.quantile(found, part)) for part in (1, 0.95, 0.5))
            beyond = sum(seconds > CHOOSING_GOAL for seconds in found)
            console.print(
                f"{name}: median {middle:.0f} ms, 95 % {high:.0f} ms, most {most:.0f} ms; "
                f"{beyond} of {len(found)} beyond {1e3 * CHOOSING_GOAL:.0f} ms"
            )


class Runner:
    """Runs one kernel by any plan."""

    def __init__(self, subject: Subject, arguments: list[Any]):
        self.subject, self.arguments = subject, arguments

    def by(self, plan: Plan | None) -> Any:
        """What calls the kernel by a plan, or as its author planned. Compiles at once; raises what that raises."""
        kernel = self.subject.kernel if plan is None else Kernel(self.subject.kernel.function, Options(plan=plan))
        kernel(*self.arguments)
        return lambda: kernel(*self.arguments)


Clock = Callable[[], float]
FINALISTS = 3


def fastest(runner: Runner, plans: list[Plan], clock: Clock) -> tuple[list[Plan], int]:
    """The fastest of some plans, by the least of a few runs of each, and how many could be run."""
    times: list[tuple[float, int]] = []
    for number, plan in enumerate(plans):
        try:
            run = runner.by(plan)
        except Error:
            continue
        least = min((each for each, _ in times), default=float("inf"))
        seconds: list[float] = []
        while len(seconds) < 7 and (not seconds or min(seconds) < 1.5 * least):
            seconds.append(_timed(run, clock))
        times.append((min(seconds), number))
    return [plans[number] for _, number in sorted(times)[:FINALISTS]], len(times)


def _timed(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


def measure(subject: Subject, rounds: int, count: int, near: int, clock: Clock) -> Result:
    choose = np.random.default_rng(SEED)
    arguments = arguments_of(subject, choose)
    within = limits()
    space = space_of(subject, arguments, within)

    def chosen_now() -> Chosen:
        return choose_plan(space.kernel, subject.sizes, within, space.needs, space.strides)

    chosen = chosen_now()
    choosing = _timed(chosen_now, thread_time)
    runner = Runner(subject, arguments)
    plans = [*random_plans(space, count, random.Random(SEED)), *liked_plans(space, near)]
    found, ran = fastest(runner, plans, clock)
    runs = {"chosen": runner.by(chosen.plan)}
    if subject.has_own_plan:
        runs["author"] = runner.by(None)
    found = found or [chosen.plan]
    runs |= {f"best {number}": runner.by(plan) for number, plan in enumerate(found)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody is always the first
            runs[name]()  # so that caches hold what this plan leaves there, not another's
            seconds[name].append(_timed(runs[name], clock))
    own = seconds.get("author")
    name = min((name for name in runs if name.startswith("best")), key=lambda name: float(np.median(seconds[name])))
    return Result(
        subject.label, Quartiles.of(seconds["chosen"]), Quartiles.of(own) if own else None, Quartiles.of(seconds[name]),
        times_faster(own, seconds["chosen"]) if own else None, times_faster(seconds[name], seconds["chosen"]),
        chosen.rung, chosen.seconds, choosing, ran, chosen.plan, found[int(name[-1])],
    )  # fmt: skip


def main(
    only: str = "",
    rounds: int = 15,
    random: Annotated[int, typer.Option(help="random plans")] = 40,
    near: Annotated[int, typer.Option(help="plans that the model likes")] = 40,
    threads: int = 2,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
    markdown: Annotated[bool, typer.Option(help="rows for a page of measurements")] = False,
    choosing: Annotated[str, typer.Option(help="devices, or cpu, for which only choosing is timed")] = "",
) -> None:
    if choosing:
        show_choosing(only, choosing.split(","), rounds)
        return
    vk.set_threads(threads)
    table = Table("kernel", "chosen, ms", "modelled", "× author's", "× best found", "rung", "of", "choosing, ms")
    results = []
    for subject in SUBJECTS:
        if only not in subject.label:
            continue
        result = measure(subject, rounds, random, near, thread_time if threads == 1 else perf_counter)
        results.append(result)
        authors = str(result.against_author or "")
        table.add_row(
            result.label, f"{1e3 * result.chosen.median:.2f}", f"{1e3 * result.modelled:.2f}", authors,
            str(result.against_best), result.rung, str(result.found), f"{1e3 * result.choosing:.0f}",
        )  # fmt: skip
        console.print(
            result.label, f"best {result.against_best}", f"author's {result.against_author}" if result.author else ""
        )
        console.print(f"  chosen {result.chosen_plan}\n  best {result.best_plan}", style="dim")
    console.print(table)
    if markdown:
        print("\n".join(_row(result) for result in results))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(result) for result in results], indent=1))


def _row(result: Result) -> str:
    return (
        f"| {result.label} | {1e3 * result.chosen.median:.2f} | {1e3 * result.modelled:.2f} "
        f"| {result.against_best.median:.2f} | {result.rung} | {result.found} | {1e3 * result.choosing:.0f} |"
    )


if __name__ == "__main__":
    typer.run(main)
