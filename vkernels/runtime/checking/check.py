"""Check kernels on devices that are not here: prepare, compile what differs once, read what it takes, judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vkernels.ir.errors import Error, SetupError

from ..compile.architectures import known, refuse_unless_compiles
from ..compile.cache import DiskCache
from ..compile.compile_cached import Finished, compile_cached
from ..compile.jobs import Compiled, CompileFailure, CompileJob, Reason
from ..compile.records import from_bytes, to_bytes
from ..compile.resources import Resources, read_resources
from ..compile.triton_adapter import GpuOptions
from ..compile.workers import CompilePool
from ..targets import Target, limits_of
from .asking import answer_of, ask, mistake
from .cases import Case
from .cells import Cell, LaunchFailure, LaunchUse, judge

Progress = Callable[[str, int, int], None]
"""Told what is done now, how many steps of it are done and how many there are."""


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


@dataclass(frozen=True)
class _Planned:
    """A cell to be: the jobs of its launches, with the launches' names, or why it has none."""

    case: Case
    target: Target
    jobs: tuple[tuple[str, CompileJob], ...] = ()
    unknown: str = ""
    misfit: str = ""


def check(cases: Sequence[Case], targets: Sequence[Target], tools: Tools, progress: Progress) -> Checked:
    """Each case on each target, in that order. Cells that share an architecture and a plan share their binaries.

    Raises `SetupError` where nothing can be compiled, and the mistakes that keep a case from every target.
    """
    planned = [cell for cells in _planned(cases, targets, tools, progress) for cell in cells]
    jobs = list(dict.fromkeys(job for cell in planned for _, job in cell.jobs))
    found: dict[CompileJob, LaunchUse | LaunchFailure] = {}
    cached = 0
    progress("compiling", 0, len(jobs))
    for job, use, was_cached in _measured(jobs, tools):
        found[job] = use
        cached += was_cached
        progress("compiling", len(found), len(jobs))
    return Checked(tuple(_cell(cell, found) for cell in planned), len(jobs), cached)


def _planned(
    cases: Sequence[Case], targets: Sequence[Target], tools: Tools, progress: Progress
) -> Iterator[list[_Planned]]:
    """The cells to be of each case."""
    refusals = {target.key: _refusal(target, tools.triton) for target in targets}
    asked = [target for target in targets if not refusals[target.key]]
    requests = [{"architecture": t.architecture, "limits": asdict(limits_of(t))} for t in asked]
    answers = [ask(tools.preparing, {**case.as_request(), "targets": requests}) for case in cases]
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        progress("planning", number, len(cases))
        prepared = answer_of(answer.result(), case.source.shown)
        launches = dict(zip((t.key for t in asked), prepared["targets"], strict=True))
        yield [
            _Planned(case, target, unknown=refusals[target.key])
            if refusals[target.key]
            else _of_launches(case, target, launches[target.key], prepared["launches"])
            for target in targets
        ]


def _refusal(target: Target, triton: str) -> str:
    """Why this Triton compiles nothing for a target; empty where it does."""
    try:
        refuse_unless_compiles(target.architecture, triton)
    except SetupError as error:
        return str(error)
    return ""


def _of_launches(case: Case, target: Target, prepared: Any, launches: Sequence[Any]) -> _Planned:
    if not isinstance(prepared, int):
        return _Planned(case, target, misfit=f"does not compile: {mistake(prepared)}")
    jobs = [
        (launch["name"], CompileJob(launch["text"], target.architecture, GpuOptions(**launch["options"])))
        for launch in launches[prepared]
    ]
    return _Planned(case, target, tuple(jobs))


def _measured(jobs: Sequence[CompileJob], tools: Tools) -> Iterator[tuple[CompileJob, LaunchUse | LaunchFailure, bool]]:
    """Each job with what its binary takes and whether that binary was in the cache, as it becomes known.

    Binaries are disassembled beside the compiles of others.
    """
    reading: list[tuple[CompileJob, Future[LaunchUse | LaunchFailure], bool]] = []
    with ThreadPoolExecutor(READERS) as readers:
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
    return LaunchUse(outcome.binary.threads, resources, outcome.seconds)


def _failure(failure: CompileFailure) -> str:
    if failure.reason == Reason.TIME_OUT:
        return f"compiling timed out after {failure.seconds:.0f} s"
    return f"does not compile: {failure.message}"


def _resources(compiled: Compiled, cache: DiskCache | None) -> Resources:
    """What a binary takes, from the cache where that is known: disassembling takes longer than all else there."""
    if cache is None:
        return read_resources(compiled.binary)
    key = hashlib.sha256(json.dumps([_reader(), to_bytes(compiled.binary).hex()]).encode()).hexdigest()
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


@cache
def _reader() -> str:
    """Our own code that reads binaries."""
    from ..compile import resources

    ours = hashlib.sha256()
    for path in sorted(Path(resources.__file__).parent.glob("*.py")):
        ours.update(path.read_bytes())
    return ours.hexdigest()


def _cell(planned: _Planned, found: dict[CompileJob, LaunchUse | LaunchFailure]) -> Cell:
    case, target = planned.case, planned.target
    launches = tuple(judge(name, found[job], target) for name, job in planned.jobs)
    if planned.misfit:
        launches = (judge(case.source.name, LaunchFailure(planned.misfit, 0.0), target),)
    return Cell(
        case.source.shown, target.key, target.architecture, case.dtype, case.shape, case.configuration, launches,
        planned.unknown,
    )  # fmt: skip
