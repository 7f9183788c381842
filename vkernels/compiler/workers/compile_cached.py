"""Compile many jobs at once: each only once, and not at all where the cache knows what comes of it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import cache as once
from queue import Empty, SimpleQueue

from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import SetupError

from ..artifact_cache import ArtifactCache, hash_of
from ..background import AbandonedError, is_ending, release_gate
from .compile_pool import TOOLS, CompilePool
from .jobs import CompiledBinary, CompileFailure, CompileJob, Outcome

ENDING_SECONDS = 0.2
"""How often it is looked whether the interpreter ends."""


@dataclass(frozen=True)
class Finished:
    """What came of the job at `index` of those given; `cached` if it was found on disk."""

    index: int
    outcome: Outcome
    cached: bool


def compile_cached(jobs: Iterable[CompileJob], pool: CompilePool, cache: DiskCache | None = None) -> Iterator[Finished]:
    """The outcome of each job as it becomes known, in any order; identical jobs are compiled once.

    Jobs are taken one after another, as fast as they come, while earlier ones compile. The cache keeps binaries, and
    failures that would come again. Jobs that are not begun are cancelled when the iterator is closed. Raises
    `SetupError` where nothing can be compiled: no Triton, one of an unknown version, no processes.
    """
    compiler, artifacts = "" if cache is None else compiler_identity(), ArtifactCache(cache)
    known: dict[str, Outcome] = {}  # and not on disk
    waiting: dict[str, list[int]] = {}
    futures: dict[str, Future[Outcome]] = {}
    done: SimpleQueue[str] = SimpleQueue()

    def taken(key: str) -> Iterator[Finished]:
        outcome = futures.pop(key).result()
        if not _keep(artifacts, key, outcome):
            known[key] = outcome
        for index in waiting.pop(key):
            yield Finished(index, outcome, False)

    try:
        for index, job in enumerate(jobs):
            key = cache_key(job, compiler)
            if key in waiting:
                waiting[key].append(index)
            elif key in known:
                yield Finished(index, known[key], False)
            elif (kept := artifacts.get(key, CompiledBinary, CompileFailure)) is not None:
                yield Finished(index, kept, True)
            else:
                waiting[key] = [index]
                futures[key] = pool.submit(job)
                futures[key].add_done_callback(lambda _, key=key: done.put(key))  # type: ignore[misc]
            while not done.empty():
                yield from taken(done.get())
        while futures:
            yield from taken(_next(done))
    finally:
        for future in futures.values():
            future.cancel()


def _next(done: SimpleQueue[str]) -> str:
    """The next key that is done. Raises `AbandonedError` in the background if the interpreter ends meanwhile."""
    with release_gate():
        while True:
            try:
                return done.get(timeout=ENDING_SECONDS)
            except Empty:
                if is_ending():
                    raise AbandonedError from None


def cache_key(job: CompileJob, compiler: str) -> str:
    """A SHA-256, in hexadecimal, of all that decides what comes of a job."""
    parts = [compiler, job.architecture, asdict(job.options), job.text]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@once
def compiler_identity() -> str:
    """Triton's version, where its tools are if not in its own folder, and our own code around it.

    Raises `SetupError` where Triton is not installed.
    """
    try:
        import triton
    except ImportError as error:
        raise SetupError(
            f"Triton cannot be imported ({error}); vkernels compiles with it: pip install triton"
        ) from error
    tools = [(name, os.environ.get(name)) for name in TOOLS]
    ours = [hash_of(f"compiler/{files}") for files in ("backends/*.py", "workers/*.py", "records.py")]
    return json.dumps([triton.__version__, sys.platform, tools, *ours])


def _keep(artifacts: ArtifactCache, key: str, outcome: Outcome) -> bool:
    """Store an outcome on disk if compiling again would give it again. Returns whether it is stored."""
    return (isinstance(outcome, CompiledBinary) or outcome.lasting) and artifacts.put(key, outcome)
