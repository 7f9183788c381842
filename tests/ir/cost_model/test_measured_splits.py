"""Rows that are split over programs are modelled about as an H200 measured them (Triton 3.6, 2026-11-26)."""

from __future__ import annotations

import pytest

from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.targets import limits_of, target_named

from ..planning.kernels import build, kernel_of

FEW, MANY = {"M": 8, "N": 1 << 20}, {"M": 512, "N": 1 << 17}
SOFTMAX = [
    (FEW, 8192, 4, 32, 60.4), (FEW, 8192, 4, 64, 51.4), (FEW, 8192, 4, 128, 55.8), (FEW, 16384, 8, 32, 48.8),
    (FEW, 16384, 8, 64, 60.0), (FEW, 8192, 8, 128, 57.1), (FEW, 4096, 4, 128, 49.7), (FEW, 2048, 4, 64, 60.4),
    (FEW, 4096, 4, 256, 64.2), (MANY, 8192, 4, 2, 345.5), (MANY, 16384, 8, 4, 331.5), (MANY, 16384, 8, 8, 372.0),
]  # fmt: skip
"""Sizes, elements of a chunk, warps, programs of a row, microseconds: of f32."""


def space_of(sizes: dict[str, int]) -> PlanSearchSpace:
    return read_space(kernel_of(build("softmax_rows", "float32")[1]), sizes, limits_of(target_named("h200-sxm-141")))


@pytest.mark.parametrize("sizes", [FEW, MANY], ids=["few rows", "many rows"])
def test_split_rows_take_about_what_was_measured(sizes: dict[str, int]) -> None:
    space = space_of(sizes)
    for _, chunk, warps, split, measured in (row for row in SOFTMAX if row[0] is sizes):
        plan = Plan({"i": 1}, {"j": chunk}, splits={"j": split}, lanes="j", order=("i",), warps=warps)
        assert 0.75 < 1e6 * float(model_plan(space, plan).seconds) / measured < 1.25, (chunk, warps, split)
