"""Sums beside a dot of narrow elements: apart, the dot runs on a CPU's unit, and programs share the sums."""

from __future__ import annotations

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
from vkernels.ir.transforms.apply_plan.find_words import find_word_dots
from vkernels.ir.transforms.apply_plan.planned_kernel import plan_kernel

UNITS = ("vnni", "avx512-bf16")


@vk.kernel
def from_a_zero_point(
    a: Int8[vk.Tensor, "M K"], b: Int8[vk.Tensor, "N K"], zero: Int32[vk.Tensor, "N"], out: Float[vk.Tensor, "M N"]
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    row = a[i, k]
    out[i, j] = vk.dot(row, b[j, k]) - vk.sum(row.to(vk.int32), axis=k) * zero[j]


@vk.kernel
def cosines(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    x, y = a[i, k], b[j, k]
    out[i, j] = vk.dot(x, y) * vk.rsqrt(vk.sum(x * x, axis=k) * vk.sum(y * y, axis=k))


@vk.kernel
def weighted(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    """Exponentials are not computed twice."""
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    e = vk.exp(a[i, k]).to(b.dtype)
    out[i, j] = vk.dot(e, b[j, k]) / vk.sum(e, axis=k)


def in_phases(kernel: vk.Kernel, **dtypes: str) -> KernelOp:
    return phases_of(kernel_of(kernel.build(plain_signature(kernel, **dtypes))))


def planned(op: KernelOp, for_units: bool = True):
    plan = Plan(tiles={"i": 8, "j": 32}, chunks={"k": 4}, packs=("a", "b"), lanes="j", order=("i", "j"))
    facts = Facts({"M": 64, "N": 64, "K": 64}, strides={"a": (64, 1), "b": (64, 1)}, distinct=True)
    return plan_kernel(op, plan, facts, for_units=for_units)


def reductions(op: KernelOp, for_units: bool = True) -> list[list[str]]:
    """The names of the reductions of each loop."""
    found = planned(op, for_units).schedule
    return [[each.name for each in nest.reductions] for nests in found.nests.values() for nest in nests]


BF16 = {"a": "bfloat16", "b": "bfloat16", "out": "bfloat16"}


@pytest.mark.parametrize(
    ("kernel", "dtypes", "loops"),
    [
        (from_a_zero_point, {"a": "int8", "b": "int8"}, [["vk.dot"], ["vk.sum"]]),
        (cosines, BF16, [["vk.dot"], ["vk.sum"], ["vk.sum"]]),
    ],
    ids=["zero point", "cosines"],
)
def test_a_dot_for_a_unit_has_a_loop_of_its_own(kernel, dtypes, loops):
    op = in_phases(kernel, **dtypes)
    assert [each for each in reductions(op) if each] == loops
    (dot,) = (each for each in op.walk() if isinstance(each, DotOp))
    assert find_word_dots(planned(op), UNITS).keys() == {dot}
    assert [sorted(each) for each in reductions(op, for_units=False) if each] == [
        sorted(name for loop in loops for name in loop)
    ]


def test_others_share_a_loop():
    together = [["vk.dot", "vk.sum", "vk.sum"]]
    assert [sorted(each) for each in reductions(in_phases(cosines)) if each] == together
    assert [sorted(each) for each in reductions(in_phases(weighted, **BF16)) if each] == [["vk.dot", "vk.sum"]]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 33, 70), (64, 96, 128), (100, 7, 301)], ids=str)
def test_results(shape, threads):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    m, n, k = shape
    a, b = (random.integers(-128, 128, (rows, k), np.int8) for rows in (m, n))
    zero, out = random.integers(-9, 9, n, np.int32), np.full((m, n), np.nan, np.float32)
    x, y = (torch.from_numpy(random.standard_normal((rows, k))).bfloat16() for rows in (m, n))
    similar = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    before = vk.get_threads()
    vk.set_threads(threads)
    try:
        with vk.patient():
            from_a_zero_point(a, b, zero, out)
            cosines(x, y, similar)
    finally:
        vk.set_threads(before)
    wide = a.astype(np.int64)
    np.testing.assert_array_equal(out, (wide @ b.T.astype(np.int64) - wide.sum(1)[:, None] * zero).astype(np.float32))
    expected = torch.nn.functional.cosine_similarity(x.double()[:, None], y.double()[None], dim=2, eps=0)
    torch.testing.assert_close(similar.double(), expected, rtol=2**-8, atol=2**-9)
