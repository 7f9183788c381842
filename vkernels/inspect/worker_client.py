"""Requests to worker processes that execute users' files and lower kernels, where a hang does no harm."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from vkernels.compiler.backends.triton_kernels import TritonSourceError
from vkernels.compiler.workers.jobs import CompileFailure, CompileFailureReason
from vkernels.compiler.workers.pool import WorkerPool
from vkernels.ir import errors

from .cases import KernelSource

Progress = Callable[[str, int, int], None]
"""Gets the present step, the number of completed parts, and the number of all parts."""

Answer = dict[str, Any]

SERVICE = f"{__package__}.worker_service:serve"
SECONDS = 120.0
"""Time limit for executing a file, or for lowering a kernel for all targets."""
_FAILURE = "failure"


class InspectPool(WorkerPool[Mapping[str, Any], Answer]):
    """Workers that answer `inspect.worker_service`'s requests. `answer_of` reads a future's result."""

    name = "the process that executes it"

    def __init__(self, workers: int | None = None, seconds: float = SECONDS, *, service: str = SERVICE):
        super().__init__(workers, seconds)
        self.service = service

    def _encode(self, request: Mapping[str, Any]) -> bytes:
        return json.dumps(request).encode()

    def _decode(self, answer: bytes, printed: str) -> Answer:
        found: Answer = json.loads(answer)
        return found

    def _failed(self, failure: CompileFailure) -> Answer:
        if failure.reason == CompileFailureReason.TIME_OUT:
            return {_FAILURE: f"executing it and lowering its kernels took more than {failure.seconds:.0f} s"}
        if failure.reason == CompileFailureReason.OUT_OF_MEMORY:
            return {_FAILURE: "executing it and lowering its kernels took too much memory"}
        return {_FAILURE: failure.message}


class LaunchPool(InspectPool):
    """Workers that compile launches of plain Triton kernels."""

    name = "the compiler"

    def _failed(self, failure: CompileFailure) -> Answer:
        return {_FAILURE: failure.message}


def failure_of(answer: Answer) -> str:
    """Why there is no answer: the worker took too long or too much memory, or died. Empty if it answered."""
    return str(answer.get(_FAILURE, ""))


def answer_of(answer: Answer, what: str) -> Answer:
    """Check the answer to a request about `what`.

    Raises the worker's errors by their class, `FileError` if it did not answer, and `RuntimeError` with the worker's
    traceback for a bug of ours.
    """
    if _FAILURE in answer:
        raise errors.FileError(f"{what}: {answer[_FAILURE]}")
    if "bug" in answer:
        raise RuntimeError(f"{what}: a bug in the process that executes it:\n{answer['bug']}")
    if "error" in answer:
        raise mistake(answer)
    return answer


def mistake(answer: Answer) -> errors.Error:
    """The error that an answer describes."""
    kinds: dict[str, type[errors.Error]] = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.Error)
    }
    kinds["TritonSourceError"] = TritonSourceError
    return kinds.get(answer["error"], errors.Error)(answer["message"])


def describe(pool: InspectPool, source: KernelSource) -> Answer:
    """The declaration of a kernel in a user's file."""
    request = {"kind": "describe", "source": vars(source)}
    return answer_of(pool.submit(request).result(), source.shown)
