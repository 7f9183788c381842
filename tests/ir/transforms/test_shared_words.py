"""Dots that share operands of narrow elements run on a CPU's unit together, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int8, Int32

import vkernels as vk
from tests.ir.planning.kernels import kernel_of
from tests.language.signatures import plain_signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.dialect import DotOp, KernelOp
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.apply_plan import map_kernel
from vkernels.ir.transforms.apply_plan.find_words import find_word_dots
from vkernels.ir.transforms.apply_plan.planned_kernel import plan_kernel

UNITS = ("vnni", "avx512-bf16")
BF16 = {"x": "bfloat16", "a": "bfloat16", "b": "bfloat16", "out": "bfloat16"}
INT8 = {"x": "int8", "a": "int8", "b": "int8"}


@vk.kernel
def gated(
    x: Float[vk.Tensor, "M K"], a: Float[vk.Tensor, "K N"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    gate = vk.dot(x[i, k], a[k, j])
    out[i, j] = gate * vk.sigmoid(gate) * vk.dot(x[i, k], b[k, j])


@vk.kernel
def gated_by_one_load(
    x: Float[vk.Tensor, "M K"], a: Float[vk.Tensor, "K N"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    row = x[i, k]
    gate = vk.dot(row, a[k, j])
    out[i, j] = gate * vk.sigmoid(gate) * vk.dot(row, b[k, j])


@vk.kernel
def difference(
    x: Int8[vk.Tensor, "M K"], a: Int8[vk.Tensor, "K N"], b: Int8[vk.Tensor, "K N"], out: Int32[vk.Tensor, "M N"]
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(x[i, k], a[k, j]) - vk.dot(x[i, k], b[k, j])


@vk.kernel
def also_scaled(
    x: Float[vk.Tensor, "M K"], a: Float[vk.Tensor, "K N"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]
):
    """The second dot takes what no unit does, so that the first one does not either."""
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    row = x[i, k]
    out[i, j] = vk.dot(row, a[k, j]) + vk.dot(row, b[k, j].to(vk.float32) * 3.0)


def in_phases(kernel: vk.Kernel, **dtypes: str) -> KernelOp:
    return phases_of(kernel_of(kernel.build(plain_signature(kernel, **dtypes))))


PLAN = Plan(tiles={"i": 8, "j": 32}, chunks={"k": 4}, packs=("a", "b", "x"), lanes="j", order=("i", "j"))
FACTS = Facts({"M": 64, "N": 64, "K": 64}, strides=dict.fromkeys("xab", (64, 1)), distinct=True)


def on_units(op: KernelOp, plan: Plan = PLAN) -> int:
    """How many dots run on a unit."""
    return len(find_word_dots(plan_kernel(op, plan, FACTS, for_units=True), UNITS))


@pytest.mark.parametrize(
    ("kernel", "dtypes"),
    [(gated, BF16), (gated_by_one_load, BF16), (difference, INT8)],
    ids=["gated", "gated by one load", "difference"],
)
def test_dots_that_share_run_on_the_unit_and_share_a_pack(kernel, dtypes):
    op = in_phases(kernel, **dtypes)
    assert on_units(op) == 2
    mapped = str(map_kernel(op, PLAN, FACTS, UNITS))
    assert mapped.count("vk.word_dot") == 2
    assert [mapped.count(f'vk.launch "pack {name}"') for name in "xab"] == [1, 1, 1]


def test_units_that_need_packs_take_all_dots_or_none():
    op = in_phases(difference, **INT8)
    assert on_units(op, replace(PLAN, packs=("a", "x"))) == 0
    assert on_units(in_phases(gated, **BF16), replace(PLAN, packs=("a", "x"))) == 2


def test_a_dot_that_no_unit_takes_keeps_those_that_share_with_it_off():
    op = in_phases(also_scaled, **BF16)
    assert sum(isinstance(each, DotOp) for each in op.walk()) == 2
    assert on_units(op) == 0


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 33, 70), (64, 96, 128), (100, 7, 301)], ids=str)
def test_results(shape):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    m, n, k = shape
    sides = (m, k), (k, n), (k, n)
    x, a, b = (torch.from_numpy(random.standard_normal(side)).bfloat16() for side in sides)
    integers = [random.integers(-128, 128, side, np.int8) for side in sides]
    found = [torch.full((m, n), float("nan"), dtype=torch.bfloat16) for _ in range(3)]
    out = np.full((m, n), 1 << 30, np.int32)
    with vk.patient():
        for kernel, result in zip((gated, gated_by_one_load, also_scaled), found, strict=True):
            kernel(x, a, b, result)
        difference(*integers, out)
    one, other = (x.double() @ each.double() for each in (a, b))
    product = torch.nn.functional.silu(one) * other
    for result, expected in zip(found, (product, product, one + 3 * other), strict=True):
        torch.testing.assert_close(result.double(), expected, rtol=2**-7, atol=2**-9 * k**0.5)
    left, first, second = (each.astype(np.int64) for each in integers)
    np.testing.assert_array_equal(out, (left @ first - left @ second).astype(np.int32))
