"""Where code does not fit, the next plan down is one that takes less of what was lacking."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import vkernels as vk
from vkernels.compiler.plan_fallback import (
    BOTTOM,
    CLEARLY_LESS,
    MAX_TRIES,
    PlanFallback,
    SpillError,
    next_plan,
    shortages,
)
from vkernels.compiler.workers.jobs import NoBinaryError
from vkernels.ir.analysis.needs import NeedsUse
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.errors import PlanError
from vkernels.ir.occupancy import BinaryUse as Takes
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.resources import BinaryResources, OutOfResources, Resource, Shortage, misfit, spill
from vkernels.targets import limits_of, target_named

FIELD = {
    Resource.SHARED: "shared_bytes", Resource.THREADS: "threads", Resource.REGISTERS: "registers_a_thread",
    Resource.TENSOR_MEMORY: "tensor_memory_columns", Resource.SWAP: "swap_bytes", Resource.CODE: "register_bytes",
}  # fmt: skip


def chosen(rung="registers", **takes) -> Chosen:
    plain = dict.fromkeys(NeedsUse.__dataclass_fields__, 100.0)
    use = NeedsUse(**{**plain, "phases": (), "threads": 128, "spills": False, "programs": (64,), **takes})
    return Chosen(Plan({}), use, ModeledTimes({}, 0.0), rung)


def short(lack: Resource) -> Shortage:
    return Shortage(lack, 2, 1, "too much")


@pytest.fixture
def draw():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)


@pytest.mark.parametrize("lack", FIELD)
def test_the_next_plan_takes_clearly_less_of_what_was_lacking(lack, draw):
    failed = chosen(**{FIELD[lack]: 100})
    sizes = [draw.randint(1, 150) for _ in range(200)]
    plans = [chosen(**{FIELD[lack]: size}) for size in sizes]
    first = next(number for number, size in enumerate(sizes) if size <= 100 * CLEARLY_LESS)
    assert next_plan(iter([*plans, chosen(BOTTOM)]), failed, short(lack)) is plans[first]


def test_persistent_programs_that_do_not_fit_are_followed_by_the_same_as_a_grid():
    persistent = replace(chosen(registers_a_thread=230), plan=Plan({}, resident_programs=132))
    another, grid, less = (chosen(registers_a_thread=n, register_bytes=b) for n, b in ((180, 50), (180, 100), (90, 90)))
    assert next_plan(iter([another, grid, less]), persistent, short(Resource.REGISTERS)) is grid
    assert next_plan(iter([another, grid, less]), chosen(registers_a_thread=230), short(Resource.REGISTERS)) is less


def test_after_a_few_tries_the_bottom_rung_is_next():
    plans = [chosen(shared_bytes=size) for size in (1e5, 7e4, 4e4, 2e4, 1e4, 0)]
    left, tried = iter([*plans, bottom := chosen(BOTTOM, shared_bytes=0)]), [plans[0]]
    while (following := next_plan(left, tried[-1], short(Resource.SHARED), len(tried))) is not None:
        tried.append(following)
    assert tried[-1] is bottom
    assert len(tried) == MAX_TRIES + 1


def test_below_the_bottom_rung_there_is_nothing():
    assert next_plan(iter([]), chosen(BOTTOM), short(Resource.CODE)) is None


@pytest.mark.parametrize(
    ("taken", "lack"),
    [
        (BinaryResources(Takes(128, 32, 65537)), Resource.SHARED),
        (BinaryResources(Takes(2048, 16)), Resource.THREADS),
        (BinaryResources(Takes(1024, 168)), Resource.REGISTERS),
        (BinaryResources(Takes(128, 32), tensor_memory=1), Resource.TENSOR_MEMORY),
    ],
)
def test_a_binary_that_does_not_fit_says_what_it_lacks(taken, lack):
    found = misfit(taken, limits_of(target_named("t4")))
    assert found is not None
    assert found.lack is lack


def test_a_few_bytes_on_the_stack_are_no_spill():
    assert spill(BinaryResources(Takes(128, 255), stack=64)) is None
    found = spill(BinaryResources(Takes(128, 255), stack=72))
    assert found is not None
    assert found.lack is Resource.REGISTERS


def fallback(plans, attempt) -> PlanFallback:
    return PlanFallback("kernel", lambda wanted: iter(plans), attempt)


def named(name: str, rung="registers", registers=100) -> Chosen:
    return replace(chosen(rung, registers_a_thread=registers), plan=Plan({name: 1}))


def spilling_below(most: float):
    """Code of plans that are modelled to take no more registers fits; that of others spills, and is named so."""

    def attempt(plan: Plan):
        (name,) = plan.tiles
        if sizes[name] > most:
            raise SpillError(short(Resource.REGISTERS), "launch", f"{name} spills")
        return name

    sizes = {"a": 100, "b": 70, "c": 40, "d": 10}
    return attempt, [named(name, registers=size) for name, size in sizes.items()]


def test_what_spills_gives_way_to_what_does_not():
    attempt, plans = spilling_below(50)
    found = fallback([*plans, named("bottom", BOTTOM)], attempt)
    assert found.compile_first_fit() == "c"
    assert [each.plan for each, _ in found.tried] == [plans[0].plan, plans[1].plan]


def test_where_all_spill_the_first_is_taken_before_the_bottom_rung():
    attempt, plans = spilling_below(0)
    bottom = named("bottom", BOTTOM)
    found = fallback([*plans, bottom], lambda plan: "bottom" if plan == bottom.plan else attempt(plan))
    assert found.compile_first_fit() == "a spills"
    assert found.chosen is plans[0]
    found.reject(short(Resource.SWAP))  # and where that finds no memory, the bottom rung
    assert found.compile_first_fit() == "bottom"
    with pytest.raises(PlanError):
        found.reject(short(Resource.SWAP))


def test_a_bottom_rung_that_spills_is_run():
    def attempt(plan: Plan):
        if plan.tiles == {"first": 1}:
            raise OutOfResources(short(Resource.SHARED))
        raise SpillError(short(Resource.REGISTERS), "launch", "bottom spills")

    assert fallback([named("first"), named("bottom", BOTTOM)], attempt).compile_first_fit() == "bottom spills"


@pytest.mark.parametrize("error", [RuntimeError("ptxas"), MemoryError(), NoBinaryError("hangs"), PlanError("no axis")])
def test_what_keeps_a_plan_from_having_code_is_a_shortage(error):
    with pytest.raises(OutOfResources) as caught, shortages():
        raise error
    assert caught.value.shortage.lack is Resource.CODE


@pytest.mark.parametrize(
    "error", [vk.UnsupportedError("f8"), vk.ArgumentError("x"), vk.SetupError("no Triton"), KeyError()]
)
def test_mistakes_and_bugs_are_none(error):
    with pytest.raises(type(error)), shortages():
        raise error
