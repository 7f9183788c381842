"""Triton compiles what is lowered, with wide loads and tensor cores, with no GPU present."""

from __future__ import annotations

import re

import pytest

from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions, compile_ttir
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.plan import Home, Plan

from .lowering import kernel, lowered

ARCHITECTURES = ("sm_80", "gfx942")
INNER = {"x": (-1, 1), "out": (-1, 1)}
ALIGNED = Facts(multiples={"N": 16}, strides=INNER, aligned=("x", "out"), distinct=True)
MATMUL = Facts(
    multiples={"K": 32, "N": 16}, strides={"a": (-1, 1), "b": (-1, 1), "out": (-1, 1), "bias": (1,)},
    aligned=("a", "b", "out", "bias"), distinct=True,
)  # fmt: skip


def compiled(ttir: LoweredTtir, architecture: str, warps: int = 4, stages: int = 3) -> list[Binary]:
    return [
        compile_ttir(
            print_ttir(launch.module, locations=True), architecture, GpuOptions(warps, stages, launch.scratch_bytes)
        )
        for launch in ttir.launches
    ]


def accesses(binary: Binary) -> set[str]:
    """The kinds of loads and stores of global memory."""
    return set(re.findall(r"(?:ld|st)\.global[.\w]*|(?:global|buffer)_(?:load|store)_\w+", binary.assembly))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_softmax_loads_and_stores_16_bytes_with_and_without_masks(architecture: str) -> None:
    (binary,) = compiled(lowered(kernel("softmax"), Plan({"i": 1}, {"j": 1024}), ALIGNED), architecture)
    found = accesses(binary)
    assert found
    assert all("v4" in name or name.endswith("dwordx4") for name in found), found
    assert binary.name == "softmax_launch_0"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_facts_loads_are_narrow_so_the_test_above_can_fail(architecture: str) -> None:
    (binary,) = compiled(lowered(kernel("softmax"), Plan({"i": 1}, {"j": 1024}), Facts()), architecture)
    assert not any("v4" in name or name.endswith("dwordx4") for name in accesses(binary))


@pytest.mark.parametrize(("architecture", "instruction"), [("sm_80", "mma.sync"), ("gfx942", "v_mfma_")])
def test_matmul_runs_on_tensor_cores(architecture: str, instruction: str) -> None:
    plan = Plan({"i": 64, "j": 64}, {"k": 32}, order=("i", "j"))
    (binary,) = compiled(lowered(kernel("matmul"), plan, MATMUL), architecture)
    assert instruction in binary.assembly
    if architecture == "sm_80":
        assert "cp.async" in binary.assembly


@pytest.mark.parametrize(("architecture", "product"), [("sm_90", "wgmma"), ("sm_100", "tcgen05.mma")])
def test_operands_and_results_go_through_descriptors(architecture: str, product: str) -> None:
    """Nothing is loaded past threads any more but the bias, and each program has scratch memory for its descriptors."""
    names = "a", "b", "out"
    plan = Plan({"i": 128, "j": 64}, {"k": 32}, order=("i", "j"), descriptors=names)
    (binary,) = compiled(lowered(kernel("matmul"), plan, MATMUL), architecture)
    assert product in binary.assembly
    assert "cp.async.bulk.tensor.2d.shared" in binary.assembly
    assert re.search(r"cp\.async\.bulk\.tensor\.2d\.global", binary.assembly)
    assert "cp.async.cg" not in binary.assembly
    assert "st.global.v" not in binary.assembly
    assert binary.global_scratch == 128 * len(names)


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("name", "plan", "facts"), [
    ("layer_norm", Plan({"i": 4}, {"j": 256}), ALIGNED),
    ("layer_norm", Plan({"i": 2}, {"j": 64}, splits={"j": 4}), Facts()),
    ("softmax", Plan({"i": 4}, {"j": 64}, {"e": Home.MEMORY}), Facts({"N": 150})),
    ("matmul", Plan({"i": 8, "j": 16}, {"k": 16}, order=("i", "j")), Facts()),
    ("private_copies", Plan({"i": 128}, lanes="i", private_copies=16), Facts(distinct=True)),
    ("spdnn", Plan({"i": 16}, {"n": 64}, copies=("features",)), Facts({"N": 512})),
])  # fmt: skip
def test_kernels_of_all_kinds_compile(name: str, plan: Plan, facts: Facts, architecture: str) -> None:
    ttir = lowered(kernel(name), plan, facts)
    for launch, binary in zip(ttir.launches, compiled(ttir, architecture), strict=True):
        assert binary.name == launch.name
        assert binary.shared >= launch.scratch_bytes
        assert binary.code
