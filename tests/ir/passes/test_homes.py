"""Wherever the plan keeps what crosses phases, a kernel gives the same, whatever runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ir.lowering.ttir.lowering import kernel, lowered
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.passes.apply_plan import apply_plan
from vkernels.ir.plan import Home, Plan

from .three_ways import run_three_ways

IMAGES, PIXELS, NEURONS, WEIGHTS, LAYERS = 21, 30, 24, 5, 4
NETWORK = {"I": IMAGES, "P": PIXELS, "N": NEURONS, "K": WEIGHTS, "L": LAYERS}


def network() -> dict[str, Any]:
    numbers = np.random.default_rng(0)
    return {
        "y": numbers.random((NEURONS, PIXELS)).astype(np.float32),
        "live": numbers.integers(0, PIXELS, IMAGES),
        "column": numbers.integers(0, NEURONS, (LAYERS, NEURONS, WEIGHTS)).astype(np.int32),
        "weight": numbers.random((LAYERS, NEURONS, WEIGHTS)).astype(np.float32),
        "bias": -0.3,
        "out": np.full((NEURONS, IMAGES), np.nan, np.float32),
        "peak": np.full(IMAGES, np.nan, np.float32),
    }


@pytest.mark.parametrize("resident", [0, 2])
@pytest.mark.parametrize(("homes", "copies"), [
    ({"features": Home.MEMORY}, ()), ({"features": Home.MEMORY}, ("features",)), ({"features": Home.SHARED}, ()),
    ({"features": Home.MEMORY, "total": Home.SHARED}, ()), ({"features": Home.SHARED, "total": Home.MEMORY}, ()),
])  # fmt: skip
def test_a_scratchpad_can_lie_in_memory(homes: dict[str, Home], copies: tuple[str, ...], resident: int) -> None:
    plan = Plan({"i": 8}, {"n": 8}, homes, copies, lanes="i")
    text = run_three_ways(kernel("spdnn"), network(), NETWORK, plan, Facts({"N": NEURONS}), resident_programs=resident)
    kind = "buffer" if homes.get("features") is Home.MEMORY else "scratch"
    for label in ("features", *(["features_2"] if copies else [])):
        assert f'vk.{kind} "{label}"' in text


def test_a_network_of_any_width_needs_no_shared_memory() -> None:
    neurons = 1 << 16
    plan = Plan({"i": 32}, {"n": 32}, {"features": Home.MEMORY}, copies=("features",), lanes="i")
    (launch,) = lowered(kernel("spdnn"), plan, Facts({"N": neurons, "K": 32})).launches
    assert launch.scratch_bytes == 0
    assert launch.swap_bytes == 2 * neurons * 32 * 4
    assert launch.is_persistent


@pytest.mark.parametrize("home", [Home.RECOMPUTE, Home.REGISTERS])
def test_a_scratchpad_is_kept_somewhere(home: Home) -> None:
    plan = Plan({"i": 8}, {"n": 8}, {"features": home})
    with pytest.raises(PlanError, match="features is a scratchpad: its home is shared or memory"):
        apply_plan(kernel("spdnn"), plan, Facts({"N": NEURONS}))
