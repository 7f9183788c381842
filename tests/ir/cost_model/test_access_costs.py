"""Each cost of an access lengthens the time of kernels that access memory so, and of no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jaxtyping import Float, Int32

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import read_space

from ..planning.kernels import kernel_of

WIDE = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)


@vk.kernel
def turned(x: Float[vk.Tensor, "N M"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[j, i]


@vk.kernel
def picked(x: Float[vk.Tensor, "K"], at: Int32[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[at[i]]


@vk.kernel
def sums(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[i, j], axis=j)


@vk.kernel
def counted(at: Int32[vk.Tensor, "N"], out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[at[i]], 1.0)


@vk.kernel
def copied(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]


def seconds(kernel, sizes, plan, dtype="float32", **costs) -> float:
    dtypes = [(p.name, "int32" if p.name == "at" else dtype) for p in kernel.parameters]
    module = kernel.build(Signature(tuple(dtypes), ()))
    limits = replace(WIDE, clock=3e9, core=CoreCosts(**costs))
    return model_plan(read_space(kernel_of(module), sizes, limits), plan).seconds


TURNED = {"M": 64, "N": 64}
PICKED = {"K": 1024, "N": 4096}
COUNTED = {"K": 1024, "N": 4096}
LOADS_APART = turned, TURNED, Plan({"i": 1, "j": 16}, {}, lanes="j", order=("i", "j"))
STORES_APART = turned, TURNED, Plan({"i": 16, "j": 1}, {}, lanes="i", order=("i", "j"))
FINDS = picked, PICKED, Plan({"i": 16}, {}, lanes="i", order=("i",))
ADDS_UP = sums, {"M": 512, "N": 16}, Plan({"i": 1}, {"j": 16}, lanes="j", order=("i",))
ENDS_WITHIN = sums, {"M": 512, "N": 23}, Plan({"i": 1}, {"j": 16}, lanes="j", order=("i",))
UPDATES = counted, COUNTED, Plan({"i": 16}, {}, lanes="i", order=("i",))
UPDATES_FAR = counted, {"K": 1 << 20, "N": 4096}, UPDATES[2]
IN_COPIES = counted, COUNTED, Plan({"i": 16}, {}, lanes="i", order=("i",), private_copies=1)
IN_COPIES_FAR = counted, UPDATES_FAR[1], IN_COPIES[2]
SIDE_BY_SIDE = copied, {"M": 64, "N": 64}, Plan({"i": 1, "j": 64}, {}, lanes="j", order=("i", "j"))
ROWS_3 = sums, {"M": 2048, "N": 1024}, Plan({"i": 32}, {"j": 16}, lanes="j", order=("i",))
ROWS = sums, {"M": 1 << 15, "N": 1024}, ROWS_3[2]
HOPS = copied, {"M": 4096, "N": 1024}, Plan({"i": 1, "j": 16}, {}, lanes="j", order=("j", "i"))

CASES = {
    "apart": LOADS_APART, "store_apart": STORES_APART, "found": FINDS, "index": FINDS, "masked": ENDS_WITHIN,
    "across": ADDS_UP, "atomic": UPDATES, "atomic_far": UPDATES_FAR, "update": IN_COPIES, "update_far": IN_COPIES_FAR,
    "line_3": ROWS_3, "lost_3": ROWS_3, "line": ROWS, "lost": ROWS, "hop": HOPS, "waited": ROWS,
}  # fmt: skip
NEAR = {
    "atomic_far": UPDATES,
    "update_far": IN_COPIES,
    "line": ROWS_3,
    "lost": ROWS_3,
    "waited": ROWS_3,
    "masked": ADDS_UP,
}
"""The same with nearer memory, or without an end within a vector."""


@pytest.mark.parametrize("cost", CASES)
def test_a_cost_lengthens_what_has_it_and_nothing_else(cost):
    few, many = {cost: 1.0}, {cost: 50.0}
    assert seconds(*CASES[cost], **many) > 1.2 * seconds(*CASES[cost], **few)
    other = NEAR.get(cost, SIDE_BY_SIDE)
    assert seconds(*other, **many) == pytest.approx(seconds(*other, **few), rel=0.01)


def test_instructions_wait_for_level_3_as_long_as_it_takes():
    more = [seconds(*ROWS_3, waited_3=part) - seconds(*ROWS_3, waited_3=0.0) for part in (1.0, 2.0)]
    assert 0 < 1.5 * more[0] < more[1]


def test_rows_on_more_pages_than_a_core_knows_are_waited_for():
    """A line each of 1000 pages that share no places in level 2 is found there again, if the core knows the pages."""
    case = copied, {"M": 1000, "N": 1040}, Plan({"i": 1, "j": 16}, {}, lanes="j", order=("j", "i"))
    assert seconds(*case, pages=512.0) > 1.1 * seconds(*case, pages=4096.0)


def test_rows_beyond_those_that_prefetchers_follow_cost_more():
    times = [seconds(*ROWS, lost=5.0, streams=rows) for rows in (4.0, 16.0, 32.0)]
    assert times[0] > 1.1 * times[1]
    assert times[2] == pytest.approx(seconds(*ROWS, lost=0.0))


def test_rows_that_are_turned_cost_less_than_elements_apart():
    """Rows of two elements or more are loaded as vectors, whatever their length."""

    def of(rows: int) -> float:
        plan = Plan({"i": rows, "j": 16}, {}, lanes="j", order=("i", "j"))
        return seconds(turned, {"M": 240, "N": 240}, plan)

    assert 1.2 * of(4) < of(1)
    assert of(16) < of(4)
    assert of(6) < of(4)
    assert of(3) < of(1)


@pytest.mark.parametrize("case", [LOADS_APART, STORES_APART])
def test_small_elements_apart_have_costs_of_their_own(case):
    """Each is moved into its lane, or out of it, by itself; no instruction gathers them."""
    plain, narrow = ("apart", "store_apart"), ("apart_narrow", "store_apart_narrow")
    for costs, own, other in ((plain, "float32", "bfloat16"), (narrow, "bfloat16", "float32")):
        fast, slow = (dict.fromkeys(costs, cost) for cost in (1.0, 50.0))
        assert seconds(*case, own, **slow) > 1.1 * seconds(*case, own, **fast)
        assert seconds(*case, other, **slow) == pytest.approx(seconds(*case, other, **fast), rel=1e-9)
