"""Sums over long axes are as accurate as pairwise ones, in every plan, and lose no infinity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.language.kernel import Kernel

from . import long_sums as kernels
from .long_sums import KINDS, UNIT
from .on_a_gpu import SMALL, on_a_gpu
from .reference import fresh_seed

LENGTHS = [100, 4099, 1 << 17, (1 << 20) + 77]
PINS = [
    None,
    vk.Pin(chunks={"j": 16}),
    vk.Pin(chunks={"j": 1}, lanes="i"),
    vk.Pin(splits={"j": 5}),
    vk.Pin(tiles={"i": 4}, chunks={"j": 64}),
]


def repinned(kernel: Kernel, pin: vk.Pin | None) -> Kernel:
    return vk.kernel(kernel.function, plan=pin) if pin is not None else kernel


def bound(terms: int, products: bool = False) -> float:
    """Units of roundoff that a sum may err by, times the sum of what is added, as `docs/numerics.md` says."""
    return min(terms, 512.0 if products else 256.0)


def pairwise(terms: int) -> float:
    """What is found in practice: no more than pairwise summation, blocks of 16 at its leaves."""
    return 16.0 + 4.0 * math.log2(max(2, terms))


def data(kind: str, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return KINDS[kind](shape, torch.Generator().manual_seed(seed)).to(dtype).contiguous()


def assert_summed(actual: torch.Tensor, terms: torch.Tensor, expected: torch.Tensor, units: float) -> None:
    """Within so many units of the sum of magnitudes along the last dimension."""
    unit = UNIT[actual.dtype]
    error = (actual.double() - expected).abs()
    allowed = units * unit * terms.double().abs().sum(-1) + unit * expected.abs()
    worst = float((error / allowed.clamp_min(1e-300)).max())
    assert worst <= 1, f"{worst:.2f} of what is allowed, {units:.0f} units"


def exact_sum(x: torch.Tensor) -> torch.Tensor:
    """The sums of the last dimension, rounded once."""
    rows = x.double().reshape(-1, x.shape[-1]).numpy()
    return torch.tensor([math.fsum(row) for row in rows], dtype=torch.float64).reshape(x.shape[:-1])


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("pin", PINS, ids=str)
def test_sums_of_rows(pin: vk.Pin | None, length: int, kind: str) -> None:
    rows = 1 if length > 1 << 18 else 3
    x = data(kind, (rows, length), torch.float32, fresh_seed())
    out = torch.full((rows,), math.nan)
    repinned(kernels.sum_rows, pin)(x, out)
    assert_summed(out, x, exact_sum(x), min(bound(length), pairwise(length)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["constant", "alternating", "ill-conditioned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["sum_columns", "sum_in_a_range", "sum_in_a_ragged_range", "sum_of_sums"])
def test_sums_of_every_form(name: str, dtype: torch.dtype, kind: str) -> None:
    seed = fresh_seed()
    for length in LENGTHS[:3]:
        x = data(kind, (3, length), dtype, seed)
        out = torch.full((1 if name == "sum_of_sums" else 3,), math.nan, dtype=dtype)
        lengths = torch.tensor([length, length // 2, 0])
        arguments = {
            "sum_columns": (x.t().contiguous(), out),
            "sum_in_a_ragged_range": (x, lengths, out),
        }.get(name, (x, out))
        getattr(kernels, name)(*arguments)
        if name == "sum_in_a_ragged_range":
            x = torch.where(torch.arange(length) < lengths[:, None], x, 0)
        elif name == "sum_of_sums":
            x = x.reshape(1, -1)
        assert_summed(out, x, exact_sum(x), min(bound(length), pairwise(length)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["constant", "alternating", "ill-conditioned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pin", [None, vk.Pin(splits={"j": 5})], ids=str)
def test_cumulative_sums(pin: vk.Pin | None, dtype: torch.dtype, kind: str) -> None:
    for length in LENGTHS:
        x = data(kind, (1, length), dtype, fresh_seed())
        out, total = torch.full_like(x, math.nan), torch.full((1,), math.nan, dtype=dtype)
        repinned(kernels.add_up, pin)(x, out, total)
        places = np.unique(np.linspace(0, length - 1, 9, dtype=np.int64))
        for place in places:
            assert_summed(out[:, place], x[:, : place + 1], exact_sum(x[:, : place + 1]), pairwise(length))
        assert_summed(total, x, exact_sum(x), pairwise(length))


@pytest.mark.sample(2)
@pytest.mark.parametrize("pin", [
    None, vk.Pin(chunks={"k": 1}), vk.Pin(chunks={"k": 6}, tiles={"i": 4, "j": 32}), vk.Pin(splits={"k": 3}),
    vk.Pin(lanes="k"), vk.Pin(packs=("b",)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["constant", "alternating"])
def test_products(kind: str, pin: vk.Pin | None) -> None:
    seed = fresh_seed()
    for length in (200, 1024, 20000):
        a, b = data(kind, (3, length), torch.float32, seed), data("constant", (40, length), torch.float32, seed + 1)
        out = torch.full((3, 40), math.nan)
        repinned(kernels.products, pin)(a, b.t().contiguous(), out)
        terms = a[:, None].double() * b.double()
        assert_summed(out, terms, exact_sum(terms), min(bound(length, products=True), pairwise(length)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("pin", [
    vk.Pin(online=("j",)), vk.Pin(online=("j",), chunks={"j": 16}), vk.Pin(online=("j",), tiles={"i": 4}, lanes="i"),
    vk.Pin(online=()),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["constant", "growing", "falling", "wide", "steps"])
def test_sums_of_exponentials_online(kind: str, pin: vk.Pin) -> None:
    for length in LENGTHS[1:]:
        x = data("growing" if kind not in KINDS else kind, (3, length), torch.float32, fresh_seed())
        x = {"falling": -x, "wide": 200 * x - 100, "steps": torch.floor(40 * x) * 8.01}.get(kind, x)
        out = torch.full((3,), math.nan)
        repinned(kernels.sum_of_exponentials, pin)(x, out)
        terms = torch.exp(x.double() - x.double().amax(-1, keepdim=True))
        # Differences are rounded before they are exponents: at most the largest of them times the unit.
        differences = 2 * float((x.amax() - x.amin()).clamp_max(100)) + 8
        assert_summed(out, terms, exact_sum(terms), pairwise(length) + differences)


@pytest.mark.parametrize("name", ["sum_rows", "sum_in_a_range", "sum_of_exponentials"])
def test_infinities_and_nan_stay(name: str) -> None:
    """Compensation subtracts what was added, which of infinities is NaN."""
    length, inf, most = 1 << 18, math.inf, torch.finfo(torch.float32).max
    x = torch.zeros(9, length)
    places = torch.randint(0, length, (9, 2), generator=torch.Generator().manual_seed(fresh_seed()))
    for row, values in enumerate([(inf, inf), (-inf, -inf), (inf, -inf), (math.nan, 1), (most, most), (-most, -most)]):
        for place, value in zip(places[row], values, strict=True):
            x[row, place] = value
    x[6], x[7, ::2], x[8] = 1e35, 1e34, -inf
    out = torch.full((9,), 7.0)
    getattr(kernels, name)(x, out)
    if name == "sum_of_exponentials":
        expected = torch.exp(x.double() - x.double().amax(-1, keepdim=True)).sum(-1)
    else:
        expected = x.double().sum(-1).float().double()
    places_differ = places[:, 0] != places[:, 1]
    torch.testing.assert_close(out.double()[places_differ], expected[places_differ], rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["sum_rows", "sum_columns", "sum_in_a_range", "sum_in_a_ragged_range", "products"])
def test_code_for_gpus_sums_as_well(name: str) -> None:
    length = 3001
    x = data("tenths", (2, length), torch.float32, fresh_seed())
    out = torch.full((2, 3) if name == "products" else (2,), math.nan)
    others: dict[str, tuple[Any, ...]] = {
        "sum_columns": (x.t().contiguous(), out),
        "sum_in_a_ragged_range": (x, torch.tensor([length, length]), out),
        "products": (x, torch.ones(length, 3), out),
    }
    pin = {"products": vk.Pin(chunks={"k": 1}), "sum_rows": vk.Pin(chunks={"j": 1}, splits={})}.get(name)
    with on_a_gpu(SMALL, 0):
        repinned(getattr(kernels, name), pin)(*others.get(name, (x, out)))
    terms = x[:, None].expand(2, 3, length) if name == "products" else x
    assert_summed(out, terms, exact_sum(terms), pairwise(length))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("pin", PINS, ids=str)
def test_sums_of_sixteen_million(pin: vk.Pin | None, kind: str) -> None:
    test_sums_of_rows(pin, 1 << 24, kind)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["constant", "alternating", "ill-conditioned"])
def test_products_of_sixteen_million(kind: str, dtype: torch.dtype) -> None:
    length = 1 << 24
    a, b = data(kind, (1, length), dtype, fresh_seed()), torch.ones(length, 1, dtype=dtype)
    out = torch.full((1, 1), math.nan, dtype=dtype)
    kernels.products(a, b, out)
    assert_summed(out[0], a, exact_sum(a), pairwise(length))


def test_a_pinned_order_gives_the_same_bits_on_any_number_of_threads() -> None:
    """What the planner chooses may depend on the number of threads, as `docs/numerics.md` says."""
    x = data("ill-conditioned", (1, 300007), torch.float32, fresh_seed())
    pinned = repinned(kernels.sum_rows, vk.Pin(splits={"j": 4}, chunks={"j": 64}))
    threads, results = vk.get_threads(), []
    try:
        for number in (1, 2, 3, 4):
            vk.set_threads(number)
            out = torch.full((1,), math.nan)
            pinned(x, out)
            results.append(out.view(torch.int32).item())
    finally:
        vk.set_threads(threads)
    assert len(set(results)) == 1
