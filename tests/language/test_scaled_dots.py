"""`vk.dot` with scales: every block-scaled format against float64, interpreted and compiled for the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, Shaped

import vkernels as vk
from tests.library.reference import fresh_seed, poisoned

_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)


@vk.kernel
def scaled(
    a: Shaped[vk.Tensor, "M K"],
    a_scale: Shaped[vk.Tensor, "M G"],
    b: Shaped[vk.Tensor, "N K"],
    b_scale: Shaped[vk.Tensor, "N G"],
    out: Float[vk.Tensor, "M N"],
    block: vk.Constant = 32,
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[j, k], a_scale=a_scale[i, k // block], b_scale=b_scale[j, k // block])


@dataclass(frozen=True)
class Format:
    """A block-scaled format: dtypes of elements (None: two E2M1 in a byte) and of scales, elements of a block."""

    element: torch.dtype | None
    scale: torch.dtype
    block: int

    @property
    def positions(self) -> int:
        """Positions of the operand's tensor in a block."""
        return self.block if self.element else self.block // 2

    def random(self, rows: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """An operand of `length` positions a row, of any finite elements, and its scales."""
        bits = torch.randint(256, (rows, length), generator=generator, dtype=torch.uint8)
        groups = -(-length // self.positions)
        if self.scale == torch.uint8:
            scale = torch.randint(117, 138, (rows, groups), generator=generator, dtype=torch.uint8)
        else:
            scale = torch.rand((rows, groups), generator=generator).to(self.scale)
        if self.element is None:
            return bits, scale
        values = bits.view(self.element).float()
        return torch.where(values.isfinite(), values, 0).to(self.element), scale

    def decoded(self, operand: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Elements times their scales in float64."""
        if self.element is None:
            codes = torch.stack([operand & 15, operand >> 4], -1).flatten(-2)
            values = torch.where(codes > 7, -1.0, 1.0).double() * _E2M1[(codes & 7).long()]
        else:
            values = operand.double()
        factor = scale.double()
        if self.scale == torch.uint8:
            factor = torch.where(scale == 255, torch.nan, torch.exp2(factor - 127))
        return values * factor.repeat_interleave(self.block, -1)[:, : values.shape[1]]


FORMATS = {
    "mxfp8 e4m3": Format(torch.float8_e4m3fn, torch.uint8, 32),
    "mxfp8 e5m2": Format(torch.float8_e5m2, torch.uint8, 32),
    "mxfp4": Format(None, torch.uint8, 32),
    "nvfp4": Format(None, torch.float8_e4m3fn, 16),
}


def assert_products(out: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """`out` is left @ right.T up to a sum's rounding in float32, relative to the sum of magnitudes."""
    expected, size = left @ right.T, left.abs() @ right.abs().T
    assert torch.equal(out.isnan(), expected.isnan())
    bound = (left.shape[1] + 2) * 2.0**-24 * size + 2.0**-140
    assert bool(((out.double() - expected).abs() <= bound)[~expected.isnan()].all())


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(5, 7, 32), (33, 18, 96), (16, 16, 130), (1, 1, 1), (40, 9, 16)])
@pytest.mark.parametrize("name", FORMATS)
def test_products_are_those_of_float64(name: str, shape: tuple[int, int, int]) -> None:
    form, (m, n, k) = FORMATS[name], shape
    random = torch.Generator().manual_seed(fresh_seed())
    (a, a_scale), (b, b_scale) = form.random(m, k, random), form.random(n, k, random)
    for run in (scaled, scaled.interpret):
        out = poisoned((m, n), torch.float32)
        run(a, a_scale, b, b_scale, out, block=form.positions)
        assert_products(out, form.decoded(a, a_scale), form.decoded(b, b_scale))


@pytest.mark.parametrize("name", ["mxfp8 e4m3", "mxfp8 e5m2", "mxfp4"])
def test_every_scale(name: str) -> None:
    """From 2^-127, below f32's normal numbers, to 2^127; NaN for 255, even of zeros."""
    form, random = FORMATS[name], torch.Generator().manual_seed(fresh_seed())
    a, _ = form.random(1, form.positions, random)
    a, a_scale = a.expand(256, -1).clone(), torch.arange(256, dtype=torch.uint8)[:, None]
    a[255] = 0
    one = torch.full((1, form.positions), 0x22 if form.element is None else 1, dtype=torch.uint8)
    one = one if form.element is None else one.to(form.element)
    for run in (scaled, scaled.interpret):
        out = poisoned((256, 1), torch.float32)
        run(a, a_scale, one, torch.tensor([[120]], dtype=torch.uint8), out, block=form.positions)
        left, right = form.decoded(a, a_scale), form.decoded(one, torch.tensor([[120]]).to(torch.uint8))
        fits = left.abs().sum(1) < 2.0**128  # else elements times scales are infinite
        assert_products(out[fits | left.isnan().any(1)], left[fits | left.isnan().any(1)], right)


def test_infinite_and_missing_numbers_spread_to_their_sums_alone() -> None:
    form = FORMATS["mxfp8 e5m2"]
    a = torch.ones(4, 64).to(torch.float8_e5m2)
    a[1, 3], a[2, 40] = float("inf"), float("nan")
    a_scale = torch.full((4, 2), 127, dtype=torch.uint8)
    a_scale[3, 1] = 255
    out = poisoned((4, 2), torch.float32)
    scaled(a, a_scale, a[:1].expand(2, -1), a_scale[:2], out, block=form.positions)
    assert out[0].tolist() == [64, 64]
    assert out[1].tolist() == [float("inf")] * 2
    assert out[2:].isnan().all()


def test_torch_tensors_of_scales_and_fp4_are_read_as_bytes() -> None:
    form, random = FORMATS["mxfp4"], torch.Generator().manual_seed(fresh_seed())
    (a, a_scale), (b, b_scale) = form.random(6, 32, random), form.random(9, 32, random)
    pairs = getattr(torch, "float4_e2m1fn_x2", torch.uint8)
    for run in (scaled, scaled.interpret):
        out = poisoned((6, 9), torch.float32)
        run(
            a.view(pairs), a_scale.view(torch.float8_e8m0fnu), b.view(pairs), b_scale.view(torch.float8_e8m0fnu), out,
            block=16,
        )  # fmt: skip
        assert_products(out, form.decoded(a, a_scale), form.decoded(b, b_scale))


@vk.kernel
def weights_alone(
    x: Float[vk.Tensor, "B M K"],
    w: Float[vk.Tensor, "N K"],
    scale: Float[vk.Tensor, "R C"],
    out: Float[vk.Tensor, "B M N"],
):
    n, i, j, k = vk.tile("B"), vk.tile("M"), vk.tile("N"), vk.whole("K")
    start = vk.full((n, i, j), 1.0, vk.float32)
    out[n, i, j] = vk.dot(x[n, i, k], w[j, k], start, b_scale=scale[j // 16, k // 16])


def test_one_operand_may_have_scales_of_squares() -> None:
    random = torch.Generator().manual_seed(fresh_seed())
    x = torch.randn((2, 5, 48), generator=random).to(torch.bfloat16)
    w = torch.randn((20, 48), generator=random).to(torch.float8_e4m3fn)
    scale = torch.randn((2, 3), generator=random)
    factor = scale.double().repeat_interleave(16, 0)[:20].repeat_interleave(16, 1)
    for run in (weights_alone, weights_alone.interpret):
        out = poisoned((2, 5, 20), torch.float32)
        run(x, w, scale, out)
        expected = x.double() @ (w.double() * factor).T + 1
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
