"""Loads that only one dot takes have the dot's shape, with their masks and whatever their addresses come from."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.ir.dialect import tt
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module

from .lowering import assert_same, lowered


@vk.kernel
def from_starts(
    q: Float[vk.Tensor, "G M D"], k: Float[vk.Tensor, "G N D"], v: Float[vk.Tensor, "G N E"],
    start: Int[vk.Tensor, "P 3"], out: Float[vk.Tensor, "P G M E"], total: Float[vk.Tensor, "P G M"],
    rescaled: vk.Constant = True, summed: vk.Constant = False,
):  # fmt: skip
    """Attention to the rows of k and v from where a table says to where it says, 16 at a time."""
    p, g, i = vk.tile("P"), vk.tile("G"), vk.tile("M")
    a, d, e = vk.whole(16), vk.whole("D"), vk.whole("E")
    first, last, steps = start[p, 0], start[p, 1], start[p, 2]
    query = vk.load(q[g, i, d], where=i < 30)
    result = vk.zeros((p, g, e, i), vk.float32)
    weights = vk.zeros((p, g, i), vk.float32)
    for step in vk.range(0, steps):
        near = first + 16 * step
        key = vk.load(k[g, near + a, d], where=near + a < last)
        weight = vk.exp(vk.dot(key, query) - 4.0)
        if summed:
            weights += vk.sum(vk.sum(key, axis=d), axis=a)
        weights = 0.5 * weights + vk.sum(weight, axis=a)
        if rescaled:
            result = result * 0.5
        result = vk.dot(vk.load(v[g, near + a, e], where=near + a < last), weight, result)
    out[p, g, i, e] = result
    total[p, g, i] = weights


def both(**constants: bool) -> list[tt.DotOp]:
    """The dots of the kernel lowered, which writes what the kernel as written does."""
    seed = int(np.random.SeedSequence().entropy % (1 << 32))  # type: ignore[operator]
    print("seed", seed)
    rng = np.random.default_rng(seed)
    sizes = {"G": 2, "M": 32, "N": 40, "D": 16, "P": 3, "E": 32}
    arguments = {
        "q": rng.normal(scale=0.25, size=(2, 32, 16)).astype(np.float32),
        "k": rng.normal(size=(2, 40, 16)).astype(np.float32),
        "v": rng.normal(size=(2, 40, 32)).astype(np.float32),
        "start": np.array([[0, 16, 1], [5, 9, 2], [3, 37, 3]], np.int64),
        "out": np.full((3, 2, 32, 32), np.nan, np.float32), "total": np.full((3, 2, 32), np.nan, np.float32),
    }  # fmt: skip
    types = {name: str(value.dtype) for name, value in arguments.items()}
    module = parse_module(print_module(from_starts.build(from_starts.signature(**types, **constants))))
    plan = Plan({"p": 1, "g": 1, "i": 32}, {"a": 16, "d": 16, "e": 32}, lanes="e")
    ttir: LoweredTtir = lowered(module, plan, Facts({"D": 16, "E": 32}, {"M": 32}))
    assert_same(module, ttir, arguments, sizes, tolerance=1e-4)
    return [op for launch in ttir.launches for op in launch.module.walk() if isinstance(op, tt.DotOp)]


def are_loaded(dot: tt.DotOp) -> tuple[bool, bool]:
    """Which operands are loads as the dot takes them."""
    left, right = (isinstance(operand.owner, tt.LoadOp) for operand in dot.operands[:2])
    return left, right


def test_rows_from_a_table_with_a_mask_are_loaded_as_the_dots_take_them() -> None:
    """What is loaded before the loop, too."""
    first, second = both()
    assert are_loaded(first) == (True, True)
    assert sorted(are_loaded(second)) == [False, True]


@pytest.mark.parametrize("number", [0, 1], ids=["keys", "values"])
def test_what_is_also_added_up_keeps_its_axes(number: int) -> None:
    dots = both(summed=True)
    assert sorted(are_loaded(dots[number])) == [False, True]


def test_loops_whose_sums_are_not_rescaled_stay_as_they_are() -> None:
    assert all(are_loaded(dot) == (False, False) for dot in both(rescaled=False))
