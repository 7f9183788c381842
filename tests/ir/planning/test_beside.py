"""Calls beside others, as modelled: nothing is faster for company, and what others leave bounds what it costs."""

import random

import pytest
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.limits import Limits
from vkernels.ir.planning.beside import CallDemand, demand_of, refetch_seconds, slowdown
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.space import read_space

LIMITS = Limits(registers=32, register_bytes=32, shared=1 << 20, multiprocessors=4, cache=32 << 20)


@vk.kernel
def added(x: Float[vk.Tensor, "N"], y: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + y[i]


def planned(size):
    kernel = kernel_in(added.build(added.signature(x="float32", y="float32", out="float32")))
    sizes = {"N": size}
    return read_space(kernel, sizes, LIMITS), choose_plan(kernel, sizes, LIMITS).plan


def others(random_, count):
    return [
        CallDemand(1e-3, {name: random_.random() * 1e-3 for name in ("level 3", "memory")}, 8, random_.random() * 1e8)
        for _ in range(count)
    ]


def test_a_demand_counts_each_byte_once():
    demand = demand_of(*planned(1 << 20))
    assert demand.bytes == 3 * 4 << 20
    assert demand.programs >= LIMITS.multiprocessors
    assert 0 < demand.part("memory") <= 1


def test_alone_a_call_takes_as_long_as_it_does():
    space, plan = planned(1 << 20)
    assert slowdown(space, plan, []) == 1
    assert refetch_seconds(demand_of(space, plan), [], LIMITS) == 0


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 25])
def test_more_company_never_helps(size):
    random_, (space, plan) = random.Random(fresh_seed()), planned(size)
    company, own = others(random_, 5), demand_of(space, plan)
    slower = [slowdown(space, plan, company[:count]) for count in range(6)]
    fetched = [refetch_seconds(own, company[:count], LIMITS) for count in range(6)]
    assert slower == sorted(slower)
    assert fetched == sorted(fetched)


def test_two_that_wait_for_memory_alone_take_twice_as_long():
    space, plan = planned(1 << 26)
    own = demand_of(space, plan)
    assert slowdown(space, plan, [own]) == pytest.approx(2, rel=0.1)


def test_what_uses_neither_caches_nor_memory_costs_nothing():
    space, plan = planned(1 << 26)
    quiet = CallDemand(1e-3, {"instructions": 1e-3}, 8, 0.0)
    assert slowdown(space, plan, [quiet]) == pytest.approx(1)
    assert refetch_seconds(demand_of(space, plan), [quiet], LIMITS) == 0


def test_the_longer_others_run_the_more_is_fetched_again():
    random_, own = random.Random(fresh_seed()), demand_of(*planned(1 << 18))
    company = others(random_, 3)
    fetched = [refetch_seconds(own, company, LIMITS, gap) for gap in (0.0, 1e-5, 1e-4, 1e-3, 1.0, None)]
    assert fetched == sorted(fetched)
    assert fetched[0] == 0
    assert fetched[-1] > 0


def test_what_no_cache_keeps_is_not_fetched_again():
    space, plan = planned(1 << 26)
    large, small = demand_of(space, plan), demand_of(*planned(1 << 16))
    (other,) = others(random.Random(fresh_seed()), 1)
    assert refetch_seconds(large, [other], LIMITS) < large.seconds / 10
    assert refetch_seconds(small, [CallDemand(1.0, {}, 1, 1e12)], LIMITS) > 0
