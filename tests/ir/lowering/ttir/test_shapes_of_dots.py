"""What lies between dots is computed in the shape in which dots give and take it."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float
from xdsl.dialects.scf import ForOp

import vkernels as vk
from tests.ir.transforms.masked_kernels import module_of
from vkernels.ir.dialect import tt
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir
from vkernels.ir.plan import Plan

from .lowering import assert_same, lowered


@vk.kernel
def weighted(
    q: Float[vk.Tensor, "G M D"], k: Float[vk.Tensor, "G N D"], v: Float[vk.Tensor, "G N E"],
    slope: Float[vk.Tensor, "G N"], out: Float[vk.Tensor, "G M E"], steps: int, seen: vk.Constant = False,
    sloped: vk.Constant = False, divided: vk.Constant = False,
):  # fmt: skip
    g, i = vk.tile("G"), vk.tile("M")
    a, d, e = vk.whole(16), vk.whole("D"), vk.whole("E")
    query = q[g, i, d]
    peak, total = vk.full((g, i), -8.0, vk.float32), vk.zeros((g, i), vk.float32)
    result = vk.zeros((g, e, i), vk.float32)
    for step in vk.range(0, steps):
        score = vk.dot(k[g, 16 * step + a, d], query)
        if seen:
            score = vk.where(16 * step + a <= i, score, -8.0)
        if sloped:
            score = score + slope[g, 16 * step + a]
        if divided:
            score = score / (1.0 + q[g, i, a] * q[g, i, a])
        largest = vk.maximum(peak, vk.max(score, axis=a))
        weight = vk.exp(score - largest)
        less = vk.exp(peak - largest)
        total = total * less + vk.sum(weight, axis=a)
        result = vk.dot(v[g, 16 * step + a, e], weight, result * less)
        peak = largest
    out[g, i, e] = result / total


SIZES = {"G": 2, "M": 64, "N": 48, "D": 16, "E": 16}


def both(**constants: bool) -> LoweredTtir:
    """The kernel lowered, which writes what the kernel as written does."""
    seed = int(np.random.SeedSequence().entropy % (1 << 32))  # type: ignore[operator]
    print("seed", seed)
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, 64, 16), "k": (2, 48, 16), "v": (2, 48, 16), "slope": (2, 48)}
    arguments = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    module = module_of(weighted, **constants)
    plan = Plan({"g": 1, "i": 32}, {"a": 16, "d": 16, "e": 16}, lanes="e")
    ttir = lowered(module, plan, Facts({"D": 16, "E": 16}, {"M": 32}))
    arguments |= {"out": np.full((2, 64, 16), np.nan, np.float32)}
    assert_same(module, ttir, {**arguments, "steps": 3}, SIZES, tolerance=1e-5)
    return ttir


def dots_of(ttir: LoweredTtir) -> list[tt.DotOp]:
    (launch,) = ttir.launches
    return [op for op in launch.module.walk() if isinstance(op, tt.DotOp)]


def is_changed(dot: tt.DotOp, number: int) -> bool:
    """Whether an operand is in another shape right before the dot."""
    return isinstance(dot.operands[number].owner, tt.ReshapeOp | tt.TransOp)


@pytest.mark.parametrize("constants", [{}, {"seen": True}, {"sloped": True}, {"seen": True, "sloped": True}], ids=str)
def test_weights_and_carried_sums_go_into_dots_as_they_are(constants: dict[str, bool]) -> None:
    """Masks, and what differs along one side alone, come into the dot's shape; loops carry the sum in it."""
    _, last = dots_of(both(**constants))
    assert not is_changed(last, 0)
    assert not is_changed(last, 2)
    loop = next(op for op in [last.parent_op()] if isinstance(op, ForOp))
    assert [tt.shape(each.type) for each in loop.iter_args].count((32, 16)) == 1


@pytest.mark.parametrize("constants", [{}, {"seen": True}], ids=str)
def test_rows_of_dots_are_reduced_in_the_dots_shape(constants: dict[str, bool]) -> None:
    """So that Triton divides them among warps by rows."""
    reductions = [op for op in both(**constants).launches[0].module.walk() if isinstance(op, tt.ReduceOp)]
    inside = [op for op in reductions if isinstance(op.parent_op(), ForOp)]
    assert [(op.axis.value.data, tt.shape(op.operands[0].type)) for op in inside] == [(1, (32, 16))] * 2


def test_what_is_loaded_along_both_sides_stays_as_it_is() -> None:
    _, last = dots_of(both(divided=True))
    assert is_changed(last, 0)
    assert not is_changed(last, 2)
