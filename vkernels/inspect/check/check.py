"""Check kernels on absent devices: prepare, compile each distinct binary once, read its resources, judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.architectures import known, refuse_unless_compiles
from vkernels.compiler.backends.resources import taken_by
from vkernels.compiler.binaries.read_code import read_binary
from vkernels.compiler.binaries.source_loops import Length
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.compiler.workers.compile_cached import Finished, compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompileFailure, CompileFailureReason, CompileJob
from vkernels.ir.analysis.needs.device import UNKNOWN_TRIPS
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error, SetupError
from vkernels.ir.planning.resources import Resource, Shortage, misfit, spill
from vkernels.ir.system_resources import ThreadPool
from vkernels.runtime.gpu.packing import MAX_PROGRAMS
from vkernels.targets import Target, limits_of

from ..cases import Case, KernelCase
from ..worker_client import InspectPool, Progress
from .cells import CHOSEN, Cell, CellLaunch, LaunchFailure, LaunchUse, judge, with_loops
from .judge_cells import judge_cells
from .prepare_cells import CellRequest, PreparedCell, prepare


def goes_down(cell: Cell) -> bool:
    """Whether a plan further down may do better."""
    planned = cell.planned
    return cell.shortage is not None and planned is not None and planned.origin == CHOSEN and planned.rung != BOTTOM


def verdict(
    prepared: PreparedCell, found: Sequence[LaunchUse | LaunchFailure], unknown_length: Length = UNKNOWN_TRIPS
) -> Cell:
    """Judge a cell by the resources of each of its launches. `unknown_length`: as in `CheckTools`."""
    case, target = prepared.want.case, prepared.want.target
    launches = tuple(
        with_loops(judge(each["name"], use, target), each["text"], target, _grid(each), case.shape, unknown_length)
        for each, use in zip(prepared.launches, found, strict=True)
    )
    if prepared.misfit:
        launches = (judge(case.source.name, LaunchFailure(prepared.misfit, 0.0), target),)
    swap = swap_bytes(prepared.launches, launches, prepared.own_bytes, target) if not prepared.misfit else None
    whole = None
    if swap is not None and prepared.tensor_bytes is not None:
        whole = too_many(prepared.launches) or too_large(prepared.tensor_bytes, swap, target)
    # Tensors that exceed the device's memory do not fit with any plan.
    hopeless = prepared.tensor_bytes is not None and prepared.tensor_bytes > target.memory
    return Cell(
        case.source.shown, target.key, target.architecture, case.dtype, case.shape, case.configuration, launches,
        prepared.want.unknown, prepared.planned, prepared.tensor_bytes, swap, whole.reason if whole else "",
        None if hopeless else shortage_of(found, target) or whole,
    )  # fmt: skip


def _grid(launch: Mapping[str, Any]) -> tuple[int, ...] | None:
    return (launch["programs"],) if "programs" in launch else None


def shortage_of(found: Sequence[LaunchUse | LaunchFailure], target: Target) -> Shortage | None:
    """The shortage of the launches; a spill counts only if there is nothing worse."""
    limits = limits_of(target)
    taken = [taken_by(use.resources, use.threads) for use in found if isinstance(use, LaunchUse)]
    if len(taken) < len(found):
        reason = next(use.reason for use in found if isinstance(use, LaunchFailure))
        return Shortage(Resource.CODE, 0, 0, reason)
    reasons = [*(misfit(each, limits) for each in taken), *(spill(each) for each in taken)]
    return next((reason for reason in reasons if reason is not None), None)


def swap_bytes(
    prepared: Sequence[Mapping[str, Any]], launches: Sequence[CellLaunch], own_bytes: int, target: Target
) -> int:
    """Return the bytes that a call needs besides its tensors; launches share all but their own buffers, `own_bytes`."""
    most = 0
    for launch, found in zip(prepared, launches, strict=True):
        if found.use is not None and found.occupancy is not None and "programs" in launch:
            resident = launch["resident"] or found.occupancy.blocks * target.multiprocessors
            grid = min(launch["programs"], resident) if launch["persistent"] else launch["programs"]
            most = max(most, (launch["swap_bytes"] + found.use.global_scratch) * grid)
    return own_bytes + most


def too_many(prepared: Sequence[Mapping[str, Any]]) -> Shortage | None:
    """Return why a GPU cannot start so many programs; None if it can."""
    for launch in prepared:
        programs = launch.get("programs", 0)
        if programs > MAX_PROGRAMS:
            reason = f"{launch['name']} has {programs} programs; a GPU starts at most {MAX_PROGRAMS}"
            return Shortage(Resource.PROGRAMS, programs, MAX_PROGRAMS, reason)
    return None


def too_large(tensors: int, swap: int, target: Target) -> Shortage | None:
    """Return why a call exceeds the device's memory; None if it fits."""
    if tensors + swap <= target.memory:
        return None
    reason = f"tensors of {tensors} B and further {swap} B exceed the memory of {target.memory} B"
    return Shortage(Resource.SWAP, tensors + swap, target.memory, reason)


READERS = 2


@dataclass(frozen=True)
class CheckTools:
    """Resources of checks and explanations: pools for preparing and for compiling, a cache if there is one.

    `triton`: the version of Triton that compiles. `unknown_length`: how far apart bounds of loops are taken to be that
    are in memory. `judge`: how many plans for a GPU are compiled to choose one by its binaries, as calls do; 1: the
    model's choice is checked.
    """

    preparing: InspectPool
    compiling: CompilePool
    cache: DiskCache | None
    triton: str
    unknown_length: Length = UNKNOWN_TRIPS
    judge: int = 1


def triton_version() -> str:
    """Return the installed Triton version. Raises `SetupError` for none or an unsupported one."""
    try:
        import triton
    except ImportError as error:
        raise SetupError(f"Triton is not installed ({error}); vkernels compiles with it: pip install triton") from error
    version = str(triton.__version__)
    known(version)
    return version


@dataclass(frozen=True)
class Checked:
    """All cells, the number of distinct binaries, and the number of those from the cache."""

    cells: tuple[Cell, ...]
    binaries: int
    cached: int


def check(cases: Sequence[Case], targets: Sequence[Target], tools: CheckTools, progress: Progress) -> Checked:
    """Check each case on each target, in that order. Cells with equal architectures and plans share binaries.

    If the binaries of a chosen plan do not fit, or spill, the next plan down is tried. Then, on GPUs, the best plans
    are judged by their binaries (`CheckTools.judge`).
    Raises `SetupError` if nothing can be compiled, and mistakes that affect a case on all targets.
    """
    checking = Checking(tools, progress)
    wants = [
        CellRequest(case_on(case, target), target, _refusal(target, tools.triton))
        for case in cases
        for target in targets
    ]
    found = checking.cells(wants)
    while lower := [number for number, (want, cell) in enumerate(zip(wants, found, strict=True)) if goes_down(cell)]:
        for number in lower:
            wants[number] = wants[number].below(found[number])
        for number, cell in zip(lower, checking.cells([wants[number] for number in lower]), strict=True):
            found[number] = cell
    cells = [want.best(cell) for want, cell in zip(wants, found, strict=True)]
    if tools.judge > 1:
        cells = judge_cells(wants, cells, tools.judge, tools.preparing, checking.verdicts)
    return Checked(tuple(cells), len(checking.found), checking.cached)


def case_on(case: Case, target: Target) -> Case:
    """The case as it is called on a target."""
    return case.on(target.vendor != "cpu") if isinstance(case, KernelCase) else case


class Checking:
    """The binaries so far. `cached`: number of those from the cache."""

    def __init__(self, tools: CheckTools, progress: Progress):
        self.tools, self.progress = tools, progress
        self.found: dict[CompileJob, LaunchUse | LaunchFailure] = {}
        self.cached = 0

    def cells(self, wants: Sequence[CellRequest]) -> list[Cell]:
        """Prepare cases, compile new binaries, and judge."""
        return self.verdicts(list(prepare(wants, self.tools.preparing, self.progress)))

    def verdicts(self, planned: Sequence[PreparedCell]) -> list[Cell]:
        """Compile new binaries, and judge."""
        jobs = [job for job in dict.fromkeys(job for cell in planned for job in cell.jobs) if job not in self.found]
        self.progress("compiling", 0, len(jobs))
        for done, (job, use, was_cached) in enumerate(_measured(jobs, self.tools), 1):
            self.found[job] = use
            self.cached += was_cached
            self.progress("compiling", done, len(jobs))
        length = self.tools.unknown_length
        return [verdict(cell, [self.found[job] for job in cell.jobs], length) for cell in planned]


def _refusal(target: Target, triton: str) -> str:
    if target.vendor == "cpu":
        return ""
    try:
        refuse_unless_compiles(target.architecture, triton)
    except SetupError as error:
        return str(error)
    return ""


def _measured(
    jobs: Sequence[CompileJob], tools: CheckTools
) -> Iterator[tuple[CompileJob, LaunchUse | LaunchFailure, bool]]:
    """Yield each job with the resources of its binary and whether that came from the cache, in order of the jobs' end.

    Binaries are disassembled in parallel with compiles.
    """
    reading: list[tuple[CompileJob, Future[LaunchUse | LaunchFailure], bool]] = []
    with ThreadPool(READERS) as readers:
        try:
            for finished in compile_cached(jobs, tools.compiling, tools.cache):
                read = readers.submit(use_of, finished, tools.cache)
                reading.append((jobs[finished.index], read, finished.cached))
                while reading and reading[0][1].done():
                    job, use, cached = reading.pop(0)
                    yield job, use.result(), cached
            for job, use, cached in reading:
                yield job, use.result(), cached
        finally:
            readers.shutdown(wait=False, cancel_futures=True)


def use_of(finished: Finished, cache: DiskCache | None) -> LaunchUse | LaunchFailure:
    """Return the resources of a finished job's binary, or why there is none."""
    outcome = finished.outcome
    if isinstance(outcome, CompileFailure):
        is_slow = outcome.reason == CompileFailureReason.TIME_OUT
        reason = (
            f"compiling timed out after {outcome.seconds:.0f} s" if is_slow else f"does not compile: {outcome.message}"
        )
        return LaunchFailure(reason, outcome.seconds)
    try:
        reading = read_binary(outcome.binary, ArtifactCache(cache))
    except Error as error:
        return LaunchFailure(f"what it takes cannot be read: {error}", outcome.seconds)
    binary = outcome.binary
    return LaunchUse(binary.threads, reading.resources, outcome.seconds, binary.global_scratch, reading.code)
