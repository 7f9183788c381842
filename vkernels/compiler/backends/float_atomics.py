"""A rewrite of LLVM IR text: atomic sums of floats may be instructions of AMD's memory."""

from __future__ import annotations

import re

_SUM = re.compile(r"( = atomicrmw fadd ptr addrspace\(1\) .*?)((?:, ![\w.]+ !\d+)*)$", re.MULTILINE)
_NATIVE = ", !amdgpu.no.fine.grained.memory !{}, !amdgpu.ignore.denormal.mode !{}"


def with_native_sums(llvm_ir: str) -> str:
    """LLVM IR for AMD whose atomic sums of floats in global memory may be native instructions.

    Without this LLVM makes compare-and-swap of them on gfx90a, and of f32 on gfx11. Tensors must be in the device's own
    memory: in fine-grained memory of the host some devices ignore these instructions. Subnormal numbers of f32 may be
    flushed to 0, as NVIDIA's `RED.ADD.F32.FTZ` does.
    """
    return _SUM.sub(rf"\g<1>{_NATIVE}\g<2>", llvm_ir)
