"""Kernels whose operands are copied K-major give the same as the kernels as written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Int
from xdsl.context import Context

import vkernels as vk
from vkernels.ir.analysis.k_major import Contracted
from vkernels.ir.dialect import LaunchOp
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import ApplyPlan, apply_plan

from .masked_kernels import module_of
from .three_ways import run_three_ways


@vk.kernel
def product(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


@vk.kernel
def product_of_bytes(a: Int[vk.Tensor, "M K"], b: Int[vk.Tensor, "K N"], out: Int[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


@vk.kernel
def part_of_rows(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], few: int, out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole(few)
    out[i, j] = vk.dot(a[i, k], b[k, j])


@vk.kernel
def convolution(
    image: Float[vk.Tensor, "B C H W"], weight: Float[vk.Tensor, "O C R S"], out: Float[vk.Tensor, "B O Y X"]
):
    b, o, y, x, c = vk.tile("B"), vk.tile("O"), vk.tile("Y"), vk.tile("X"), vk.whole("C")
    total = vk.zeros((b, o, y, x), vk.float32)
    for r in vk.range("R"):
        for s in vk.range("S"):
            total = vk.dot(weight[o, c, r, s], image[b, c, 2 * y + r - 1, x + s - 1], total)
    out[b, o, y, x] = total


@vk.kernel
def used_twice(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    rows = a[i, k]
    out[i, j] = vk.dot(rows, b[k, j]) + vk.sum(rows, axis=k)


def arguments_of(
    rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]], dtype: Any = np.float32
) -> dict[str, Any]:
    """Small whole numbers, whose sums are exact in any order; the output is poisoned."""
    made: dict[str, Any] = {name: rng.integers(-4, 5, shape).astype(dtype) for name, shape in shapes.items()}
    made["out"] = np.full_like(made["out"], 77)
    return made


SIZES = {"M": 21, "N": 35, "K": 43}
SHAPES = {"a": (21, 43), "b": (43, 35), "out": (21, 35)}
PRODUCT_PLANS = [
    (Plan({"i": 16, "j": 16}, {"k": 16}, k_major=("a", "b"), lanes="j"), Facts()),
    (Plan({"i": 16, "j": 16}, {"k": 32}, k_major=("b",), lanes="j"), Facts(SIZES)),
    (Plan({"i": 16, "j": 16}, {"k": 16}, splits={"k": 2}, k_major=("a",), lanes="j"), Facts()),
    (Plan({"i": 16, "j": 16}, {"k": 64}, k_major=("b",), lanes="j"), Facts({"K": 43})),
    (Plan({"i": 16, "j": 8}, {"k": 128}, k_major=("b",), lanes="j"), Facts({"K": 43})),
]


@pytest.mark.parametrize(("across", "chunk", "sides"), [
    (256, 256, (64, 64)), (64, 32, (64, 32)), (8, 256, (8, 256)), (8, 64, (8, 64)), (2, 4096, (2, 2048)),
])  # fmt: skip
def test_a_program_copies_more_of_the_contracted_dimension_where_the_other_side_is_short(
    across: int, chunk: int, sides: tuple[int, int]
) -> None:
    """Where the plan's chunks are as long: whether the dimension is longer than they are is not known."""
    b = Contracted("k", 0, ("K", "N"), (("k",), ("j",)))
    assert b.sides(Plan({"j": across}, {"k": chunk}), 1) == sides


def test_threads_copy_enough_elements_to_be_worth_their_addresses() -> None:
    """A tile of 64 × 64 has 128 threads: four warps of an NVIDIA GPU, two of AMD's."""
    for warp, count in ((32, 4), (64, 2)):
        plan = Plan({"i": 64, "j": 64}, {"k": 64}, k_major=("b",), lanes="j", warps=8)
        module = module_of(product)
        ApplyPlan(plan, Facts(), gpu=True, warp=warp).apply(Context(), module)
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp) and op.label.data == "copy b")
        assert launch.warps == count


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("plan", "facts"), PRODUCT_PLANS)
def test_products(plan: Plan, facts: Facts) -> None:
    made = arguments_of(np.random.default_rng(0), SHAPES)
    text = run_three_ways(module_of(product), made, SIZES, plan, facts, tolerance=0)
    assert text.count('vk.launch "copy ') == len(plan.k_major)


@pytest.mark.slow
def test_products_of_bytes() -> None:
    rng = np.random.default_rng(1)
    made = arguments_of(rng, SHAPES, np.int8) | {"out": np.full((21, 35), 77, np.int32)}
    plan = Plan({"i": 16, "j": 16}, {"k": 32}, k_major=("b",), lanes="j")
    signature = product_of_bytes.signature(a="int8", b="int8", out="int32")
    module = parse_module(print_module(product_of_bytes.build(signature)))
    run_three_ways(module, made, SIZES, plan, Facts(), tolerance=0)


@pytest.mark.thorough
def test_a_stack_of_axes_with_a_border() -> None:
    """Other dimensions keep their index: sums of axes, and guards beyond the image's border."""
    sizes = {"B": 2, "O": 17, "C": 19, "R": 3, "S": 3, "H": 9, "W": 13, "Y": 5, "X": 13}
    shapes = {"image": (2, 19, 9, 13), "weight": (17, 19, 3, 3), "out": (2, 17, 5, 13)}
    made = arguments_of(np.random.default_rng(3), shapes)
    plan = Plan({"b": 1, "o": 16, "y": 2, "x": 8}, {"c": 16}, k_major=("image", "weight"), lanes="x")
    run_three_ways(module_of(convolution), made, sizes, plan, Facts(), tolerance=0)


@pytest.mark.parametrize(("kernel", "plan", "reason"), [
    (part_of_rows, Plan({"i": 16, "j": 16}, {"k": 16}, k_major=("a",)), "only loaded, for dots"),
    (used_twice, Plan({"i": 16, "j": 16}, {"k": 16}, k_major=("a",)), "only loaded, for dots"),
    (product, Plan({"i": 16, "j": 16}, {"k": 16}, k_major=("out",)), "only loaded, for dots"),
    (product, Plan({"i": 16, "j": 16}, {"k": 16}, k_major=("c",)), "no parameter"),
    (product, Plan({"i": 16, "j": 16}, {"k": 16}, packs=("a",), k_major=("a",)), "not both"),
])  # fmt: skip
def test_refused(kernel: Any, plan: Plan, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        apply_plan(module_of(kernel), plan, Facts())
