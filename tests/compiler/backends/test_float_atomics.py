"""Atomic sums of floats are instructions of the memory, not loops of compare-and-swap, wherever there are such."""

from __future__ import annotations

import re

import pytest
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.compiler.backends.float_atomics import with_native_sums
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.targets import known_targets, limits_of

from .texts import compiled

TARGETS = {target.architecture: target for target in known_targets().values()}
CAS = re.compile(r"atomic_cmpswap|atom\.\S*cas")
NATIVE = {
    ("sm_75", "float16"): r"add\.noftz\.f16x2", ("sm_80", "float16"): r"add\.noftz\.f16x2",
    ("sm_90", "float16"): r"add\.noftz\.v2\.f16", ("sm_90", "bfloat16"): r"add\.noftz\.v2\.bf16",
    ("sm_120", "bfloat16"): r"add\.noftz\.v2\.bf16", ("gfx90a", "float16"): r"global_atomic_pk_add_f16",
    ("gfx942", "float16"): r"global_atomic_pk_add_f16", ("gfx950", "bfloat16"): r"global_atomic_pk_add_bf16",
    ("gfx90a", "float32"): r"global_atomic_add_f32", ("gfx1100", "float32"): r"global_atomic_add_f32",
    ("sm_80", "float32"): r"add\.f32",
}  # fmt: skip


@vk.kernel(plan=vk.Pin(tiles={"i": 512}, warps=4))
def scattered(index: Int[vk.Tensor, "N"], w: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(out[index[i]], w[i])


@vk.kernel(plan=vk.Pin(tiles={"i": 4, "k": 512}, warps=4))
def in_rows(index: Int[vk.Tensor, "N"], w: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "B K"]):
    i, k = vk.tile("N"), vk.tile("K")
    vk.atomic_add(out[index[i], k], w[i, k])


def assembly_of(kernel: vk.Kernel, sizes: dict[str, int], dtype: str, architecture: str) -> str:
    """Of the kernel's one launch: PTX, or AMD's."""
    preparer = KernelPreparer(kernel, sizes, {"index": "int64", "w": dtype, "out": dtype}, {}, {})
    preparer.prepare(limits_of(TARGETS[architecture]))
    (launch,) = preparer.lowered[0].launches
    return compiled(launch["text"], architecture, warps=launch["options"]["warps"]).assembly


@pytest.mark.sample(2)
@pytest.mark.parametrize(("architecture", "dtype"), NATIVE)
def test_scattered_elements_are_added_by_instructions(architecture: str, dtype: str) -> None:
    assembly = assembly_of(scattered, {"N": 4096, "B": 512}, dtype, architecture)
    assert re.search(NATIVE[architecture, dtype], assembly)
    assert not CAS.search(assembly)
    assert not re.search(r"add\.noftz\.b?f16 ", assembly)  # one f16 alone: ptxas makes compare-and-swap of it


@pytest.mark.thorough
@pytest.mark.parametrize(("architecture", "dtype"), [each for each in NATIVE if each[1] != "float32"])
@pytest.mark.parametrize("length", [512, 511])
def test_rows_are_added_by_instructions(architecture: str, dtype: str, length: int) -> None:
    """Rows of an odd length end with half a word, which alone is not."""
    assembly = assembly_of(in_rows, {"N": 4096, "K": length, "B": 512}, dtype, architecture)
    native = NATIVE[architecture, dtype].replace("v2", "v[248]")
    assert re.search(native, assembly)
    assert length % 2 or not CAS.search(assembly)


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89"])
@pytest.mark.parametrize("kernel", [scattered, in_rows], ids=lambda kernel: kernel.name)
def test_bf16_is_added_by_compare_and_swap_where_there_is_nothing_else(kernel: vk.Kernel, architecture: str) -> None:
    assert CAS.search(assembly_of(kernel, {"N": 4096, "K": 512, "B": 512}, "bfloat16", architecture))


def test_only_sums_of_floats_in_global_memory_are_marked() -> None:
    sum_, other = "  %1 = atomicrmw fadd ptr addrspace(1) %0, float %x monotonic, align 4", ", !dbg !7\n"
    text = f"{sum_}{other}{sum_.replace('(1)', '(3)')}{other}{sum_.replace('fadd', 'add')}{other}"
    first, *rest = with_native_sums(text).splitlines()
    assert first == f"{sum_}, !amdgpu.no.fine.grained.memory !{{}}, !amdgpu.ignore.denormal.mode !{{}}, !dbg !7"
    assert rest == text.splitlines()[1:]
