"""Kernels of unsigned integers are real binaries: divisions, conversions, atomics, and products on tensor cores."""

from __future__ import annotations

import re

import pytest
from jaxtyping import Float, Integer

import vkernels as vk
from vkernels.compiler.backends.resources import read_resources
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.targets import known_targets, limits_of

from .texts import compiled

TARGETS = {target.architecture: target for target in known_targets().values()}
ARCHITECTURES = ["sm_90", "gfx942"]
ATOMIC = {"sm_90": r"(atom|red)\..*\.max\.u(32|64)", "gfx942": r"atomic_umax"}


@vk.kernel
def everything(
    x: Integer[vk.Tensor, "M N"],
    y: Integer[vk.Tensor, "M N"],
    scale: Float[vk.Tensor, "N"],
    out: Integer[vk.Tensor, "M N"],
    best: Integer[vk.Tensor, "M"],
    top: Integer[vk.Tensor, "97"],
):
    i, j = vk.tile("M"), vk.whole("N")
    a, b = x[i, j], y[i, j]
    part = vk.where(a < b, a // b, a % b) + (a >> 3) + a ** (b & 7)
    out[i, j] = (part.to(vk.float32) * scale[j]).to(out.dtype) + vk.cumulative_max(a, axis=j)
    best[i] = vk.argmax(a, axis=j) + vk.min(b, axis=j).to(vk.int64)
    vk.atomic_max(top[a % 97], b)


@vk.kernel
def products(a: Integer[vk.Tensor, "M K"], b: Integer[vk.Tensor, "K N"], out: Integer[vk.Tensor, "M N"]):
    m, n, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[m, n] = vk.dot(a[m, k], b[k, n], axis=k)


def binaries_of(kernel: vk.Kernel, sizes: dict[str, int], dtypes: dict[str, str], architecture: str) -> list[Binary]:
    """One a launch."""
    preparer = KernelPreparer(kernel, sizes, dtypes, {}, {})
    preparer.prepare(limits_of(TARGETS[architecture]))
    found = []
    for launch in preparer.lowered[0].launches:
        options = GpuOptions(**launch["options"])
        sizes = {"warps": options.warps, "stages": options.stages, "scratch": options.scratch_bytes}
        found.append(compiled(launch["text"], architecture, **sizes))
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_what_depends_on_the_sign(architecture: str, dtype: str) -> None:
    top = dtype if dtype in ("uint32", "uint64") else "uint32"
    dtypes = {"x": dtype, "y": dtype, "scale": "float32", "out": dtype, "best": "int64", "top": top}
    binaries = binaries_of(everything, {"M": 4096, "N": 512}, dtypes, architecture)
    assembly = [line for binary in binaries for line in binary.assembly.splitlines()]
    assert [line for line in assembly if re.search(ATOMIC[architecture], line)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("left", "right"), [("uint8", "uint8"), ("uint8", "int8"), ("int8", "uint8")])
def test_tensor_cores_multiply_unsigned_bytes(architecture: str, left: str, right: str) -> None:
    dtypes = {"a": left, "b": right, "out": "int32"}
    (binary,) = binaries_of(products, dict.fromkeys("MNK", 1024), dtypes, architecture)
    assert read_resources(binary).mix.tensor_core > 0
