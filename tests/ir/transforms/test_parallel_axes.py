"""Programs of a launch divide axes along which it is parallel, and the kernel gives the same; others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.generated.random_kernels.compare import Counts, check_ttir
from tests.ir.planning.kernels import build, kernel_of
from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.parallel_axes import parallel_axes
from vkernels.ir.cost_model.launches import cuts_of
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan

from ..lowering.ttir.lowering import kernel
from .three_ways import run_three_ways

SIZES = {"M": 7, "K": 20, "H": 50, "N": 24}
EVEN = {"M": 8, "K": 16, "H": 64, "N": 32}
HOMES = {"hidden": Home.MEMORY}


def layers(sizes: dict[str, int], seed: int) -> dict[str, Any]:
    print(f"seed {seed}")
    draw = np.random.default_rng(seed).standard_normal
    shapes = {"x": ("M", "K"), "w1": ("K", "H"), "w2": ("H", "N"), "out": ("M", "N")}
    found = {name: draw([sizes[d] for d in shape]).astype(np.float32) for name, shape in shapes.items()}
    found["out"][...] = np.nan
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("parallel", [("h",), ("n",), ("h", "n")], ids="-".join)
@pytest.mark.parametrize("launches", ["product", "hidden"])
@pytest.mark.parametrize(
    ("sizes", "facts"), [(SIZES, Facts()), (SIZES, Facts(SIZES)), (EVEN, Facts(EVEN)), (EVEN, Facts())],
    ids=["partial", "partial-known", "even-known", "even"],
)  # fmt: skip
def test_two_layers(parallel, launches, sizes, facts):
    homes = HOMES if launches == "hidden" else {"product": Home.MEMORY}
    plan = Plan({"i": 4}, {"k": 8, "h": 16, "n": 8}, homes, launches=(launches,), parallel=parallel)
    text = run_three_ways(kernel("parallel_axes"), layers(sizes, 3), sizes, plan, facts, 1e-4)
    assert text.count("vk.launch") == 2
    assert ["p_h" in text, "p_n" in text] == ["h" in parallel, "n" in parallel]


def test_a_program_of_one_chunk_has_no_loop_over_chunks():
    plan = Plan({"i": 4}, {"k": 16, "h": 16, "n": 8}, HOMES, launches=("hidden",), parallel=("h", "n"))
    text = run_three_ways(kernel("parallel_axes"), layers(EVEN, 4), EVEN, plan, Facts(EVEN), 1e-4)
    assert text.count("scf.for") == 1, "over what the second launch contracts"


def test_an_axis_that_is_held_has_one_program():
    plan = Plan({"i": 4}, {"k": 8, "h": 64, "n": 8}, HOMES, launches=("hidden",), parallel=("h", "n"))
    text = run_three_ways(kernel("parallel_axes"), layers(EVEN, 5), EVEN, plan, Facts(EVEN), 1e-4)
    assert "p_h" not in text


def test_rows_that_are_complete_are_divided():
    """The last of softmax's launches is parallel along rows, whose maximum and sum are there."""
    rows = np.random.default_rng(6).standard_normal((7, 50)).astype(np.float32)
    arguments = {"x": rows, "out": np.full_like(rows, np.nan)}
    for homes in ({}, {"e": Home.MEMORY}):
        plan = Plan({"i": 4}, {"j": 16}, homes, launches=("sum",), lanes="j", parallel=("j",))
        text = run_three_ways(kernel("softmax"), arguments, {"M": 7, "N": 50}, plan, Facts())
        assert "p_j" not in text[: text.index('vk.launch "out"')]
        assert "p_j" in text[text.index('vk.launch "out"') :]


def able(module: ModuleOp, *launches: str) -> list[str]:
    axes = parallel_axes(phases_of(kernel_of(module))).of(launches)
    return ["".join(sorted(each)) for each in axes]


def test_launches_are_parallel_along_axes_that_they_combine_nothing_along():
    assert able(build("mlp_rows")[1], "product") == able(build("mlp_rows")[1], "hidden") == ["h", "n"]
    assert able(build("mlp_rows")[1], "dot") == ["n", "n"], "the first reduces along h"
    assert able(build("softmax_rows")[1], "max") == ["", ""]
    assert able(kernel("softmax"), "max", "sum") == ["", "", "j"]
    assert able(kernel("softmax")) == [""], "one launch"


def test_scans_and_scratchpads_are_not_divided():
    space = phases_of(kernel_of(build("cumulative_sum_rows")[1]))
    assert not any(axes for label in cuts_of(space) for axes in parallel_axes(space).of((label,)))
    assert not any(parallel_axes(phases_of(kernel_of(kernel("spdnn")))).of(("features", "max")))


# Elements of `out` that two positions of j share, where the programs of j would race.
SHARED = """
vk.kernel @shared(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, L], f32>) {{
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %L = vk.size L
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %d in %out[i, {first}] : !vk.tensor<[M, L], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %row in %out[i, {second}] : !vk.tensor<[M, L], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "axes"),
    [("j", "j", "j"), ("2 * j", "2 * j", "j"), ("2 * j", "%M + j", ""), ("j", "%M + j", "")],
    ids=["same", "apart", "meeting", "beyond"],
)
def test_programs_that_may_meet_do_not_divide_an_axis(first, second, axes):
    assert able(parse_module(SHARED.format(first=first, second=second)), "max") == ["", axes]


@pytest.mark.parametrize(("plan", "message"), [
    (Plan({"i": 4}, {"k": 8, "h": 8, "n": 8}, HOMES, parallel=("h",)), "the plan has one launch"),
    (Plan({"i": 4}, {"k": 8, "h": 8, "n": 8}, HOMES, launches=("hidden",), parallel=("k",)), "no launch is parallel"),
    (Plan({"i": 4}, {"k": 8, "h": 8, "n": 8}, HOMES, launches=("hidden",), parallel=("i",)), "no launch is parallel"),
    (Plan({"i": 4}, {"k": 8, "h": 8, "n": 8}, HOMES, launches=("hidden",), parallel=("z",)), "no launch is parallel"),
], ids=["one-launch", "reduced", "tile", "unknown"])  # fmt: skip
def test_an_axis_that_cannot_be_divided_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        apply_plan(kernel("parallel_axes"), plan, Facts(EVEN))


def test_what_later_launches_compute_again_is_kept_by_one_program():
    """A gather along the parallel axis is computed again from an index without that axis, which the launch leaves."""
    check_ttir(888201, Counts())  # a random kernel, which fails where programs store the same element
