"""Products of small integers with bf16 and f16 are those of the integers as f32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int8, UInt8

import vkernels as vk
from vkernels.language.kernel import Kernel


@vk.kernel
def signed(x: Float[vk.Tensor, "M K"], w: Int8[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], w[j, k].to(vk.float32))


@vk.kernel
def unsigned(x: Float[vk.Tensor, "M K"], w: UInt8[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(w[j, k].to(vk.float32), x[i, k])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel", [signed, unsigned])
@pytest.mark.parametrize("pin", [{}, {"tiles": {"i": 4, "j": 16}, "chunks": {"k": 3}, "lanes": "j"}])
def test_every_integer_is_multiplied_exactly(kernel, dtype, pin):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    torch.manual_seed(seed)
    least = -128 if kernel is signed else 0
    every = torch.arange(least, least + 256)
    w = torch.stack([every, every.flip(0), every[torch.randperm(256)]]).to(
        torch.int8 if kernel is signed else torch.uint8
    )
    x = torch.randn(5, 256).to(dtype)
    out = torch.full((5, 3), float("nan"), dtype=torch.float32)
    Kernel(kernel.function, replace(kernel.options, plan=vk.Pin(**pin) if pin else None))(x, w, out)
    expected = x.double() @ w.double().T
    bound = 300 * 2.0**-24 * (x.double().abs() @ w.double().abs().T)
    assert ((out.double() - expected).abs() <= bound).all()
