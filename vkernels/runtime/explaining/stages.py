"""The texts that a kernel passes through, from the author's to the machine's."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.errors import OptionError
from vkernels.ir.nearest import meant

_COMMON = {
    "as-written": "vk IR as the author wrote it: one program that holds every position of every axis",
    "after-split-phases": "the same, cut into phases",
    "after-apply-plan": "mapped IR: sizes are constant, chunk loops, homes and launches are there",
}
_BARRIERS = {"after-insert-barriers": "mapped IR with barriers between threads that share memory"}
_SUMS = {"after-block-sums": "mapped IR in which long sums are added up in blocks"}
_MATHS = {"after-expand-math": "mapped IR in which exp, sin, … are multiplications and additions"}
_GPU = {
    **_COMMON,
    **_BARRIERS,
    **_SUMS,
    **_MATHS,
    "ttir": "Triton's IR, as it is handed to Triton",
    "ttgir": "Triton's IR once it has dealt elements out to threads",
}
_CPU = {
    **_COMMON,
    **_SUMS,
    **_MATHS,
    "mlir": "upstream MLIR: vectors, loops, addresses",
    "llvm": "LLVM IR, before LLVM's own passes",
    "assembly": "this machine's instructions",
}
COMPILED = ("ttgir", "ptx", "amdgcn")
"""Stages that only a compiled binary has."""


def stages_of(architecture: str, is_cpu: bool) -> Mapping[str, str]:
    """The stages for a target by name, in their order, each with what it is."""
    if is_cpu:
        return _CPU
    if architecture.startswith("sm_"):
        return {**_GPU, "ptx": "NVIDIA's assembly"}
    return {**_GPU, "amdgcn": "AMD's assembly"}


def check_stage(name: str, architecture: str, is_cpu: bool) -> None:
    """Raise `OptionError`, with what was meant, where a target has no stage of that name."""
    known = stages_of(architecture, is_cpu)
    if name not in known:
        where = "the CPU" if is_cpu else architecture
        raise OptionError(f"--ir: there is no stage {name!r} for {where}; {meant(name, [*known])}")
