"""A compile worker: reads jobs from its standard input, compiles, answers on its standard output, until that ends.

    python -m vkernels.runtime.compile.worker_main COMPILER LIFE

COMPILER names a function, `module:function`, that gives the one to compile with: tests give another. LIFE is the
number of a pipe's reading end; the pool keeps the other end open as long as it lives.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from vkernels.ir.errors import Error, SetupError

from .architectures import known
from .child import be_modest, die_with_parent, take_streams
from .frames import framed, read_frame
from .jobs import Compiled, CompileFailure, CompileJob, Outcome, Ready, Reason
from .records import from_bytes, to_bytes
from .triton_adapter import Binary, GpuOptions

Compile = Callable[[str, str, GpuOptions], Binary]

_TOOL_DIED = re.compile(r"`ptxas\S*` (?:failed with error code -\d|raised SIG)")
"""How Triton tells that a signal ended the assembler, as the system's does that runs out of memory."""


def triton_compiler() -> Compile:
    """Triton, imported so that a job costs only its compile. Raises `SetupError` where it is missing or unknown."""
    try:
        import triton.compiler
    except ImportError as error:
        raise SetupError(
            f"Triton cannot be imported ({error}); vkernels compiles with it: pip install triton"
        ) from error
    known(str(triton.__version__))
    from .triton_adapter import compile_ttir

    return compile_ttir


def main(compiler: str, life: int) -> None:
    """Serve jobs until there are no more."""
    die_with_parent(life)
    be_modest()
    jobs, answers = take_streams()
    try:
        module, function = compiler.split(":")
        compile_: Compile = getattr(importlib.import_module(module), function)()
    except SetupError as error:
        _answer(answers, to_bytes(Ready(str(error))))
        return
    _answer(answers, to_bytes(Ready("")))
    while (frame := read_frame(jobs)) is not None:
        _answer(answers, to_bytes(_outcome(compile_, from_bytes(frame, CompileJob))))


def _outcome(compile_: Compile, job: CompileJob) -> Outcome:
    begun = time.perf_counter()
    try:
        binary = compile_(job.text, job.architecture, job.options)
    except Exception as error:
        return _failure(error, time.perf_counter() - begun)
    return Compiled(binary, time.perf_counter() - begun)


def _failure(error: Exception, seconds: float) -> CompileFailure:
    if isinstance(error, MemoryError):
        return CompileFailure(Reason.OUT_OF_MEMORY, "the compiler ran out of memory", seconds)
    if _TOOL_DIED.search(str(error)):
        return CompileFailure(Reason.CRASH, str(error), seconds)
    plain = type(error) is RuntimeError or isinstance(error, Error)
    message = str(error) if plain else f"{type(error).__name__}: {error}"
    lasting = not isinstance(error, SetupError | OSError | ImportError)
    return CompileFailure(Reason.ERROR, message, seconds, lasting=lasting)


def _answer(answers: int, message: bytes) -> None:
    data = memoryview(framed(message))
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # nobody waits for the answer any more
        main(sys.argv[1], int(sys.argv[2]))
