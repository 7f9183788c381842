"""A pool of compile workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..records import from_bytes, to_bytes
from . import compile_service
from .jobs import CompiledBinary, CompileFailure, CompileJob, Outcome
from .pool import WorkerPool

TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH")
"""What workers keep of the environment variables that Triton reads: where its tools are."""

_SETTINGS = (
    "ALLOW_LHS_TMEM", "AMDGCN_", "DISABLE_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "STORE_TMEM", "TRITON_", "USE_IR_",
)  # fmt: skip
"""How the names of all others begin: workers do without, so that a job alone decides what comes of it."""


class CompilePool(WorkerPool[CompileJob, Outcome]):
    """Compiles in worker processes; see `WorkerPool`.

        with CompilePool() as pool:
            outcome = pool.submit(CompileJob(text, "sm_90", GpuOptions(4, 3))).result()

    A future's result is a `CompiledBinary` or a `CompileFailure`. `compiler` names what workers compile with (see
    `compile_service`).
    """

    service = f"{compile_service.__name__}:serve"
    name = "the compiler"

    def __init__(
        self, workers: int | None = None, seconds: float = 120.0, memory_bytes: int = 4 << 30,
        *, compiler: str = compile_service.TRITON,
    ):  # fmt: skip
        super().__init__(workers, seconds, memory_bytes)
        self._compiler = compiler

    def _arguments(self) -> Sequence[str]:
        return (self._compiler,)

    def _environment(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name in TOOLS or not name.startswith(_SETTINGS)}

    def _encode(self, request: CompileJob) -> bytes:
        return to_bytes(request)

    def _decode(self, answer: bytes, printed: str) -> Outcome:
        outcome: Outcome = from_bytes(answer, CompiledBinary, CompileFailure)
        return replace(outcome, stderr=printed) if isinstance(outcome, CompileFailure) else outcome

    def _failed(self, failure: CompileFailure) -> Outcome:
        return failure
