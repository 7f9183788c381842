"""The compiler stages of a target: those of the passes (`vkernels.ir.pipeline`), then those of the backend."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.facts import Facts
from vkernels.ir.pipeline import cpu_pipeline, gpu_pipeline
from vkernels.ir.pipeline import stages_of as stages_of_passes
from vkernels.ir.plan import Plan

_CPU = {
    "mlir": "upstream MLIR: vectors, loops, addresses",
    "llvm": "LLVM IR, before LLVM's own passes",
    "assembly": "this machine's instructions",
}
_GPU = {
    "ttir": "Triton's IR, the input of Triton",
    "ttgir": "Triton's IR with elements assigned to threads",
}


def stages_of(architecture: str, is_cpu: bool) -> Mapping[str, str]:
    """Return the stages of a target in order, by name, with a description."""
    if is_cpu:
        return {**stages_of_passes(cpu_pipeline(Plan(), Facts())), **_CPU}
    assembly = {"ptx": "NVIDIA's assembly"} if architecture.startswith("sm_") else {"amdgcn": "AMD's assembly"}
    return {**stages_of_passes(gpu_pipeline(Plan(), Facts())), **_GPU, **assembly}


def check_stage(name: str, architecture: str, is_cpu: bool) -> None:
    """Raise `OptionError` with the nearest name if a target has no such stage."""
    known = stages_of(architecture, is_cpu)
    if name not in known:
        where = "the CPU" if is_cpu else architecture
        raise OptionError(f"--ir: unknown stage {name!r} for {where}; {did_you_mean(name, [*known])}")
