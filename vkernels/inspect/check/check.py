"""Check kernels on absent devices: prepare, compile each distinct binary once, read its resources, judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from vkernels.compiler.artifact_cache import ArtifactCache, hash_of
from vkernels.compiler.backends.architectures import known, refuse_unless_compiles
from vkernels.compiler.backends.resources import Resources, read_resources
from vkernels.compiler.records import to_bytes
from vkernels.compiler.workers.compile_cached import Finished, compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileFailure, CompileFailureReason, CompileJob
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error, SetupError
from vkernels.ir.system_resources import ThreadPool
from vkernels.targets import Target

from ..cases import Case
from ..worker_client import InspectPool, Progress
from .cell_requests import CellRequest, CellVerdict, goes_down, prepare
from .cells import Cell, LaunchFailure, LaunchUse
from .verdicts import verdict

READERS = 2
"""Number of binaries disassembled in parallel."""


@dataclass(frozen=True)
class CheckTools:
    """What checking works with: pools for preparing and for compiling, a cache if there is one.

    `triton`: the version of Triton that compiles.
    """

    preparing: InspectPool
    compiling: CompilePool
    cache: DiskCache | None
    triton: str


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
    """All cells; the number of distinct binaries, and how many of these came from the cache."""

    cells: tuple[Cell, ...]
    binaries: int
    cached: int


def check(cases: Sequence[Case], targets: Sequence[Target], tools: CheckTools, progress: Progress) -> Checked:
    """Each case on each target, in that order. Cells that share an architecture and a plan share their binaries.

    Where the binaries of a chosen plan do not fit, or spill, the next plan down is tried.
    Raises `SetupError` where nothing can be compiled, and the mistakes that keep a case from every target.
    """
    checking = _Checking(tools, progress)
    wants = [CellRequest(case, target, _refusal(target, tools.triton)) for case in cases for target in targets]
    found = checking.cells(wants)
    while lower := [number for number, (want, cell) in enumerate(zip(wants, found, strict=True)) if goes_down(cell)]:
        for number in lower:
            wants[number] = wants[number].below(found[number])
        for number, cell in zip(lower, checking.cells([wants[number] for number in lower]), strict=True):
            found[number] = cell
    cells = tuple(want.best(cell).cell for want, cell in zip(wants, found, strict=True))
    return Checked(cells, len(checking.found), checking.cached)


class _Checking:
    """What is known of binaries so far. `cached`: how many of them were in the cache."""

    def __init__(self, tools: CheckTools, progress: Progress):
        self.tools, self.progress = tools, progress
        self.found: dict[CompileJob, LaunchUse | LaunchFailure] = {}
        self.cached = 0

    def cells(self, wants: Sequence[CellRequest]) -> list[CellVerdict]:
        """Prepare cases, compile new binaries, and judge."""
        planned = list(prepare(wants, self.tools.preparing, self.progress))
        jobs = [job for job in dict.fromkeys(job for cell in planned for job in cell.jobs) if job not in self.found]
        self.progress("compiling", 0, len(jobs))
        for done, (job, use, was_cached) in enumerate(_measured(jobs, self.tools), 1):
            self.found[job] = use
            self.cached += was_cached
            self.progress("compiling", done, len(jobs))
        return [verdict(cell, [self.found[job] for job in cell.jobs]) for cell in planned]


def _refusal(target: Target, triton: str) -> str:
    """Why this Triton cannot compile for a target; empty if it can, and for a CPU."""
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
    """Each job with what its binary takes and whether that binary was in the cache, as it becomes known.

    Binaries are disassembled beside the compiles of others.
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
        return LaunchFailure(_failure(outcome), outcome.seconds)
    try:
        resources = _resources(outcome, cache)
    except Error as error:
        return LaunchFailure(f"what it takes cannot be read: {error}", outcome.seconds)
    return LaunchUse(outcome.binary.threads, resources, outcome.seconds, outcome.binary.global_scratch)


def _failure(failure: CompileFailure) -> str:
    if failure.reason == CompileFailureReason.TIME_OUT:
        return f"compiling timed out after {failure.seconds:.0f} s"
    return f"does not compile: {failure.message}"


def _resources(compiled: CompiledBinary, cache: DiskCache | None) -> Resources:
    """What a binary takes, from the cache where that is known: disassembling takes longer than all else there."""
    artifacts = ArtifactCache(cache)
    key = hashlib.sha256(
        json.dumps([hash_of("compiler/backends/resources/*.py"), to_bytes(compiled.binary).hex()]).encode()
    ).hexdigest()
    resources: Resources | None = artifacts.get(key, Resources)
    if resources is None:
        resources = read_resources(compiled.binary)
        artifacts.put(key, resources)
    return resources
