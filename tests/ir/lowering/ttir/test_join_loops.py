"""Loops around a loop of dots are one with it, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from tests.ir.transforms.masked_kernels import module_of
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir
from vkernels.ir.plan import Plan

from .lowering import assert_same, lowered
from .test_operand_groups import SIZES, convolution


@vk.kernel
def windows(image: Float[vk.Tensor, "C H W"], weight: Float[vk.Tensor, "R S C O"], out: Float[vk.Tensor, "O Y X"]):
    o, y, x, c = vk.tile("O"), vk.tile("Y"), vk.tile("X"), vk.whole("C")
    total = vk.zeros((o, y, x), vk.float32)
    for r in vk.range("R"):
        for s in vk.range("S"):
            total = vk.dot(weight[r, s, c, o], image[c, y + r, x + s], total, precision="tf32")
    out[o, y, x] = total


@vk.kernel
def triangle(a: Float[vk.Tensor, "R R M K"], b: Float[vk.Tensor, "R K N"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    total = vk.zeros((i, j), vk.float32)
    for r in vk.range("R"):
        for s in vk.range(r + 1):
            total = vk.dot(a[r, s, i, k], b[s, k, j], total, precision="tf32")
    out[i, j] = total


def loops_of(ttir: LoweredTtir) -> list[int]:
    """Loops of each launch."""
    return [sum(op.name == "scf.for" for op in launch.module.walk()) for launch in ttir.launches]


@pytest.mark.sample(3)
@pytest.mark.parametrize("ranges", [(3, 2), (1, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize("channels", [16, 48])
def test_nested_ranges_are_one_loop(ranges: tuple[int, int], channels: int):
    """Whatever they and the chunks are, none at all included."""
    rng, (down, across) = np.random.default_rng(0), ranges
    sizes = {"C": channels, "H": 9, "W": 21, "R": down, "S": across, "O": 17, "Y": 5, "X": 18}
    arguments = {
        "image": rng.integers(-4, 5, (channels, 9, 21)).astype(np.float32),
        "weight": rng.integers(-4, 5, (down, across, channels, 17)).astype(np.float32),
        "out": np.full((17, 5, 18), np.nan, np.float32),
    }
    module = module_of(windows)
    plan = Plan({"o": 16, "y": 1, "x": 16}, {"c": 16}, lanes="x", stages=3)
    ttir = lowered(module, plan, Facts(multiples={"C": 16}))
    assert_same(module, ttir, arguments, sizes)
    one = lowered(module, Plan({"o": 16, "y": 1, "x": 16}, {"c": 16}, lanes="x"), Facts(multiples={"C": 16}))
    assert sum(loops_of(ttir)) < sum(loops_of(one))


def test_a_sum_of_many_axes_goes_through_one_loop():
    rng = np.random.default_rng(0)
    shapes = {"image": (2, 2, 9, 13, 19), "weight": (2, 17, 19, 3)}
    arguments = {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    arguments["out"] = np.full((2, 2, 17, 5, 13), np.nan, np.float32)
    module = module_of(convolution)
    plan = Plan({"b": 1, "g": 1, "o": 16, "y": 4, "x": 8}, {"c": 16}, lanes="x", stages=2)
    assert_same(module, lowered(module, plan, Facts()), arguments, SIZES)


def test_a_loop_whose_bounds_change_stays_inside():
    rng = np.random.default_rng(0)
    shapes = {"a": (3, 3, 16, 40), "b": (3, 40, 16)}
    arguments = {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    arguments["out"] = np.full((16, 16), np.nan, np.float32)
    module = module_of(triangle)
    ttir = lowered(module, Plan({"i": 16, "j": 16}, {"k": 16}, lanes="j", stages=2), Facts())
    assert_same(module, ttir, arguments, {"R": 3, "M": 16, "N": 16, "K": 40})
