"""Cut into launches, a kernel gives the same: what crosses them lies in memory that outlasts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan

from ..lowering.ttir.lowering import kernel
from .test_homes import NETWORK, NEURONS, network
from .three_ways import run_three_ways

ROWS, LENGTH = 7, 50
SIZES = {"M": ROWS, "N": LENGTH}


def rows() -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal((ROWS, LENGTH)).astype(np.float32)
    return {"x": x, "out": np.full_like(x, np.nan)}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("launches", "homes", "facts"), [
    (("max",), {}, Facts()), (("max", "sum"), {"e": Home.MEMORY}, Facts(SIZES)),
    (("sum",), {"e": Home.MEMORY}, Facts()), (("out",), {}, Facts()),
    (("max",), {"e": Home.SHARED}, Facts({"N": LENGTH})),
])  # fmt: skip
def test_softmax(launches: tuple[str, ...], homes: dict[str, Home], facts: Facts) -> None:
    plan = Plan({"i": 4}, {"j": 16}, homes, launches=launches, lanes="j")
    text = run_three_ways(kernel("softmax"), rows(), SIZES, plan, facts)
    assert text.count("vk.launch") == 1 + len({"max", "sum"}.intersection(launches))


@pytest.mark.parametrize("facts", [Facts(), Facts({"N": LENGTH})])
def test_a_value_along_a_split_axis_can_lie_in_memory(facts: Facts) -> None:
    plan = Plan({"i": 4}, {"j": 16}, {"e": Home.MEMORY}, splits={"j": 3}, lanes="j")
    text = run_three_ways(kernel("softmax"), rows(), SIZES, plan, facts)
    assert "math.exp" not in text[text.index('vk.launch "out"') :]
    assert 'vk.buffer "e"' in text[: text.index('vk.launch "sum"')]


@pytest.mark.sample(1)
@pytest.mark.parametrize("facts", [Facts(), Facts({"N": NEURONS})])
def test_a_scratchpad_outlasts_launches_in_memory(facts: Facts) -> None:
    plan = Plan({"i": 8}, {"n": 16}, launches=("features", "max"), lanes="i")
    text = run_three_ways(kernel("spdnn"), network(), NETWORK, plan, facts)
    assert text.count("vk.launch") == 3
    assert 'vk.buffer "features"' in text[: text.index("vk.launch")]


TURN = """
vk.kernel @turn(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %c1 = arith.constant 1 : i64
  %last = arith.subi %N, %c1 : i64
  %s = vk.scratch "s" : !vk.scratch<[i, j], f32>
  %first = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %first in %s[i, j] : !vk.scratch<[i, j], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  %turned = vk.load %s[i, %last + -1 * j] : !vk.scratch<[i, j], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %turned in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""


@pytest.mark.parametrize("facts", [Facts(), Facts(SIZES)])
def test_programs_of_a_split_axis_share_a_scratchpad_in_memory(facts: Facts) -> None:
    plan = Plan({"i": 4}, {"j": 8}, splits={"j": 3}, lanes="j")
    run_three_ways(parse_module(TURN), rows(), SIZES, plan, facts, tolerance=0)


# The store in the loops along l comes after the sum, which each chunk of k computes along all of l.
MEETING = """
vk.kernel @meeting(%a: !vk.tensor<[L, K], i32>, %b: !vk.tensor<[L], i32>, %out: !vk.tensor<[K], i32>) {
  %c = arith.constant 1 : i64
  vk.tile i < %c
  %L = vk.size L
  vk.whole l < %L
  %K = vk.size K
  vk.whole k < %K
  %v = vk.load %a[l, k] : !vk.tensor<[L, K], i32> -> tensor<?x?xi32, #vk.axes<l, k>>
  %s = vk.sum %v along l : tensor<?x?xi32, #vk.axes<l, k>> -> tensor<?xi32, #vk.axes<k>>
  %d = arith.addi %v, %v : tensor<?x?xi32, #vk.axes<l, k>>
  vk.store %d in %a[l, k] : !vk.tensor<[L, K], i32> <- tensor<?x?xi32, #vk.axes<l, k>>
  vk.boundary
  vk.store %s in %out[k] : !vk.tensor<[K], i32> <- tensor<?xi32, #vk.axes<k>>
}
"""


def test_a_reduction_sees_what_was_there_before_programs_of_the_axis_wrote() -> None:
    arguments = {
        "a": np.arange(24, dtype=np.int32).reshape(6, 4),
        "b": np.zeros(6, np.int32),
        "out": np.full(4, -1, np.int32),
    }
    plan = Plan({"i": 1}, {"l": 2, "k": 2}, splits={"l": 2})
    run_three_ways(parse_module(MEETING), arguments, {"L": 6, "K": 4}, plan, Facts({"L": 6}), tolerance=0)


@pytest.mark.parametrize(("name", "plan", "message"), [
    ("softmax", Plan({"i": 4}, {"j": 16}, launches=("maximum",)), "after maximum, which is none of its phases"),
    ("softmax", Plan({"i": 4}, {"j": 16}, {"e": Home.SHARED}, launches=("sum",)), "e crosses launches, which shared"),
    ("softmax", Plan({"i": 4}, {"j": 16}, {"e": Home.SHARED}, splits={"j": 2}), "the home of e, does not outlast one"),
    ("softmax", Plan({"i": 4}, {"j": 16}, splits={"j": 2}, launches=("sum",)), "splits axis j over programs"),
    ("spdnn", Plan({"i": 8}, {"n": 8}, launches=("total",)), "after total, which is inside a loop or conditional"),
    ("spdnn", Plan({"i": 8}, {"n": 8}, {"features": Home.SHARED}, launches=("features",)), "features is accessed in"),
    ("spdnn", Plan({"i": 8}, {"n": 8}, copies=("features",), launches=("features",)), "it cannot have two copies"),
])  # fmt: skip
def test_a_plan_that_cannot_cut_there_is_refused(name: str, plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        apply_plan(kernel(name), plan, Facts({"N": 24}))
