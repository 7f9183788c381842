"""Asking children to prepare kernels, so that users' files are executed and may hang where that does no harm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from vkernels.ir import errors

from ..compile.jobs import CompileFailure, Outcome, Reason
from ..compile.triton_kernels import TritonSourceError
from ..compile.workers import CompilePool
from .cases import Source
from .preparing import PREPARER, Answer, answer_in, request_job

Progress = Callable[[str, int, int], None]
"""Told what is done now, how many steps of it are done and how many there are."""

SECONDS = 120.0
"""How long a child may take to execute a file, or to lower a kernel for all targets."""


def preparing_pool(workers: int | None, seconds: float = SECONDS) -> CompilePool:
    """Children that answer requests. Use it as a `CompilePool`: leaving the block ends them."""
    return CompilePool(workers, seconds, compiler=PREPARER)


def ask(pool: CompilePool, request: Mapping[str, Any]) -> Future[Outcome]:
    """Ask for something; `answer_of` reads what comes."""
    return pool.submit(request_job(request))


def answer_of(outcome: Outcome, what: str) -> Answer:
    """The answer to a request about `what`.

    Raises the mistakes that the child found, by their class, and `FileError` where it came to no answer.
    """
    if isinstance(outcome, CompileFailure):
        raise errors.FileError(f"{what}: {_no_answer(outcome)}")
    answer = answer_in(outcome.binary)
    if "error" in answer:
        raise mistake(answer)
    return answer


def mistake(answer: Answer) -> errors.Error:
    """The mistake that an answer tells of."""
    kinds: dict[str, type[errors.Error]] = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.Error)
    }
    kinds["TritonSourceError"] = TritonSourceError
    return kinds.get(answer["error"], errors.Error)(answer["message"])


def describe(pool: CompilePool, source: Source) -> Answer:
    """What a kernel in a user's file declares: see `preparing`."""
    request = {"kind": "describe", "source": vars(source)}
    return answer_of(ask(pool, request).result(), source.shown)


def _no_answer(failure: CompileFailure) -> str:
    if failure.reason == Reason.TIME_OUT:
        return f"executing it and lowering its kernels took more than {failure.seconds:.0f} s"
    if failure.reason == Reason.OUT_OF_MEMORY:
        return "executing it and lowering its kernels took too much memory"
    return failure.message.replace("the compiler", "the process that executes it")
