"""Swap space whose size each call decides, through the runtime."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.ir.plan import Home, Plan
from vkernels.runtime.threads import get_threads, set_threads


@vk.kernel
def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]) -> None:
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@softmax.plan
def plan_softmax(sizes, dtypes, limits):
    return Plan({"i": 4}, {"j": 64}, {"e": Home.MEMORY}, lanes="j")


@pytest.fixture(params=[1, 3])
def threads(request):
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


def test_one_compiled_kernel_takes_rows_of_any_length(threads):
    numbers = torch.Generator().manual_seed(0)
    for rows, length in ((7, 150), (300, 3001), (40, 20_000), (7, 150), (5, 1)):
        x = torch.randn(rows, length, generator=numbers)
        out = torch.full_like(x, torch.nan)
        for _ in range(4):
            softmax(x, out)
        torch.testing.assert_close(out, torch.softmax(x.double(), -1).float())
