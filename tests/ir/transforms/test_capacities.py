"""Code for sizes that change: right for every size up to its capacity, and for none beyond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vkernels.ir.analysis.axes import most_value
from vkernels.ir.dialect import KernelOp, WholeOp
from vkernels.ir.errors import ArgumentError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import lower_to_ttir
from vkernels.ir.pipeline import gpu_pipeline, run_passes
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

CAPACITY = 64
SIZES = (0, 1, 2, 15, 16, 17, 63, 64)
PLANS = {
    "held": Plan({"i": 2}, {"j": 64}, lanes="j"),
    "on chip": Plan({"i": 1}, {"j": 16}, {"e": Home.SHARED}, lanes="j"),
    "in memory": Plan({"i": 2}, {"j": 16}, {"e": Home.MEMORY}, lanes="j"),
    "online": Plan({"i": 1}, {"j": 16}, online=("j",), lanes="j"),
    "split": Plan({"i": 1}, {"j": 16}, splits={"j": 2}, lanes="j"),
}


def softmax():
    return parse_module((Path(__file__).parent / "softmax.mlir").read_text(), "softmax")


def expected(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf).astype(np.float64))
        return e / e.sum(1, keepdims=True)


@pytest.mark.sample(5)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("gpu", [False, True], ids=["mapped", "ttir"])
def test_code_is_right_for_all_sizes_up_to_its_capacity(plan, gpu):
    facts = Facts(distinct=True, capacities={"N": CAPACITY})
    mapped = run_passes(gpu_pipeline(plan, facts), softmax()) if gpu else apply_plan(softmax(), plan, facts)
    verify_mapped(mapped)
    lowered = lower_to_ttir(next(iter(mapped.ops)), 0) if gpu else None
    for size in SIZES:
        x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        arguments = {"x": x, "out": np.full_like(x, np.nan)}
        if lowered is None:
            interpret(mapped, arguments, order=1, check_races=True)
        else:
            interpret_ttir(lowered, arguments, {"M": 3, "N": size}, write_only=("out",))
        np.testing.assert_allclose(arguments["out"], expected(x), rtol=1e-5, err_msg=f"size {size}")


def test_a_size_beyond_its_capacity_is_refused():
    mapped = apply_plan(softmax(), PLANS["held"], Facts(capacities={"N": CAPACITY}))
    x = np.zeros((3, CAPACITY + 1), np.float32)
    with pytest.raises(ArgumentError, match="size N is 65, but the kernel was mapped for 64 at most"):
        interpret(mapped, {"x": x, "out": x.copy()})


@pytest.mark.parametrize(
    ("extent", "facts", "most"),
    [
        ("arith.addi %N, %M", {"capacities": {"N": 8}, "sizes": {"M": 2}}, 10),
        ("arith.addi %N, %M", {"capacities": {"N": 8}}, None),
        ("arith.subi %N, %M", {"capacities": {"N": 8}, "sizes": {"M": 2}}, 6),
        ("arith.subi %N, %M", {"capacities": {"N": 8, "M": 2}}, None),
        ("arith.muli %N, %M", {"capacities": {"N": 8, "M": 2}}, 16),
        ("arith.muli %N, %M", {"bounds": {"N": 8, "M": 2}}, None),
    ],
)
def test_capacities_bound_an_extent(extent, facts, most):
    module = parse_module(f"""
vk.kernel @k(%x: !vk.tensor<[M, N], f32>) {{
  %M = vk.size M
  %N = vk.size N
  %extent = {extent} : i64
  vk.whole j < %extent
}}""")
    (axis,) = (op for op in module.walk() if isinstance(op, WholeOp))
    assert isinstance(axis.parent_op(), KernelOp)
    assert most_value(axis.extent, Facts(**facts)) == most
