"""Tensors that a kernel loads in several places are packed place by place, with the right elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Complex64, Float

import vkernels as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.needs.annotate import needs_of
from vkernels.ir.dialect import KernelOp
from vkernels.language.kernel import Kernel


@vk.kernel
def complex_product(x: Complex64[vk.Tensor, "M K"], y: Complex64[vk.Tensor, "K N"], out: Complex64[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j])


@vk.kernel
def gram(x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "K M"], out: Float[vk.Tensor, "M M"]):
    """Rows of x with each other, and with y: x is loaded by two tile axes, by one of them twice."""
    i = vk.tile("M")
    j = vk.tile("M")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], x[j, k]) * vk.sum(x[i, k], axis=k) + vk.dot(x[i, k], y[k, j])


@vk.kernel
def shifted(x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    """One load of y has a mask, so y is not packed; x is."""
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j]) + vk.dot(x[i, k], y[k + 1, j])


def drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    parts = random.standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if dtype == "complex64" else parts[0]).astype(dtype)


def planned(kernel: Kernel, **pins) -> Kernel:
    return Kernel(kernel.function, replace(kernel.options, plan=vk.Pin(**pins)))


def packable(kernel: Kernel, dtype: str):
    names = kernel.function.__annotations__
    module = kernel.build(Signature(tuple((name, dtype) for name in names if name != "return"), (), ()))
    (found,) = (op for op in module.walk() if isinstance(op, KernelOp))
    return needs_of(phases_of(found)).packable


def test_each_place_of_a_tensor_that_is_only_loaded_can_be_packed():
    planes = packable(complex_product, "float32")
    assert planes == {"x": ((("i",), "k"),) * 2, "y": ((("j",), "k"),) * 2}
    assert packable(gram, "float32") == {"x": ((("i",), "k"), (("j",), "k")), "y": ((("j",), "k"),)}
    assert packable(shifted, "float32") == {"x": ((("i",), "k"),)}


@pytest.mark.slow
@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("chunk", [1, 3, 16])
def test_planes_of_complex_numbers_are_packed(lanes, chunk):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    m, n, k = (int(size) for size in random.integers(1, 60, 3))
    x, y = drawn(random, (m, k), "complex64"), drawn(random, (n, k), "complex64").T
    out = np.full((m, n), np.nan, np.complex64)
    kernel = planned(complex_product, tiles={"i": 5, "j": 16}, chunks={"k": chunk}, packs=("x", "y"), lanes=lanes)
    kernel(x, y, out)
    bound = (2 * k + 4) * 2.0**-23 * (np.abs(x.astype(np.complex128)) @ np.abs(y))
    assert (np.abs(out - x.astype(np.complex128) @ y) <= bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("packs", [("x",), ("x", "y")], ids=",".join)
def test_a_tensor_loaded_by_several_axes_has_a_pack_for_each(packs, dtype):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    m, k = (int(size) for size in random.integers(1, 60, 2))
    x, y = drawn(random, (m, k), dtype), drawn(random, (k, m), dtype)
    out = np.full((m, m), np.nan, dtype)
    planned(gram, tiles={"i": 4, "j": 16}, chunks={"k": 3}, packs=packs, lanes="j")(x, y, out)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    expected = wide @ wide.T * wide.sum(1)[:, None] + wide @ other
    size = np.abs(wide) @ np.abs(wide).T * np.abs(wide).sum(1)[:, None] + np.abs(wide) @ np.abs(other)
    bound = (2 * k + 4) * 2.0**-23 * size + (2.0**-10 if dtype == "float16" else 0) * np.abs(expected)
    assert (np.abs(out - expected) <= bound).all()


def test_a_tensor_with_a_masked_load_is_not_packed():
    x, y, out = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32), np.full((4, 16), np.nan, np.float32)
    with pytest.raises(vk.Error, match="y is indexed by more than its axes"):
        planned(shifted, packs=("y",))(x, y, out)
