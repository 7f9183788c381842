"""A maximum and a sum of exponentials in one loop give what two loops give: NaN, infinities and empty rows too."""

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
from .three_ways import run_three_ways

INF, NAN = np.float32(np.inf), np.float32(np.nan)
LENGTH = 50
SUMS = """
vk.kernel @sums(%x: !vk.tensor<[M, N], f32>, %most: !vk.tensor<[M], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %a = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %b = vk.broadcast %a : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %c = arith.subf %row, %b : tensor<?x?xf32, #vk.axes<i, j>>
  %d = math.EXP %c : tensor<?x?xf32, #vk.axes<i, j>>
  %s = vk.sum %d along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %a in %most[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
  vk.store %s in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}
"""


def strange_rows() -> np.ndarray[Any, Any]:
    """Rows of which one would notice if NaN or an infinity were lost, or stayed where it should not."""
    x = np.random.default_rng(0).normal(0, 30, (13, LENGTH)).astype(np.float32)
    x[0] = -INF
    x[1, :40] = -INF
    x[2, 10:] = -INF
    x[3, 17] = NAN
    x[4, 17] = INF
    x[5, 49] = NAN
    x[6, 0] = INF
    x[6, 49] = -INF
    x[7, 0], x[7, 20] = INF, NAN
    x[8] = np.linspace(-1000, 1000, LENGTH)
    x[9] = np.linspace(1000, -1000, LENGTH)
    x[10] = np.finfo(np.float32).max
    x[11] = np.finfo(np.float32).min
    x[12, ::2] = -INF
    return x


@pytest.mark.sample(2)
@pytest.mark.parametrize("facts", [Facts(), Facts({"N": LENGTH}), Facts(multiples={"N": 2})])
@pytest.mark.parametrize(("tile", "chunk"), [(1, 16), (4, 8), (4, 2), (16, 1)])
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_sums_are_as_written(function: str, tile: int, chunk: int, facts: Facts) -> None:
    x = strange_rows()
    most, out = (np.full(len(x), 7, np.float32) for _ in range(2))
    plan = Plan({"i": tile}, {"j": chunk}, online=("j",), lanes="j")
    arguments, sizes = {"x": x, "most": most, "out": out}, {"M": len(x), "N": LENGTH}
    text = run_three_ways(parse_module(SUMS.replace("EXP", function)), arguments, sizes, plan, facts)
    assert text.count("scf.for") == (1 if tile == 1 else 2)  # one for full tiles, one for the last


@pytest.mark.parametrize("facts", [Facts(), Facts({"N": 0})])
def test_rows_of_nothing_sum_to_nothing(facts: Facts) -> None:
    arguments = {"x": np.zeros((3, 0), np.float32), "most": np.ones(3, np.float32), "out": np.ones(3, np.float32)}
    plan = Plan({"i": 2}, {"j": 8}, online=("j",))
    run_three_ways(parse_module(SUMS.replace("EXP", "exp")), arguments, {"M": 3, "N": 0}, plan, facts, tolerance=0)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("homes", "launches"), [
    ({}, ()), ({}, ("sum",)), ({"row": Home.SHARED}, ()), ({"row": Home.MEMORY}, ("sum",)),
    ({"row": Home.MEMORY, "e": Home.SHARED}, ()), ({"e": Home.MEMORY}, ("sum",)),
])  # fmt: skip
def test_softmax(homes: dict[str, Home], launches: tuple[str, ...]) -> None:
    x = strange_rows()
    plan = Plan({"i": 4}, {"j": 16}, homes, launches=launches, online=("j",), lanes="j")
    arguments = {"x": x, "out": np.full_like(x, 7)}
    run_three_ways(kernel("softmax"), arguments, {"M": len(x), "N": LENGTH}, plan, Facts({"N": LENGTH}))


def test_an_axis_that_is_held_needs_no_online_form() -> None:
    plan = Plan({"i": 4}, {"j": 64}, online=("j",))
    without = Plan({"i": 4}, {"j": 64})
    facts = Facts({"N": LENGTH})
    assert str(apply_plan(kernel("softmax"), plan, facts)) == str(apply_plan(kernel("softmax"), without, facts))


@pytest.mark.parametrize(("name", "plan", "message"), [
    ("softmax", Plan({"i": 4}, {"j": 16}, online=("i",)), "online along i, which is no whole axis"),
    ("softmax", Plan({"i": 4}, {"j": 16}, splits={"j": 2}, online=("j",)), "cannot go online"),
    ("softmax", Plan({"i": 4}, {"j": 16}, launches=("max",), online=("j",)), "no launch begins between them"),
    ("layer_norm", Plan({"i": 4}, {"j": 16}, online=("j",)), r"no sum of exp\(x - m\) along it"),
])  # fmt: skip
def test_a_plan_that_cannot_go_online_is_refused(name: str, plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        apply_plan(kernel(name), plan, Facts())
