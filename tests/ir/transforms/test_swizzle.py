"""Groups of programs change the order of programs, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i64
from xdsl.ir import Block

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.apply_plan.frames import LoopFrame
from vkernels.ir.transforms.apply_plan.swizzle import swizzled

from ..lowering.ttir.lowering import kernel, lowered
from .three_ways import run_three_ways

SIDES = st.integers(1, 12)


@given(rows=SIDES, columns=SIDES, swizzle=st.integers(1, 14))
def test_a_group_of_rows_goes_through_all_columns_before_the_next(rows, columns, swizzle):
    frame = LoopFrame(Block(arg_types=[i64]))
    grid = [frame.number(rows), frame.number(columns)]
    programs = [(frame.number(m), frame.number(n)) for m in range(rows) for n in range(columns)]
    places = [tuple(map(frame.known, swizzled(frame, swizzle, program, grid))) for program in programs]
    assert places == [
        (row, column)
        for first in range(0, rows, swizzle)
        for column in range(columns)
        for row in range(first, min(rows, first + swizzle))
    ]


@pytest.mark.slow
@settings(max_examples=15)
@given(rows=SIDES, columns=SIDES, swizzle=st.integers(1, 14), resident=st.sampled_from([0, 3]), turned=st.booleans())
def test_coordinates_are_a_permutation_in_both_interpreters(rows, columns, swizzle, resident, turned):
    """Each program writes the coordinates of its position: all are there if no program's place is another's."""
    module = kernel("swizzle")
    plan = Plan({"i": 1, "j": 1}, order=("j", "i") if turned else ("i", "j"), swizzle=swizzle)
    places = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    mapped, ttir = ({"x": places.copy(), "out": np.full_like(places, np.nan)} for _ in range(2))
    interpret(apply_plan(module, plan, Facts()), mapped, check_races=True)
    interpret_ttir(lowered(module, plan, Facts(), resident), ttir, {"M": rows, "N": columns}, order=1)
    np.testing.assert_array_equal(mapped["out"], places)
    np.testing.assert_array_equal(ttir["out"], places)


SHARES = """
vk.kernel @shares(%x: !vk.tensor<[M, N, K], f32>, %out: !vk.tensor<[M, N, K], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %row = vk.load %x[i, j, k] : !vk.tensor<[M, N, K], f32> -> tensor<?x?x?xf32, #vk.axes<i, j, k>>
  %e = math.exp %row : tensor<?x?x?xf32, #vk.axes<i, j, k>>
  %sum = vk.sum %e along k : tensor<?x?x?xf32, #vk.axes<i, j, k>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %all = vk.broadcast %sum : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?x?x?xf32, #vk.axes<i, j, k>>
  %share = arith.divf %e, %all : tensor<?x?x?xf32, #vk.axes<i, j, k>>
  vk.store %share in %out[i, j, k] : !vk.tensor<[M, N, K], f32> <- tensor<?x?x?xf32, #vk.axes<i, j, k>>
}
"""


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("resident", [0, 3])
@pytest.mark.parametrize("parts", [
    {}, {"homes": {"e": Home.MEMORY}}, {"homes": {"e": Home.SHARED}},
    {"homes": {"e": Home.MEMORY}, "launches": ("sum",)},
])  # fmt: skip
@pytest.mark.parametrize("swizzle", [2, 8])
def test_homes_launches_and_resident_programs_are_those_of_the_new_places(swizzle, parts, resident):
    sizes = {"M": 21, "N": 19, "K": 35}
    shape = tuple(sizes.values())
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    arguments = {"x": x, "out": np.full(shape, np.nan, np.float32)}
    plan = Plan({"i": 4, "j": 2}, {"k": 8}, lanes="k", swizzle=swizzle, **parts)
    facts = Facts({"K": sizes["K"]})
    run_three_ways(parse_module(SHARES), arguments, sizes, plan, facts, resident_programs=resident)


def test_a_kernel_that_can_have_no_groups_refuses_them():
    with pytest.raises(PlanError, match="orders programs along two tile axes, and there are fewer"):
        apply_plan(kernel("softmax"), Plan({"i": 4}, {"j": 64}, swizzle=4), Facts())
    with pytest.raises(PlanError, match="it splits axis k over programs"):
        apply_plan(kernel("matmul"), Plan({"i": 4, "j": 8}, {"k": 8}, splits={"k": 2}, swizzle=4), Facts())
