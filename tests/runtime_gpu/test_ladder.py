"""Where code does not fit, the next plan down is one that takes less of what was lacking."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.needs import Use
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.model_time import Times
from vkernels.ir.planning.occupancy import Use as Takes
from vkernels.ir.planning.shortage import Lack, Shortage, ShortError, Taken, misfit, spill
from vkernels.runtime.ladder import BOTTOM, CLEARLY, TRIES, Descent, SpillError, next_down
from vkernels.runtime.targets import limits_of, target_named

FIELD = {
    Lack.SHARED: "shared_bytes", Lack.THREADS: "threads", Lack.REGISTERS: "registers_a_thread",
    Lack.TENSOR_MEMORY: "tensor_memory_columns", Lack.SWAP: "swap_bytes", Lack.CODE: "register_bytes",
}  # fmt: skip


def chosen(rung="registers", **takes) -> Chosen:
    plain = dict.fromkeys(Use.__dataclass_fields__, 100.0)
    use = Use(**{**plain, "phases": (), "threads": 128, "spills": False, "programs": (64,), **takes})
    return Chosen(Plan({}), use, Times({}, 0.0), rung)


def short(lack: Lack) -> Shortage:
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
    first = next(number for number, size in enumerate(sizes) if size <= 100 * CLEARLY)
    assert next_down(iter([*plans, chosen(BOTTOM)]), failed, short(lack)) is plans[first]


def test_after_a_few_tries_the_bottom_rung_is_next():
    plans = [chosen(shared_bytes=size) for size in (1e5, 7e4, 4e4, 2e4, 1e4, 0)]
    left, tried = iter([*plans, bottom := chosen(BOTTOM, shared_bytes=0)]), [plans[0]]
    while (following := next_down(left, tried[-1], short(Lack.SHARED), len(tried))) is not None:
        tried.append(following)
    assert tried[-1] is bottom
    assert len(tried) == TRIES + 1


def test_below_the_bottom_rung_there_is_nothing():
    assert next_down(iter([]), chosen(BOTTOM), short(Lack.CODE)) is None


@pytest.mark.parametrize(
    ("taken", "lack"),
    [
        (Taken(Takes(128, 32, 65537)), Lack.SHARED),
        (Taken(Takes(2048, 16)), Lack.THREADS),
        (Taken(Takes(1024, 168)), Lack.REGISTERS),
        (Taken(Takes(128, 32), tensor_memory=1), Lack.TENSOR_MEMORY),
    ],
)
def test_a_binary_that_does_not_fit_says_what_it_lacks(taken, lack):
    found = misfit(taken, limits_of(target_named("t4")))
    assert found is not None
    assert found.lack is lack


def test_a_few_bytes_on_the_stack_are_no_spill():
    assert spill(Taken(Takes(128, 255), stack=64)) is None
    found = spill(Taken(Takes(128, 255), stack=72))
    assert found is not None
    assert found.lack is Lack.REGISTERS


def descent(plans, attempt) -> Descent:
    return Descent("kernel", lambda wanted: iter(plans), attempt)


def named(name: str, rung="registers", registers=100) -> Chosen:
    return replace(chosen(rung, registers_a_thread=registers), plan=Plan({name: 1}))


def spilling_below(most: float):
    """Code of plans that are modelled to take no more registers fits; that of others spills, and is named so."""

    def attempt(plan: Plan):
        (name,) = plan.tiles
        if sizes[name] > most:
            raise SpillError(short(Lack.REGISTERS), "launch", f"{name} spills")
        return name

    sizes = {"a": 100, "b": 70, "c": 40, "d": 10}
    return attempt, [named(name, registers=size) for name, size in sizes.items()]


def test_what_spills_gives_way_to_what_does_not():
    attempt, plans = spilling_below(50)
    found = descent([*plans, named("bottom", BOTTOM)], attempt)
    assert found.land() == "c"
    assert [each.plan for each, _ in found.tried] == [plans[0].plan, plans[1].plan]


def test_where_all_spill_the_first_is_taken_before_the_bottom_rung():
    attempt, plans = spilling_below(0)
    bottom = named("bottom", BOTTOM)
    found = descent([*plans, bottom], lambda plan: "bottom" if plan == bottom.plan else attempt(plan))
    assert found.land() == "a spills"
    assert found.chosen is plans[0]
    found.down(short(Lack.SWAP))  # and where that finds no memory, the bottom rung
    assert found.land() == "bottom"
    with pytest.raises(PlanError):
        found.down(short(Lack.SWAP))


def test_a_bottom_rung_that_spills_is_run():
    def attempt(plan: Plan):
        if plan.tiles == {"first": 1}:
            raise ShortError(short(Lack.SHARED))
        raise SpillError(short(Lack.REGISTERS), "launch", "bottom spills")

    assert descent([named("first"), named("bottom", BOTTOM)], attempt).land() == "bottom spills"
