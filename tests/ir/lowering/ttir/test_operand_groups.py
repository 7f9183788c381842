"""Operands of dots with several axes on a side are loaded as the dot takes them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

import vkernels as vk
from tests.ir.transforms.masked_kernels import module_of
from vkernels.ir.dialect import tt
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan

from .lowering import assert_same, lowered


@vk.kernel
def convolution(
    image: Float[vk.Tensor, "B G H W C"], weight: Float[vk.Tensor, "G O C R"], out: Float[vk.Tensor, "B G O Y X"]
):
    b, g, o, y, x, c = vk.tile("B"), vk.tile("G"), vk.tile("O"), vk.tile("Y"), vk.tile("X"), vk.whole("C")
    total = vk.zeros((b, g, o, y, x), vk.float32)
    for r in vk.range("R"):
        total = vk.dot(weight[g, o, c, r], image[b, g, 2 * y + r - 1, x + r - 1, c], total)
    out[b, g, o, y, x] = total


SIZES = {"B": 2, "G": 2, "O": 17, "C": 19, "R": 3, "H": 9, "W": 13, "Y": 5, "X": 13}


def test_a_stack_of_axes_is_loaded_as_one_side_of_the_dot():
    """Rows and columns of an image, with masks beyond its border, are one dimension of the pointers."""
    rng = np.random.default_rng(0)
    shapes = {"image": (2, 2, 9, 13, 19), "weight": (2, 17, 19, 3)}
    arguments = {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    arguments["out"] = np.full((2, 2, 17, 5, 13), np.nan, np.float32)
    module = module_of(convolution)
    ttir = lowered(module, Plan({"b": 1, "g": 1, "o": 16, "y": 4, "x": 8}, {"c": 16}, lanes="x"), Facts())
    (dots,) = ([op for op in launch.module.walk() if isinstance(op, tt.DotOp)] for launch in ttir.launches)
    assert dots
    for dot in dots:
        assert isinstance(dot.operands[0].owner, tt.LoadOp)
        assert isinstance(dot.operands[1].owner, tt.LoadOp)
    assert_same(module, ttir, arguments, SIZES)


@vk.kernel
def scores(
    q: Float[vk.Tensor, "B G M D"], k: Float[vk.Tensor, "B G N D"], v: Float[vk.Tensor, "B G N E"],
    out: Float[vk.Tensor, "B G M E"],
):  # fmt: skip
    b, g, i, j, d, e = vk.tile("B"), vk.tile("G"), vk.tile("M"), vk.whole("N"), vk.whole("D"), vk.whole("E")
    score = vk.dot(q[b, g, i, d], k[b, g, j, d])
    out[b, g, i, e] = vk.dot(score, v[b, g, j, e])


def test_axes_of_one_position_are_no_dimensions_of_operands():
    """A tile of one head is loaded as the matrix that the dot takes, so that Triton leaves it in shared memory."""
    rng = np.random.default_rng()
    arguments = {"q": (2, 3, 21, 16), "k": (2, 3, 48, 16), "v": (2, 3, 48, 32)}
    arguments = {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in arguments.items()}
    arguments["out"] = np.full((2, 3, 21, 32), np.nan, np.float32)
    sizes = {"B": 2, "G": 3, "M": 21, "N": 48, "D": 16, "E": 32}
    module = module_of(scores)
    plan = Plan({"b": 1, "g": 1, "i": 16}, {"j": 16, "d": 16, "e": 32}, lanes="e")
    ttir = lowered(module, plan, Facts({"D": 16, "E": 32}, {"N": 16}))
    (launch,) = ttir.launches
    loads = [op for op in launch.module.walk() if isinstance(op, tt.LoadOp)]
    assert loads
    assert all(len(tt.shape(op.result.type)) == 2 for op in loads)
    assert_same(module, ttir, arguments, sizes)
