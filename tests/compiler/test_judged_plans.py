"""Of a GPU's best plans by the model, calls come to the one that its binaries show to be the best."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import vkernels as vk
from vkernels.compiler import judge_by_static_bound as judging
from vkernels.compiler import judge_plans
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.compiler.default_session import patient, use_session
from vkernels.compiler.judge_by_static_bound import ALIKE, PlanBound, best_by_bound
from vkernels.compiler.plan_fallback import BOTTOM, SpillError
from vkernels.compiler.plans_to_judge import COMPILED, LOOKED_AT, WITHIN, neighbours, plans_to_judge
from vkernels.compiler.session import CompilerSession
from vkernels.inspect.explain.analyze import Question, find
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import plan_from_json
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.resources import Resource, Shortage
from vkernels.runtime.dispatch import Launcher
from vkernels.targets import limits_of

from ..runtime.gpu.fakes import FakeDriver, OnGpu, RunningDriver, compile_fake, use
from .new_kernels import new

COUNT = 3
M, N = 5, 300


# The rules


def chosen(seconds: float, plan: Plan, rung: str = "registers") -> Chosen:
    taken = SimpleNamespace(registers_a_thread=128 / plan.warps, shared_bytes=1024 * plan.stages)
    return Chosen(plan, taken, ModeledTimes({"operations": seconds}, 0.0), rung)


def test_plans_with_the_same_loops_are_judged_once():
    first = Plan({"i": 1}, stages=3)
    alike = [replace(first, **changed) for changed in ({"swizzle": 8}, {"resident_programs": 132}, {"stages": 4})]
    others = [replace(first, **changed) for changed in ({"tiles": {"i": 2}}, {"warps": 8}, {"stages": 1})]
    found = plans_to_judge([chosen(1.0, plan) for plan in (first, *alike, *others)], 4)
    assert [each.plan for each in found] == [first, *others]


def in_order(plans: list[Plan]) -> list[Chosen]:
    """Plans, each modelled to take a little longer than the one before."""
    return [chosen(1 + number / 100, plan) for number, plan in enumerate(plans)]


def test_plans_of_several_sizes_are_judged_before_others():
    """Where sizes alone make four plans, the best of another structure is judged in place of the last of them."""
    first, apart = Plan({"i": 1}, homes={"row": Home.SHARED}), Plan({"i": 1}, warps=16)
    sizes = [replace(first, warps=warps) for warps in (1, 2, 4, 8)]
    near = [replace(sizes[0], launches=("sums",)), replace(sizes[0], stages=2)]
    found = plans_to_judge(in_order([sizes[0], *near, *sizes[1:], apart]), 4)
    assert [each.plan for each in found] == [*sizes[:3], apart]
    found = plans_to_judge(in_order([sizes[0], *near, sizes[1]]), 4)
    assert [each.plan for each in found] == [sizes[0], *near, sizes[1]]


def test_others_are_judged_in_place_of_plans_that_are_of_no_use():
    """First of other sizes, then one that loads less far ahead; never one that was judged."""
    first = Plan({"i": 1}, stages=4)
    fewer, moved = replace(first, stages=3), replace(first, launches=("sums",))
    wide, tall = replace(first, warps=8), replace(first, tiles={"i": 2})
    ranked = in_order([first, fewer, moved, wide, tall])

    def after(*of_use: bool) -> list[Plan]:
        return [each.plan for each in plans_to_judge(ranked, 2, None, of_use)]

    assert after() == [first, wide]
    assert after(True, True) == []
    assert after(True, False) == [tall]
    assert after(False, True) == [fewer]
    assert after(False, True, False) == [moved]  # nothing is foretold to take less
    assert after(False, False, False, False) == []  # as many were compiled as may be


def test_the_plan_that_calls_have_is_judged_once():
    far, near = Plan({"i": 4}), [Plan({"i": 1}), Plan({"i": 2})]
    present = chosen(9.0, far)
    assert [each.plan for each in plans_to_judge(in_order(near), 2, present)] == [far, near[0]]
    assert [each.plan for each in plans_to_judge(in_order(near), 4, chosen(1.0, near[1]))] == near[::-1]
    assert [each.plan for each in plans_to_judge(in_order(near), 4, present)] == [far, *near]
    assert plans_to_judge([chosen(1.0, near[0], BOTTOM)], 4, present) == ()


@pytest.mark.slow
def test_never_more_are_judged_than_asked_for_and_none_twice():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(100):
        plans = [
            Plan({"i": draw.choice([1, 2, 4])}, {"j": draw.choice([16, 32])}, warps=draw.choice([1, 4]),
                 stages=draw.choice([1, 2, 3]), launches=draw.choice([(), ("sums",)]))
            for _ in range(draw.randrange(1, 40))
        ]  # fmt: skip
        ranked, count = in_order(plans), draw.randrange(2, 7)
        judged, of_use = list[Chosen](), list[bool]()
        while more := plans_to_judge(ranked, count, None, of_use):
            judged += more
            of_use += [draw.random() < 0.5 for _ in more]
        assert len(judged) <= COMPILED * count
        assert sum(of_use) <= count
        kept = [each.plan for each in judged]
        assert all(plan not in kept[:number] for number, plan in enumerate(kept))


def test_plans_with_few_different_loops_are_looked_at():
    ranked = [chosen(1.0, Plan({"i": 1 << number})) for number in range(2 * LOOKED_AT)]
    assert len(plans_to_judge(ranked, 2 * LOOKED_AT)) == LOOKED_AT


def test_plans_far_behind_by_the_model_and_the_bottom_rung_are_not_judged():
    near, far = chosen(0.99 * WITHIN, Plan({"i": 2})), chosen(1.01 * WITHIN, Plan({"i": 3}))
    first, bottom = chosen(1.0, Plan({"i": 1})), chosen(1.0, Plan({"i": 4}), BOTTOM)
    assert plans_to_judge([first, near, far], 9) == (first, near)
    assert plans_to_judge([first, near, bottom], 9) == (first, near)
    assert plans_to_judge([first, near], 1) == ()
    assert plans_to_judge([first, far], 9) == ()


def test_what_the_model_does_not_know_is_not_judged():
    unknown = [replace(chosen(1.0, Plan({"i": number})), times=ModeledTimes({}, 0.0)) for number in range(3)]
    assert plans_to_judge(unknown, 9) == ()


def test_the_lowest_bound_wins_unless_alike_and_spills_lose():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(300):
        judged = [
            None if draw.random() < 0.2 else PlanBound(draw.choice([1.0, 1.01, 2.0, 3.0]), draw.random() < 0.4)
            for _ in range(draw.randrange(0, 6))
        ]
        best = best_by_bound(judged)
        known = [each for each in judged if each is not None]
        if best is None:
            assert not known
            continue
        won = judged[best]
        kept = [each for each in known if not each.spills] or known
        assert won in kept
        assert won.seconds <= (1 + ALIKE) * min(each.seconds for each in kept)
        alike = [n for n, each in enumerate(judged) if each is not None and each.spills == won.spills]
        assert all(judged[n].seconds > (1 + ALIKE) * min(k.seconds for k in kept) for n in alike if n < best)


def test_of_plans_alike_one_whose_loops_spill_nothing_is_the_best():
    """However little the other spills; not one that is bound to take longer."""
    spilling, clean = PlanBound(1.0, False, few_spills=True), PlanBound(1.0 + 0.9 * ALIKE, False)
    assert best_by_bound([spilling, clean]) == 1
    assert best_by_bound([spilling, replace(clean, seconds=1.0 + 1.1 * ALIKE)]) == 0
    assert best_by_bound([spilling, None]) == 0


# Calls on a GPU that is not there


class Bounds:
    """Bounds of plans: the last that is looked at has the lowest. `gate`: open when plans may be judged.

    Neighbours of the best are left out but for the test of them.
    """

    def __init__(self) -> None:
        self.gate, self.seen, self.fails = threading.Event(), [], False
        self.gate.set()

    def loops(self, code, *of):
        assert self.gate.wait(60)
        if self.fails:
            raise RuntimeError("a bug of ours")
        if code.plan not in self.seen:
            self.seen.append(code.plan)
        return self.seen.index(code.plan)

    def bound(self, number, least):
        return PlanBound(1.0 / (1 + number), False)


@pytest.fixture
def bounds(monkeypatch):
    found = Bounds()
    monkeypatch.setattr(judge_plans, "loops_of_code", found.loops)
    monkeypatch.setattr(judge_plans, "bound_of_launches", lambda *of: found.bound(*of))
    monkeypatch.setattr(judge_plans, "neighbours", lambda *of: ())
    yield found
    found.gate.set()
    finished()


def finished() -> None:
    deadline = time.monotonic() + 60
    while any(thread.name.startswith("vkernels-") and not thread.daemon for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def session_of(disk: DiskCache | None = None) -> CompilerSession:
    return CompilerSession(disk, patience=600.0, judge=COUNT)


class Calls:
    """Calls of one kernel in a session, as a process makes them. `runs`: what is launched is interpreted."""

    def __init__(self, monkeypatch, session: CompilerSession, runs: bool = False, **options: object):
        self.x, self.out, self.runs = torch.randn(M, N), torch.empty(M, N), runs
        self.tensors = OnGpu(self.x), OnGpu(self.out)
        use(monkeypatch, RunningDriver(self.tensors) if runs else FakeDriver(), compile_fake)
        self.kernel = new(**options)
        self.launcher, self.seen = Launcher(self.kernel, session), []

    def call(self) -> vk.LaunchEvent:
        self.out.fill_(torch.nan)
        with vk.on_launch(self.seen.append):
            self.launcher(*self.tensors)
        if self.runs:
            torch.testing.assert_close(self.out, torch.softmax(self.x.double(), -1).float())
        return self.seen[-1]


def test_a_first_call_runs_the_models_choice_and_later_ones_the_best_by_its_binaries(monkeypatch, bounds):
    calls = Calls(monkeypatch, session_of(), runs=True)
    bounds.gate.clear()
    first, again = calls.call(), calls.call()
    assert first.plan == again.plan
    bounds.gate.set()
    finished()
    later = calls.call()
    assert bounds.seen[0] == first.plan
    assert len(bounds.seen) == COUNT
    assert later.plan == bounds.seen[-1] != first.plan
    assert calls.call().plan == later.plan


def test_a_neighbour_of_the_best_may_be_better(monkeypatch, bounds):
    asked = []

    def beside(ranked, near, judged, spilling):
        asked.append((near, judged))
        return neighbours(ranked, near, judged, spilling)

    monkeypatch.setattr(judge_plans, "neighbours", beside)
    session = session_of()
    calls = Calls(monkeypatch, session, runs=True)
    with use_session(session), patient():
        chosen = calls.call().plan
    ((near, judged),) = asked
    assert judged == bounds.seen[:COUNT]
    assert near[0] == judged[-1], "of those that were judged first the last has the lowest bound"
    assert len(bounds.seen) > COUNT
    assert chosen == bounds.seen[-1]
    assert any(replace(chosen, warps=each.warps, stages=each.stages) == each for each in near)


def test_patience_waits_for_the_best_by_its_binaries(monkeypatch, bounds):
    session = session_of()
    calls = Calls(monkeypatch, session)
    with use_session(session), patient():
        assert calls.call().plan == bounds.seen[-1]


def test_the_next_process_judges_nothing(monkeypatch, bounds, tmp_path):
    disk = DiskCache(tmp_path)
    calls = Calls(monkeypatch, session_of(disk))
    calls.call()
    finished()
    best = calls.call().plan
    count = len(bounds.seen)
    later = Calls(monkeypatch, session_of(disk))
    assert later.call().plan == best
    finished()
    assert len(bounds.seen) == count
    monkeypatch.setattr(judging, "compiler_identity", lambda: "another Triton")
    other = Calls(monkeypatch, session_of(disk))
    bounds.seen.clear()
    other.call()
    finished()
    assert len(bounds.seen) == COUNT


def test_where_the_models_choice_is_the_best_it_stays_for_good(monkeypatch, bounds, tmp_path):
    bounds.bound = lambda number, least: PlanBound(1.0 + number, False)
    disk = DiskCache(tmp_path)
    calls = Calls(monkeypatch, session_of(disk))
    first = calls.call()
    finished()
    assert calls.call().plan == first.plan
    count = len(bounds.seen)
    Calls(monkeypatch, session_of(disk)).call()
    finished()
    assert len(bounds.seen) == count == COUNT


@pytest.mark.parametrize("in_loops", [False, True])
def test_a_plan_that_spills_may_be_the_best_unless_its_loops_do(monkeypatch, bounds, in_loops):
    plans = []

    def spill_but_first(code, limits):
        plans.append(code.plan)
        if code.plan != plans[0]:
            raise SpillError(Shortage(Resource.REGISTERS, 300, 255, "spills"), "launch", code)

    monkeypatch.setattr(CompiledGpu, "refuse_unless_fits", spill_but_first)
    bounds.bound = lambda number, least: PlanBound(1.0 / (1 + number), in_loops and number > 0)
    calls = Calls(monkeypatch, session_of())
    first = calls.call()
    finished()
    assert len(bounds.seen) == (COMPILED * COUNT if in_loops else COUNT)  # others take the place of those that do
    assert calls.call().plan == (first.plan if in_loops else bounds.seen[-1])


@pytest.mark.parametrize("options", [{"deterministic": True}, {"plan": Plan({"i": 1}, {"j": 64}, lanes="j", warps=4)}])
def test_deterministic_calls_and_authors_plans_are_not_judged(monkeypatch, bounds, options):
    calls = Calls(monkeypatch, session_of(), **options)
    first = calls.call()
    finished()
    assert calls.call().plan == first.plan
    assert not bounds.seen


def test_a_pin_stands(monkeypatch, bounds):
    calls = Calls(monkeypatch, session_of(), plan=vk.Pin(warps=2))
    calls.call()
    finished()
    assert calls.call().plan == bounds.seen[-1]
    assert {plan.warps for plan in bounds.seen} == {2}


def test_a_mistake_of_ours_is_logged_and_the_models_choice_stays(monkeypatch, bounds, caplog):
    bounds.fails = True
    calls = Calls(monkeypatch, session_of())
    first = calls.call()
    finished()
    assert calls.call().plan == first.plan
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a bug of ours"]


def test_an_explanation_shows_the_plan_of_calls(monkeypatch, bounds):
    session = session_of()
    calls = Calls(monkeypatch, session)
    event = calls.call()
    finished()
    event = calls.call()
    target, called = FakeDriver().target(0), event.called
    question = Question(
        calls.kernel, called.sizes, called.dtypes, {}, called.constants, limits_of(target), True,
        architecture=target.architecture, judge=COUNT,
    )  # fmt: skip
    with use_session(session):
        found = find(question)
    assert plan_from_json(found.plan) == event.plan == bounds.seen[-1]
    assert (found.judged, found.to_judge) == (COUNT, False)


def test_what_was_not_judged_yet_is_said(monkeypatch, bounds):
    session = session_of()
    calls = Calls(monkeypatch, session)
    target = FakeDriver().target(0)
    question = Question(
        calls.kernel, {"M": M, "N": N}, {"x": "float32", "out": "float32"}, {}, {}, limits_of(target), True,
        architecture=target.architecture, judge=COUNT,
    )  # fmt: skip
    with use_session(session):
        assert find(question).to_judge
        assert not find(replace(question, judge=1)).to_judge
        assert not find(replace(question, deterministic=True)).to_judge


def test_compiling_ahead_takes_the_best_by_its_binaries(monkeypatch, bounds):
    session = session_of()
    calls = Calls(monkeypatch, session)
    with use_session(session):
        (made,) = calls.kernel.compile(shapes={"M": M, "N": N}, targets=[FakeDriver().target(0)], dtype="float32")
        assert made.plan == bounds.seen[-1]
        other = new("other")
        (made,) = other.compile(
            shapes={"M": M, "N": N}, targets=[FakeDriver().target(0)], dtype="float32", judge=1
        )  # fmt: skip
        assert made.plan == bounds.seen[0]
    assert calls.call().plan == bounds.seen[COUNT - 1]
