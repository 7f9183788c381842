"""What dots by each kind of plan, and atomics, must do on a GPU, as functions of it: `DOTS`.

They are as the `LAUNCHES` of launches.py, need nothing of each other, and may run beside each other.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int, Num, Shaped

import vkernels as vk
from tests.language.test_scaled_dots import FORMATS, assert_products, scaled
from tests.library.reference import fresh_seed, poisoned
from vkernels.ir.plan import Plan
from vkernels.runtime.dispatch import Launcher

from .launches import Check

DOTS: dict[str, Check] = {}


@vk.kernel
def product(a: Shaped[vk.Tensor, "M K"], b: Shaped[vk.Tensor, "K N"], out: Shaped[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


@vk.kernel
def add_up(index: Int[vk.Tensor, "N"], weight: Num[vk.Tensor, "N K"], total: Num[vk.Tensor, "B K"]):
    i, k = vk.tile("N"), vk.tile("K")
    vk.atomic_add(total[index[i], k], weight[i, k])


TILES = Plan({"i": 64, "j": 64}, {"k": 32}, lanes="j", order=("i", "j"), warps=4)
PLANS = {
    "one stage": Plan(TILES.tiles, TILES.chunks, lanes="j", warps=4),
    "three stages": Plan(TILES.tiles, TILES.chunks, lanes="j", warps=4, stages=3),
    "two warpgroups": Plan({"i": 128, "j": 128}, {"k": 64}, lanes="j", warps=8, stages=3, swizzle=8),
    "descriptors": Plan(TILES.tiles, TILES.chunks, order=("i", "j"), stages=3, descriptors=("a", "b", "out")),
    "descriptors of programs that stay": Plan(
        TILES.tiles, TILES.chunks, order=("i", "j"), stages=3, descriptors=("a", "b", "out"), resident_programs=1
    ),
    "descriptors and a split sum": Plan(
        TILES.tiles, TILES.chunks, splits={"k": 3}, order=("i", "j"), stages=2, descriptors=("a", "b")
    ),
    "warp roles": Plan(
        {"i": 128, "j": 128}, {"k": 64}, order=("i", "j"), stages=3, descriptors=("a", "b"), warp_specialized=("k",)
    ),
    "K-major copies": Plan(TILES.tiles, TILES.chunks, lanes="j", stages=3, k_major=("a", "b")),
    "a loop across programs": Plan(
        TILES.tiles, TILES.chunks, lanes="j", order=("i", "j"), stages=3, resident_programs=2
    ),
    "a split sum": Plan(TILES.tiles, TILES.chunks, splits={"k": 4}, lanes="j", warps=4, stages=2),
}
"""Plans of a product."""
PRODUCTS = {
    torch.float16: torch.float16, torch.bfloat16: torch.float32, torch.float32: torch.float32,
    torch.int8: torch.int32, torch.float8_e4m3fn: torch.float32,
}  # fmt: skip
"""Dtypes of operands, and of their product."""


def whole_numbers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> torch.Tensor:
    """Whose sums are exact in any order."""
    return torch.randint(-3, 4, shape, generator=random).to(torch.float32).to(dtype)


def _by(plan: Plan, dtype: torch.dtype) -> Check:
    def check(gpu: Any) -> None:
        launcher, to = Launcher(vk.kernel(plan=plan)(product.function)), PRODUCTS[dtype]
        random = torch.Generator().manual_seed(fresh_seed())
        for m, n, k in [(70, 65, 83)] if gpu.is_simulated else [(256, 512, 1024), (511, 384, 520), (333, 77, 1001)]:
            a, b = (gpu.put(whole_numbers(shape, dtype, random)) for shape in ((m, k), (k, n)))
            out = gpu.put(torch.full((m, n), 99).to(to))
            for _ in range(1 if gpu.is_simulated else 2):
                launcher(a, b, out)
            exact = a.cpu().double() @ b.cpu().double()
            assert torch.equal(out.cpu(), exact.to(to)), f"{m} × {n} × {k}"

    return check


DOTS |= {
    f"products of {str(dtype).removeprefix('torch.')} by {name}": _by(plan, dtype)
    for name, plan in PLANS.items()
    for dtype in PRODUCTS
    if not (plan.warp_specialized and dtype == torch.float32)  # exact f32 has no tensor cores to feed
}


def block_scaled_products(gpu: Any) -> None:
    random = torch.Generator().manual_seed(fresh_seed())
    for form in FORMATS.values():
        for m, n, k in [(33, 18, 96)] if gpu.is_simulated else [(256, 128, 512), (33, 70, 224)]:
            operands = [form.random(rows, k, random) for rows in (m, n)]
            out = gpu.put(poisoned((m, n), torch.float32))
            on_gpu = [gpu.put(each) for pair in operands for each in pair]
            scaled(*on_gpu, out, block=form.positions)
            assert_products(out.cpu(), *(form.decoded(*pair) for pair in operands))


def atomic_sums(gpu: Any) -> None:
    random = torch.Generator().manual_seed(fresh_seed())
    bins, columns, length = 7, 33, 60 if gpu.is_simulated else 1500
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64):
        index = torch.randint(bins, (length,), generator=random)
        weight = torch.randint(-1, 2, (length, columns), generator=random).to(dtype)
        total = torch.zeros((bins, columns), dtype=torch.float64).index_add_(0, index, weight.double())
        out = gpu.put(torch.zeros((bins, columns), dtype=dtype))
        add_up(gpu.put(index), gpu.put(weight), out)
        assert torch.equal(out.cpu(), total.to(dtype)), dtype


DOTS |= {"block-scaled products": block_scaled_products, "atomic sums": atomic_sums}
