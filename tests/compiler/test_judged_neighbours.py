"""Beside the best plans that were judged, their neighbours in stages and warps are judged, too."""

from __future__ import annotations

from dataclasses import replace

from vkernels.compiler.judge_by_static_bound import PlanBound, worth_neighbours
from vkernels.compiler.plans_to_judge import NEIGHBOURS, WITHIN, neighbours
from vkernels.ir.plan import Plan

from .test_judged_plans import chosen, in_order


def test_neighbours_differ_in_stages_or_else_in_warps_and_were_not_judged():
    first, other = Plan({"i": 1}, stages=3), Plan({"i": 2}, stages=4)
    deep, wide, plain = (replace(first, **changed) for changed in ({"stages": 4}, {"warps": 8}, {"stages": 2}))
    ranked = in_order([first, other, wide, deep, replace(deep, swizzle=8), replace(other, stages=2), plain])

    def near(*some: Plan, judged: tuple[Plan, ...] = (first, other)) -> list[Plan]:
        return [each.plan for each in neighbours(ranked, some, judged)]

    assert NEIGHBOURS == 2
    assert near(first) == [deep, plain]
    assert near(first, other) == [deep, replace(other, stages=2)]
    assert near(other, first) == [replace(other, stages=2), deep]
    assert near(first, judged=(first, other, deep)) == [plain, wide]
    assert near(first, judged=(first, other, deep, plain, wide)) == []
    assert near(Plan({"i": 3})) == []
    far = [*in_order([first]), chosen(1.01 * WITHIN, plain)]
    assert neighbours(far, [first], [first]) == ()


def test_the_best_and_what_would_be_without_waiting_are_worth_neighbours():
    waits, best = PlanBound(3.0, False, busy=1.0), PlanBound(2.0, False, busy=1.5)
    assert worth_neighbours([waits, None, best]) == (2, 0)
    assert worth_neighbours([best, replace(waits, spills=True)]) == (0,)
    assert worth_neighbours([replace(best, spills=True)]) == (0,)
    assert worth_neighbours([None]) == ()


def test_plans_with_fewer_elements_a_thread_come_first_beside_one_whose_loops_spill():
    """More warps or smaller sizes of the same structure, each once however far it loads ahead, then other stages."""
    first = Plan({"i": 2}, {"j": 64}, warps=4, stages=2)
    staged, moved = replace(first, stages=3), replace(first, launches=("sums",), warps=8)
    wide, larger = replace(first, warps=8), replace(first, tiles={"i": 4}, warps=8)
    ahead, small = replace(wide, stages=3), replace(first, chunks={"j": 32})
    ranked = in_order([first, staged, moved, larger, wide, ahead, small])

    def after(judged: list[Plan], spilling: list[Plan]) -> list[Plan]:
        return [each.plan for each in neighbours(ranked, [first], judged, spilling)]

    assert after([first], []) == [staged, wide]
    assert after([first], [first]) == [wide, small]
    assert after([first, wide], [first]) == [small, staged]
    assert after([first, wide, small], [first]) == [staged, ahead]
