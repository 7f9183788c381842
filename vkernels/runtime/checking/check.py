"""Check kernels on devices that are not here: prepare, compile what differs once, read what it takes, judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from vkernels.ir.errors import Error, SetupError
from vkernels.ir.thread_pools import ThreadPool

from ..compile.architectures import known, refuse_unless_compiles
from ..compile.cache import DiskCache
from ..compile.compile_cached import Finished, compile_cached
from ..compile.jobs import Compiled, CompileFailure, CompileJob, Reason
from ..compile.own_code import hash_of
from ..compile.records import from_bytes, to_bytes
from ..compile.resources import Resources, read_resources
from ..compile.workers import CompilePool
from ..targets import Target
from .asking import Progress
from .cases import Case
from .cells import Cell, LaunchFailure, LaunchUse
from .prepared import Judged, Want, goes_down, judged, prepare

READERS = 2
"""Binaries that are disassembled at once."""


@dataclass(frozen=True)
class Tools:
    """What checking works with: pools for preparing and for compiling, a cache if there is one.

    `triton`: the version of Triton that compiles.
    """

    preparing: CompilePool
    compiling: CompilePool
    cache: DiskCache | None
    triton: str


def triton_version() -> str:
    """The version of Triton here. Raises `SetupError` where there is none that vkernels knows."""
    try:
        import triton
    except ImportError as error:
        raise SetupError(f"Triton is not installed ({error}); vkernels compiles with it: pip install triton") from error
    version = str(triton.__version__)
    known(version)
    return version


@dataclass(frozen=True)
class Checked:
    """All cells; how many binaries they have in common, and how many of those were found in the cache."""

    cells: tuple[Cell, ...]
    binaries: int
    cached: int


def check(cases: Sequence[Case], targets: Sequence[Target], tools: Tools, progress: Progress) -> Checked:
    """Each case on each target, in that order. Cells that share an architecture and a plan share their binaries.

    Where the binaries of a chosen plan do not fit, or spill, the next plan down is tried.
    Raises `SetupError` where nothing can be compiled, and the mistakes that keep a case from every target.
    """
    checking = _Checking(tools, progress)
    wants = [Want(case, target, _refusal(target, tools.triton)) for case in cases for target in targets]
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

    def __init__(self, tools: Tools, progress: Progress):
        self.tools, self.progress = tools, progress
        self.found: dict[CompileJob, LaunchUse | LaunchFailure] = {}
        self.cached = 0

    def cells(self, wants: Sequence[Want]) -> list[Judged]:
        """Prepare, compile what is new, judge."""
        planned = list(prepare(wants, self.tools.preparing, self.progress))
        jobs = [job for job in dict.fromkeys(job for cell in planned for job in cell.jobs) if job not in self.found]
        self.progress("compiling", 0, len(jobs))
        for done, (job, use, was_cached) in enumerate(_measured(jobs, self.tools), 1):
            self.found[job] = use
            self.cached += was_cached
            self.progress("compiling", done, len(jobs))
        return [judged(cell, [self.found[job] for job in cell.jobs]) for cell in planned]


def _refusal(target: Target, triton: str) -> str:
    """Why this Triton compiles nothing for a target; empty where it does, and for a CPU, which needs none."""
    if target.vendor == "cpu":
        return ""
    try:
        refuse_unless_compiles(target.architecture, triton)
    except SetupError as error:
        return str(error)
    return ""


def _measured(jobs: Sequence[CompileJob], tools: Tools) -> Iterator[tuple[CompileJob, LaunchUse | LaunchFailure, bool]]:
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
    """What the binary of a finished job takes, or why there is none."""
    outcome = finished.outcome
    if isinstance(outcome, CompileFailure):
        return LaunchFailure(_failure(outcome), outcome.seconds)
    try:
        resources = _resources(outcome, cache)
    except Error as error:
        return LaunchFailure(f"what it takes cannot be read: {error}", outcome.seconds)
    return LaunchUse(outcome.binary.threads, resources, outcome.seconds, outcome.binary.global_scratch)


def _failure(failure: CompileFailure) -> str:
    if failure.reason == Reason.TIME_OUT:
        return f"compiling timed out after {failure.seconds:.0f} s"
    return f"does not compile: {failure.message}"


def _resources(compiled: Compiled, cache: DiskCache | None) -> Resources:
    """What a binary takes, from the cache where that is known: disassembling takes longer than all else there."""
    if cache is None:
        return read_resources(compiled.binary)
    key = hashlib.sha256(
        json.dumps([hash_of("runtime/compile/resources/*.py"), to_bytes(compiled.binary).hex()]).encode()
    ).hexdigest()
    kept = cache.get(key)
    if kept is not None:
        try:
            known: Resources = from_bytes(kept, Resources)
            return known
        except ValueError:  # not ours, or damaged
            pass
    resources = read_resources(compiled.binary)
    cache.put(key, to_bytes(resources))
    return resources
