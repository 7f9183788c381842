"""Products of f8: on the tensor cores that take it, as f16 where there are none, right as a GPU adds them."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Num

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import assert_close, fresh_seed, normal
from vkernels.compiler.backends.resources import read_resources
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.compiler.binaries.read_sass import disassemble
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.library import batched_matmul, matmul
from vkernels.library.dense import matmul_bias
from vkernels.targets import known_targets, limits_of

from .texts import compiled

TARGETS = {target.architecture: target for target in known_targets().values()}
WIDE = vk.Plan(tiles={"i": 128, "j": 128}, chunks={"k": 64}, warps=4, stages=3, order=("i", "j"), lanes="j")
EIGHT = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


@vk.kernel
def product(a: Num[vk.Tensor, "M K"], b: Num[vk.Tensor, "K N"], out: Num[vk.Tensor, "M N"]) -> None:
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


def binary_of(dtype: str, architecture: str, precision: str = "ieee") -> Binary:
    """A product of large matrices of f8, its results f16, compiled for an architecture."""
    dtypes = {"a": dtype, "b": dtype, "bias": "float16", "out": "float16"}
    constants = {"activation": "relu", "precision": precision}
    return last_launch(KernelPreparer(matmul_bias, dict.fromkeys("MNK", 4096), dtypes, {}, constants), architecture)


def last_launch(preparer: KernelPreparer, architecture: str) -> Binary:
    preparer.prepare(limits_of(TARGETS[architecture]))
    *_, launch = preparer.lowered[0].launches  # others copy operands
    options = GpuOptions(**launch["options"])
    return compiled(
        launch["text"], architecture, warps=options.warps, stages=options.stages, scratch=options.scratch_bytes
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("dtype", "architecture"),
    [
        ("float8_e4m3fn", "sm_89"),
        ("float8_e5m2", "sm_89"),
        ("float8_e4m3fn", "gfx942"),
        pytest.param("float8_e5m2", "sm_90", marks=pytest.mark.thorough),
        pytest.param("float8_e5m2", "gfx942", marks=pytest.mark.thorough),
    ],
)
def test_tensor_cores_multiply_them(dtype: str, architecture: str) -> None:
    binary = binary_of(dtype, architecture)
    assert read_resources(binary).mix.tensor_core > 0
    if architecture == "sm_89":
        assert f".f32.{EIGHT[dtype]}.{EIGHT[dtype]}.f32" in binary.assembly


@pytest.mark.slow
def test_hopper_takes_them_as_they_are_where_sums_may_have_fewer_bits() -> None:
    exact, quick = (binary_of("float8_e4m3fn", "sm_90", precision) for precision in ("ieee", "tf32"))
    assert "mma.sync" in exact.assembly
    assert "wgmma" not in exact.assembly
    assert ".f32.e4m3.e4m3" in quick.assembly
    code = disassemble(quick.code, 60)
    assert code.count("QGMMA") >= 4 * code.count("WARPGROUP.DEPBAR")  # ptxas takes those of one chunk together


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("dtype", EIGHT)
def test_devices_without_them_multiply_them_as_f16(dtype: str, architecture: str) -> None:
    binary = binary_of(dtype, architecture)
    assert read_resources(binary).mix.tensor_core > 0


@pytest.mark.parametrize(
    ("dtype", "architecture", "dot"),
    [("int8", "sm_80", "IMMA"), ("int8", "sm_89", "IMMA"), ("float8_e4m3fn", "sm_89", "QMMA")],
)
def test_operands_are_carried_through_loops_in_words(dtype: str, architecture: str, dot: str) -> None:
    dtypes = {"a": dtype, "b": dtype, "out": "int32" if dtype == "int8" else "float32"}
    preparer = KernelPreparer(product, dict.fromkeys("MNK", 4096), dtypes, {}, {}, WIDE, strides={"b": (1, 4096)})
    code = disassemble(last_launch(preparer, architecture).code, 60)
    assert code.count(dot) >= 16
    assert code.count("PRMT") < code.count(dot) / 4  # bytes that are taken apart and put together


@pytest.mark.sample(2)
@pytest.mark.parametrize("limits", [NVIDIA, AMD], ids=["NVIDIA", "AMD"])
@pytest.mark.parametrize("dtype", EIGHT)
@pytest.mark.parametrize("size", [(33, 70, 41), (5, 3, 1), (64, 64, 64)])
def test_sums_are_those_of_float64(size: tuple[int, int, int], dtype: str, limits: vk.Limits) -> None:
    seed, (m, k, n), eight = fresh_seed(), size, getattr(torch, dtype)
    a, b = normal((m, k), torch.float32, seed).to(eight), normal((n, k), torch.float32, seed + 1).to(eight).t()
    bias = normal((n,), torch.float32, seed + 2)
    expected = a.double() @ b.double() + bias.double()
    with on_a_gpu(limits, seed) as gpu:
        single, half, batch = matmul(a, b, bias), matmul(a, b, bias, dtype="bfloat16"), batched_matmul(a[None], b)
    assert gpu.ran["matmul_bias"] == 3
    assert_close(single, expected, terms=k, scale=k**0.5)
    assert_close(half, expected, terms=k, scale=k**0.5)
    assert_close(batch[0], a.double() @ b.double(), terms=k, scale=k**0.5)


def test_results_of_eight_bits_are_rounded_once() -> None:
    values = torch.cat([torch.linspace(-350, 350, 1001), torch.tensor([float("nan")])])[:, None]
    numbers, factor = (tensor.to(torch.float8_e4m3fn) for tensor in (values, torch.tensor([[1.125]])))
    out = torch.empty(1002, 1, dtype=torch.float8_e4m3fn)
    with on_a_gpu(NVIDIA, 1):
        matmul(numbers, factor, out=out)
    expected = (numbers.float() * 1.125).to(torch.float8_e4m3fn)
    torch.testing.assert_close(out.float(), expected.float(), rtol=0, atol=0, equal_nan=True)
