"""What a compile worker does: jobs in, binaries or the reasons why there is none out."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable

from vkernels.ir.errors import Error, SetupError

from ..backends.architectures import known
from ..backends.triton_adapter import Binary, GpuOptions
from ..records import from_bytes, to_bytes
from .frames import Handler, Send
from .jobs import CompiledBinary, CompileFailure, CompileFailureReason, CompileJob, Outcome

Compile = Callable[[str, str, GpuOptions], Binary]

TRITON = f"{__name__}:triton_compiler"

_TOOL_DIED = re.compile(r"`ptxas\S*` (?:failed with error code -\d|raised SIG)")
"""How Triton tells that a signal ended the assembler, as the system's does that runs out of memory."""


def serve(send: Send, compiler: str) -> Handler:
    """Compile with what the function `compiler`, `module:function`, gives: tests give other compilers."""
    module, function = compiler.split(":")
    compile_: Compile = getattr(importlib.import_module(module), function)()
    return lambda frame: to_bytes(_outcome(compile_, from_bytes(frame, CompileJob)))


def triton_compiler() -> Compile:
    """Triton, imported so that a job costs only its compile. Raises `SetupError` where it is missing or unknown."""
    try:
        import triton.compiler
    except ImportError as error:
        raise SetupError(
            f"Triton cannot be imported ({error}); vkernels compiles with it: pip install triton"
        ) from error
    known(str(triton.__version__))
    from ..backends.triton_adapter import compile_ttir

    return compile_ttir


def _outcome(compile_: Compile, job: CompileJob) -> Outcome:
    begun = time.perf_counter()
    try:
        binary = compile_(job.text, job.architecture, job.options)
    except Exception as error:
        return _failure(error, time.perf_counter() - begun)
    return CompiledBinary(binary, time.perf_counter() - begun)


def _failure(error: Exception, seconds: float) -> CompileFailure:
    if isinstance(error, MemoryError):
        return CompileFailure(CompileFailureReason.OUT_OF_MEMORY, "the compiler ran out of memory", seconds)
    if _TOOL_DIED.search(str(error)):
        return CompileFailure(CompileFailureReason.CRASH, str(error), seconds)
    plain = type(error) is RuntimeError or isinstance(error, Error)
    message = str(error) if plain else f"{type(error).__name__}: {error}"
    lasting = not isinstance(error, SetupError | OSError | ImportError)
    return CompileFailure(CompileFailureReason.ERROR, message, seconds, lasting=lasting)
