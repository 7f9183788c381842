"""The modelled part of chunks that masks let through is what programs visit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir.planning.kernels import kernel_of
from tests.ir.transforms.masked_kernels import module_of, reductions
from vkernels.ir.cost_model.visits import Axes, Sum, Visit, visited_part
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import read_space

CPU = Limits(registers=16, register_bytes=32, shared=1 << 20, multiprocessors=1, cache=32 << 20)
CAUSAL = Sum(0, (("i", 1), ("j", -1)), (("N", 1), ("M", -1)))
BEFORE, AFTER = Sum(100, (("i", -1), ("j", 1)), ()), Sum(100, (("i", 1), ("j", -1)), ())


def visited(condition: object, tile: int, chunk: int, rows: int, columns: int) -> float:
    """The mean number of chunks that programs visit, of all."""
    sums = [CAUSAL] if condition is CAUSAL else [BEFORE, AFTER]
    parts = []
    for start in range(0, rows, tile):
        i, j = np.ogrid[start : min(rows, start + tile), :columns]
        given = {"N": columns, "M": rows}
        seen = [
            s.constant + sum(given[n] * f for n, f in s.sizes) + dict(s.positions)["i"] * i + dict(s.positions)["j"] * j
            >= 0
            for s in sums
        ]
        places = np.flatnonzero(np.logical_and.reduce(seen).any(0)) // chunk
        parts.append((places[-1] - places[0] + 1 if len(places) else 1) / -(-columns // chunk))
    return float(np.mean(parts))


@pytest.mark.parametrize("condition", [CAUSAL, ("all", (BEFORE, AFTER))])
@pytest.mark.parametrize(("tile", "chunk"), [(1, 1), (64, 16), (16, 64), (1, 128), (256, 8), (1024, 8)])
def test_the_part_of_chunks_is_the_mean_over_programs(condition: object, tile: int, chunk: int) -> None:
    sizes = {"i": tile, "j": chunk}
    axes = Axes(sizes.__getitem__, {"i": 1024, "j": 1500}, {"M": 1024, "N": 1500}, frozenset("i"))
    part = visited_part(Visit("j", (condition,)), axes)
    assert part == pytest.approx(visited(condition, tile, chunk, 1024, 1500), rel=0.1)


def test_masks_that_the_model_knows_nothing_of_leave_out_nothing() -> None:
    axes = Axes({"j": 8}.__getitem__, {"j": 64}, {}, frozenset())
    assert visited_part(Visit("j", (None, CAUSAL)), axes) == 1


def test_a_causal_kernel_is_modelled_to_take_about_half_as_long() -> None:
    seconds = {}
    for form in ("moved", "length"):
        space = read_space(kernel_of(module_of(reductions, form=form)), {"M": 4096, "N": 4096}, CPU)
        seconds[form] = float(model_plan(space, Plan({"i": 4}, {"j": 64}, lanes="j", order=("i",))).seconds)
    assert 0.4 < seconds["moved"] / seconds["length"] < 0.7
