"""Which plans benchmarks/cliffs.py times: all of them within limits, some that no chooser would think of."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from cliffs_judge import Point
from cliffs_search import Search, points_of

from tests.ir.planning.kernels import build, kernel_of
from vkernels.ir.limits import Limits
from vkernels.ir.planning.space import read_space

CPU = Limits(registers=32, register_bytes=64, shared=64 << 10, multiprocessors=1, cache=32 << 20)
FULL, LITTLE = Point(32, 64 << 10), Point(8, 16 << 10)


@cache
def search() -> Search:
    module = build("softmax_rows")[1]
    return Search(read_space(kernel_of(module), {"M": 64, "N": 16384}, CPU), points_of(CPU), 20261121)


def test_limits_are_halved_down_to_eight_registers_and_16_kib():
    points = points_of(CPU)
    assert points[0] == FULL
    assert points[-1] == LITTLE
    assert len(points) == 3 * 3
    assert {point.registers for point in points} == {32, 16, 8}


def test_plans_are_drawn_that_fit_each_number_of_registers():
    taken = [search().taken(plan) for plan in search().drawn(30)]
    assert len(taken) == 30
    assert all(each.registers <= 32 for each in taken)
    assert sum(each.registers <= 8 for each in taken) >= 8  # about a third: some are drawn twice
    assert search().drawn(30) == search().drawn(30)


def test_neighbours_keep_within_limits_and_have_sizes_of_their_own():
    plan = search().chosen(LITTLE).plan
    beside = list(search().beside(plan, LITTLE))
    assert plan not in beside
    assert all(search().taken(each).fits(LITTLE) for each in beside)
    assert {each.chunks["j"] for each in beside} - {plan.chunks["j"]}
    assert any(each.homes != plan.homes for each in beside)


def test_pinned_sizes_stand_where_they_fit_and_give_way_where_not():
    wide = next(plan for plan in search().drawn(30) if search().taken(plan).registers > 16)
    here, there = search().pinned(wide, FULL), search().pinned(wide, LITTLE)
    assert (here.tiles, here.chunks) == (wide.tiles, wide.chunks)
    assert (there.tiles, there.chunks) != (wide.tiles, wide.chunks)
    assert search().taken(there).fits(LITTLE)
