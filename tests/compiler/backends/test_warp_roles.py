"""Warps with roles in binaries: Triton adds warps, which launches have; loops copy or multiply, and bounds say so."""

from __future__ import annotations

import pytest

from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir
from vkernels.compiler.binaries.instructions import Kind
from vkernels.compiler.binaries.launch_loops import launch_loops
from vkernels.compiler.binaries.read_code import read_code
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.ir.plan import Plan
from vkernels.library.dense import matmul_bias
from vkernels.targets import known_targets, limits_of

TARGETS = {target.architecture: target for target in known_targets().values()}
PLAN = Plan(
    {"i": 128, "j": 64}, {"k": 64}, lanes="j", order=("i", "j"), warps=4, stages=3, descriptors=("a", "b"),
    warp_specialized=("k",),
)  # fmt: skip
TRIPS = 8


@pytest.mark.parametrize(("architecture", "warps", "roles"), [
    ("sm_100", 8, [1]), pytest.param("sm_90", 12, [4, 4], marks=pytest.mark.thorough),
])  # fmt: skip
def test_some_warps_copy_and_others_multiply(architecture: str, warps: int, roles: list[int]) -> None:
    dtypes = {p.name: "float16" for p in matmul_bias.parameters if p.kind == "tensor"}
    constants = {p.name: p.default for p in matmul_bias.parameters if p.kind == "constant"}
    sizes, limits = {"M": 1024, "N": 1024, "K": 64 * TRIPS}, limits_of(TARGETS[architecture])
    preparer = KernelPreparer(matmul_bias, sizes, dtypes, {}, constants, fixed=PLAN)
    preparer.prepare(limits)
    (launch,) = preparer.lowered[0].launches
    binary = compile_ttir(launch["text"], architecture, GpuOptions(**launch["options"]))
    assert (binary.warps, binary.threads) == (warps, 32 * warps)
    assert f".reqntid {32 * warps}" in binary.assembly
    code = read_code(binary)
    multiply = [region for region in code.innermost if region.tensor]
    copy = [region for region in code.innermost if region.count(Kind.BULK_COPY)]
    assert [region.warps for region in multiply] == roles
    assert len({region.role for region in (*multiply, *copy)}) == len(roles) + len(copy) == len(roles) + 1
    found = launch_loops(code, launch["text"], limits, 1, (launch["programs"],), sizes)
    products = sum(
        each.trips * sum(use.multiply_adds(each.use.warps) for use in each.use.tensor)
        for each in found.loops if each.trips is not None
    )  # fmt: skip
    assert products == pytest.approx(128 * 64 * 64 * TRIPS, rel=1.2 / TRIPS), "a trip may be peeled off"
    assert found.bound is not None
    assert (
        found.bound.parts["latency"]
        < 1.2
        * max(each.trips * each.use.latency for each in found.loops if each.trips is not None)
        / limits.clock
        * found.bound.waves
        + code.regions[0].latency / limits.clock * found.bound.waves
    )
