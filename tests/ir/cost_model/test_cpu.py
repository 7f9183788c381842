"""What the model of a CPU's time must tell apart, as measured."""

from __future__ import annotations

from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import read_space

from ..planning.kernels import build, kernel_of

EIGHT = Limits(registers=8, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)


def seconds(columns, **packs):
    """Of a product of 512 rows and 512 steps, four rows and one register of columns at a time."""
    module = build("matmul_bias")[1]
    space = read_space(kernel_of(module), {"M": 512, "N": columns, "K": 512}, EIGHT)
    plan = Plan({"i": 4, "j": 16}, {"k": 1}, lanes="j", order=("j", "i"), **packs)
    return model_plan(space, plan).seconds


def test_rows_half_a_page_apart_are_worth_packing_and_near_ones_are_not():
    assert seconds(512, packs=("a", "b")) < seconds(512, packs=("a",))
    assert seconds(128, packs=("a", "b")) > seconds(128, packs=("a",))
