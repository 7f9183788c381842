"""Persistent programs whose loop goes on to the next tile, in binaries: products, copies and stores in one loop."""

from __future__ import annotations

import pytest

from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir
from vkernels.compiler.binaries.instructions import Kind
from vkernels.compiler.binaries.read_code import read_code
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.ir.plan import Plan
from vkernels.library.dense import matmul_bias
from vkernels.targets import known_targets, limits_of

TARGETS = {target.architecture: target for target in known_targets().values()}


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_one_loop_multiplies_copies_ahead_and_stores(architecture: str) -> None:
    dtypes = {p.name: "float16" for p in matmul_bias.parameters if p.kind == "tensor"}
    constants = {p.name: p.default for p in matmul_bias.parameters if p.kind == "constant"}
    plan = Plan(
        {"i": 64, "j": 128}, {"k": 64}, lanes="j", order=("i", "j"), warps=8, stages=3, resident_programs=64
    )  # fmt: skip
    preparer = KernelPreparer(matmul_bias, dict.fromkeys("MNK", 4096), dtypes, {}, constants, fixed=plan)
    preparer.prepare(limits_of(TARGETS[architecture]))
    (launch,) = preparer.lowered[0].launches
    code = read_code(compile_ttir(launch["text"], architecture, GpuOptions(**launch["options"])))
    (multiplies, *_) = [region for region in code.regions if region.parent is not None and region.tensor]
    assert multiplies.is_innermost
    assert multiplies.count(Kind.COPY) > 0
    assert multiplies.count(Kind.GLOBAL_STORE) > 0
    assert multiplies.spills == 0
