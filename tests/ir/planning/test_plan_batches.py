"""Many plans at once: as grids, as some of them, and the loops that they have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.ir.analyses import annotate_needs
from vkernels.ir.errors import PlanError
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.decisions.decisions import neighbours, starting_choices
from vkernels.ir.planning.plan_grid import plan_grid
from vkernels.ir.planning.space import PlanSearchSpace, read_space

from .kernels import KERNELS, build, kernel_of
from .test_choose_plan import CPU, GPU

NARROW = replace(CPU, shared=1 << 14, registers=16, register_bytes=32)


def space_of(name: str, limits=GPU, size: int = 300, strides=None) -> PlanSearchSpace:
    kernel, module = build(name)
    return read_space(kernel_of(module), dict.fromkeys(kernel.sizes, size), limits, None, strides)


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", ["softmax_rows", "matmul_bias", "attention_rows"])
def test_a_grid_holds_every_plan_once_and_in_order(name, limits):
    space = space_of(name, limits)
    grid = plan_grid(space, next(iter(starting_choices(space))))
    every = grid.plans()
    assert len(every) == np.prod(grid.shape) == len({repr(plan) for plan in every})
    flat = grid.only(True)
    assert flat.plans() == every
    assert [flat.plan(number) for number in range(len(every))] == every
    assert grid.first() == every[0]


def test_some_of_a_grid_are_those_that_were_asked_for():
    space = space_of("matmul_bias")
    grid = plan_grid(space, next(iter(starting_choices(space))))
    small = grid.tile(("i", "j")) <= 1024
    few = grid.only(small & (grid.warps == 4))
    expected = [p for p in grid.plans() if p.tiles["i"] * p.tiles["j"] <= 1024 and p.warps == 4]
    assert 0 < len(expected) < np.prod(grid.shape)
    assert few.plans() == expected
    area = grid.among(small & (grid.warps == 4), grid.tile(("i", "j")))
    assert area.tolist() == [plan.tiles["i"] * plan.tiles["j"] for plan in expected]
    assert grid.among(small, 7.0).tolist() == [7.0] * len(grid.only(small).plans())


def loops_or_reason(space: PlanSearchSpace, move):
    try:
        return space.loops(move)
    except PlanError as error:
        return str(error)


@pytest.mark.parametrize("name", KERNELS)
def test_loops_kept_from_other_sizes_and_limits_are_those_read_anew(name):
    before = space_of(name, GPU, 300)
    before.needs.found.clear()
    moves = [move for first in starting_choices(before) for move in (first, *neighbours(before, first))][:60]
    for move in moves:
        loops_or_reason(before, move)
    kept = space_of(name, NARROW, 5000)
    assert kept.needs is before.needs
    anew = space_of(name, NARROW, 5000)
    anew.needs = replace(anew.needs, found={})
    held = [move for move in moves if not move.held]
    assert held
    assert [loops_or_reason(kept, move) for move in held] == [loops_or_reason(anew, move) for move in held]


def test_loops_of_other_strides_are_others():
    across, along = ({"x": strides, "out": (300, 1)} for strides in ((300, 1), (1, 300)))
    spaces = [space_of("softmax_rows", strides=strides) for strides in (across, along)]
    move = next(iter(starting_choices(spaces[0])))
    assert spaces[0].loops(move) != spaces[1].loops(move)
    assert spaces[0].loops(move) == space_of("softmax_rows", strides=across).loops(move)


@pytest.mark.parametrize("name", ["softmax_rows", "spdnn"])
def test_a_choice_is_the_same_whatever_was_chosen_before(name):
    kernel, module = build(name)
    needs = annotate_needs(kernel_of(module))
    sizes = [dict.fromkeys(kernel.sizes, size) for size in (64, 2000)]
    asked = [(one, limits) for one in sizes for limits in (CPU, GPU, NARROW)]
    needs.found.clear()
    forwards = [choose_plan(kernel_of(module), *each).plan for each in asked]
    needs.found.clear()
    backwards = [choose_plan(kernel_of(module), *each).plan for each in reversed(asked)]
    assert forwards == backwards[::-1]


@pytest.mark.parametrize("name", KERNELS)
def test_merged_loops_count_every_step_and_keep_the_places_that_matter(name):
    space = space_of(name, CPU)
    for loop in space.loops(next(iter(starting_choices(space)))):
        merged, named = loop.merged(frozenset()), loop.merged(loop.places)
        assert sum(merged.times) == sum(named.times) == len(loop.steps)
        assert named.places == loop.places
        assert merged.places <= {""}
        assert merged.by_trips.keys() == loop.by_trips.keys()
