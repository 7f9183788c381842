"""Conversions of f8 on processors that have none: every number, and the roundings of fresh ones, against torch."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import fresh_seed

FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2]


@vk.kernel
def converted(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i]


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", FORMATS)
def test_every_number_is_extended_exactly_and_comes_back(dtype: torch.dtype, wide: torch.dtype) -> None:
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype)
    out = torch.full((256,), 7.0, dtype=wide)
    converted(numbers, out)
    torch.testing.assert_close(out, numbers.to(wide), rtol=0, atol=0, equal_nan=True)
    is_number = ~numbers.float().isnan()
    assert torch.equal(out.signbit()[is_number], (bits_of(numbers) >= 128)[is_number])
    back = torch.zeros(256, dtype=torch.uint8).view(dtype)
    converted(out, back)
    assert torch.equal(bits_of(back)[is_number], bits_of(numbers)[is_number])
    assert back.float().isnan().equal(~is_number)


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_between_are_rounded_once(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(fresh_seed())
    near = torch.randn(1 << 14, generator=random) * torch.exp2(torch.randint(-20, 18, (1 << 14,), generator=random))
    any_bits = torch.randint(-(1 << 31), 1 << 31, (1 << 14,), generator=random).to(torch.int32).view(torch.float32)
    every = torch.arange(128, dtype=torch.uint8).view(dtype).double()
    every = every[every.isfinite()]
    between = (every[1:] + every[:-1]) / 2
    beyond = torch.tensor([460.0, 464.0, 470.0, 61440.0, 61439.0, 1e30, float("inf"), float("nan")]).double()
    for numbers in (
        near, any_bits, torch.cat([between, beyond]).float(), -between.float(), between * (1 + 2.0**-50),
        between * (1 - 2.0**-50), beyond,
    ):  # fmt: skip
        out, expected = (torch.zeros(len(numbers), dtype=torch.uint8).view(dtype) for _ in range(2))
        converted(numbers, out)
        converted.interpret(numbers, expected)
        assert torch.equal(bits_of(out), bits_of(expected))
        if numbers.dtype == torch.float32:
            assert torch.equal(bits_of(out), bits_of(numbers.to(dtype)))
