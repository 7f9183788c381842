"""A compile worker: reads jobs from its standard input, compiles, answers on its standard output, until that ends.

    python -m vkernels.runtime.compile.worker_main COMPILER LIFE

COMPILER names a function, `module:function`, that gives the one to compile with: tests give another. LIFE is the
number of a pipe's reading end; the pool keeps the other end open as long as it lives.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from vkernels.ir.errors import Error, SetupError

from .architectures import known
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
    _die_with_the_pool(life)
    _be_modest()
    jobs, answers = _take_streams()
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


def _die_with_the_pool(life: int) -> None:
    """Let the kernel kill the whole group, this process and its children, as soon as the pool's process is gone.

    Python code would be too late: a compiler that hangs may hold the interpreter's lock. The kernel's own signal at a
    parent's death reaches this process alone, and comes at the end of the thread that started it.
    """
    os.set_inheritable(life, False)
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:  # it was gone before
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _be_modest() -> None:
    """No core files; and where the system runs out of memory, the compiler goes first."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _take_streams() -> tuple[BinaryIO, int]:
    """The two pipes for messages, which children do not inherit. What compilers print goes to standard error."""
    jobs, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(jobs, "rb"), answers


def _answer(answers: int, message: bytes) -> None:
    data = memoryview(framed(message))
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # nobody waits for the answer any more
        main(sys.argv[1], int(sys.argv[2]))
