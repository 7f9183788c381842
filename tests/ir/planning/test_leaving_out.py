"""The search leaves out plans that cannot matter: the others are as they were, in their order."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import islice

import numpy as np
import pytest

from tests.ir.planning.kernels import KERNELS, build, kernel_of
from tests.ir.planning.test_choose_plan import CPU, GPU
from vkernels.ir.cost_model.model_time import least_time
from vkernels.ir.planning.choose_plan import REFINED_AT_ONCE, candidates_of, refine_top_candidates
from vkernels.ir.planning.decisions.decisions import starting_choices
from vkernels.ir.planning.find_families import find_families
from vkernels.ir.planning.fits import columns_of
from vkernels.ir.planning.plan_families import ROUNDED
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.targets import limits_of, target_named

DEVICES = {"cpu": CPU, "gpu": GPU, "mi300x": limits_of(target_named("mi300x"))}


def space_of(name: str, device: str) -> PlanSearchSpace:
    kernel, module = build(name)
    return read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, DEVICES[device])


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KERNELS)
def test_candidates_are_those_of_a_search_that_leaves_nothing_out(name: str, device: str) -> None:
    every = refine_top_candidates(space_of(name, device), find_families(space_of(name, device)))
    found = [(each.plan, each.weight) for each in islice(candidates_of(space_of(name, device)), REFINED_AT_ONCE)]
    assert found == [(each.plan, each.weight) for each in islice(every, len(found))]


@pytest.mark.sample(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KERNELS)
def test_no_plan_takes_less_than_its_least_time(name: str, device: str) -> None:
    for family in find_families(space_of(name, device)):
        least = least_time(family.batch, DEVICES[device])
        assert np.all(least <= family.times.seconds * ROUNDED), family.choices


@pytest.mark.parametrize("name", ["softmax_rows", "matmul_bias", "attention_rows"])
def test_what_plans_take_was_found_before_under_another_order_of_programs(name: str) -> None:
    space, anew = space_of(name, "gpu"), space_of(name, "gpu")
    first = next(iter(starting_choices(space)))
    other = replace(first, order=first.order[::-1], lanes=None)
    many = plan_grid(space, first).warps < 8
    few = many & (plan_grid(space, first).warps > 1)
    columns_of(space, plan_grid(space, first).only(many))
    found = columns_of(space, plan_grid(space, other).only(few))
    for one, again in zip(astuple(found), astuple(columns_of(anew, plan_grid(anew, other).only(few))), strict=True):
        assert np.array_equal(one, np.broadcast_to(again, np.shape(one)))
