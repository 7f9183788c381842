"""A tail of one element: narrowed integers must not be stored wider than they are (LLVM 22 did, with AVX-512)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.ir.plan import Plan


@pytest.mark.sample(11)
@pytest.mark.parametrize("chunk", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("left", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_a_tail_of_narrowed_integers_leaves_its_neighbours_alone(dtype, left, chunk):
    @vk.kernel(plan=Plan(tiles={"i": 2}, chunks={"j": chunk}, lanes="j"))
    def narrow(x: Int[vk.Tensor, "M N"], out: Int[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        out[i, j] = (x[i, j] * 3).to(out.dtype)

    length = left if left < chunk else chunk + left
    x = np.random.default_rng(0).integers(-(1 << 40), 1 << 40, (5, length))
    around = np.full((5, 3 * chunk + 8), 85, dtype)
    narrow(x, around[:, chunk : chunk + length])
    assert np.array_equal(around[:, chunk : chunk + length], (x * 3).astype(dtype))
    around[:, chunk : chunk + length] = 85
    assert (around == 85).all()


@pytest.mark.parametrize("chunk", [2, 8, 16, 32])
@pytest.mark.parametrize("length", [1, 9, 17, 33])
def test_a_tail_of_bf16_leaves_its_neighbours_alone(length, chunk):
    @vk.kernel(plan=Plan(tiles={"i": 2}, chunks={"j": chunk}, lanes="j"))
    def double(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        out[i, j] = x[i, j] * 2.0

    x = torch.randn(5, length, generator=torch.Generator().manual_seed(0))
    around = torch.full((5, length + 64), 7.0, dtype=torch.bfloat16)
    double(x, around[:, 16 : 16 + length])
    assert torch.equal(around[:, 16 : 16 + length], (x * 2).bfloat16())
    around[:, 16 : 16 + length] = 7.0
    assert (around == 7.0).all()
