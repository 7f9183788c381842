"""Wherever the plan keeps what crosses phases, a kernel gives the same, whatever runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan

from ..lowering.ttir.lowering import kernel, lowered
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


@pytest.mark.sample(2)
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("copies", [(), ("features",)])
@pytest.mark.parametrize(("facts", "chunk"), [
    (Facts(), 16), (Facts(multiples={"N": 8}), 8), (Facts(multiples={"N": 8}), 16), (Facts({"N": NEURONS}), 16),
])  # fmt: skip
def test_swap_space_is_as_large_as_the_call_needs(copies: tuple[str, ...], facts: Facts, chunk: int) -> None:
    plan = Plan({"i": 8}, {"n": chunk}, {"features": Home.MEMORY}, copies, lanes="i")
    run_three_ways(kernel("spdnn"), network(), NETWORK, plan, facts)
    ttir = lowered(kernel("spdnn"), plan, facts)
    (launch,) = ttir.launches
    kept = -(-NEURONS // chunk) * chunk * 8 * 4  # features twice, or features and total
    assert launch.swap_bytes == (2 * kept if facts.sizes else 0)
    assert launch.swap_bytes + ttir.prepare(NETWORK).more_swap(0) == 2 * kept


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("facts", [Facts({"K": 20}), Facts({"N": 150}), Facts()])
def test_swap_space_of_several_values_lies_side_by_side(facts: Facts) -> None:
    numbers = np.random.default_rng(0)
    arguments = {
        "x": numbers.standard_normal((21, 150)).astype(np.float32),
        "y": numbers.standard_normal((21, 20)).astype(np.float32),
        "out": np.full((21, 150), np.nan, np.float32),
        "other": np.full((21, 20), np.nan, np.float32),
    }
    plan = Plan({"i": 4}, {"j": 16, "k": 8}, {"a": Home.MEMORY, "b": Home.MEMORY})
    text = run_three_ways(parse_module(TWO_LENGTHS), arguments, {"M": 21, "N": 150, "K": 20}, plan, facts)
    assert text.count('vk.buffer "') == 2


TWO_LENGTHS = """
vk.kernel @k(%x: !vk.tensor<[M, N], f32>, %y: !vk.tensor<[M, K], f32>,
               %out: !vk.tensor<[M, N], f32>, %other: !vk.tensor<[M, K], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %K = vk.size K
  vk.whole k < %K
  %v = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %w = vk.load %y[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %a = math.exp %v : tensor<?x?xf32, #vk.axes<i, j>>
  %b = math.exp %w : tensor<?x?xf32, #vk.axes<i, k>>
  %s = vk.sum %a along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %t = vk.sum %b along k : tensor<?x?xf32, #vk.axes<i, k>> -> tensor<?xf32, #vk.axes<i>>
  %tb = vk.broadcast %t : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sb = vk.broadcast %s : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, k>>
  %one = arith.divf %a, %tb : tensor<?x?xf32, #vk.axes<i, j>>
  %two = arith.divf %b, %sb : tensor<?x?xf32, #vk.axes<i, k>>
  vk.store %one in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %two in %other[i, k] : !vk.tensor<[M, K], f32> <- tensor<?x?xf32, #vk.axes<i, k>>
}
"""


@pytest.mark.parametrize("home", [Home.RECOMPUTE, Home.REGISTERS])
def test_a_scratchpad_is_kept_somewhere(home: Home) -> None:
    plan = Plan({"i": 8}, {"n": 8}, {"features": home})
    with pytest.raises(PlanError, match="features is a scratchpad: its home is shared or memory"):
        apply_plan(kernel("spdnn"), plan, Facts({"N": NEURONS}))


CARRIED = """
vk.kernel @carried(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %m = vk.size M
  %n = vk.size N
  vk.tile i < %m
  vk.whole j < %n
  %zero = arith.constant 0 : i64
  %start = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %total = vk.range %k as "k" = %zero to %n carrying (%before = %start : tensor<?x?xf32, #vk.axes<i, j>>) {
    %most = vk.max %before along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %wide = vk.broadcast %most : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %sum = arith.addf %before, %wide : tensor<?x?xf32, #vk.axes<i, j>>
    vk.yield %sum : tensor<?x?xf32, #vk.axes<i, j>>
  }
  vk.store %total in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""


@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("length", [1, 3])
def test_a_home_is_of_no_use_to_what_a_loop_carries_in_registers(length: int, chunk: int) -> None:
    """Where a chunk holds all of the axis."""
    numbers = np.random.default_rng(0)
    arguments = {name: numbers.integers(0, 9, (4, length)).astype(np.float32) for name in ("x", "out")}
    plan = Plan({"i": 2}, {"j": chunk}, {"total": Home.MEMORY}, lanes="j")
    text = run_three_ways(parse_module(CARRIED), arguments, {"M": 4, "N": length}, plan, Facts({"N": length}))
    assert ("vk.buffer" in text) == (length > chunk)


SCANS = """
vk.kernel @scans(%x: !vk.tensor<[M, N, K], f32>, %out: !vk.tensor<[M, N, K], f32>, %more: !vk.tensor<[M, N, K], f32>) {
  %m = vk.size M
  %n = vk.size N
  %k = vk.size K
  vk.tile i < %m
  vk.whole u < %n
  vk.whole v < %k
  %a = vk.load %x[i, u, v] : !vk.tensor<[M, N, K], f32> -> tensor<?x?x?xf32, #vk.axes<i, u, v>>
  %down = vk.scan sum %a along u : tensor<?x?x?xf32, #vk.axes<i, u, v>>
  %across = vk.scan sum %a along v : tensor<?x?x?xf32, #vk.axes<i, u, v>>
  vk.boundary
  %both = arith.addf %down, %across : tensor<?x?x?xf32, #vk.axes<i, u, v>>
  vk.store %both in %out[i, u, v] : !vk.tensor<[M, N, K], f32> <- tensor<?x?x?xf32, #vk.axes<i, u, v>>
  vk.store %down in %more[i, u, v] : !vk.tensor<[M, N, K], f32> <- tensor<?x?x?xf32, #vk.axes<i, u, v>>
}
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("lanes", ["i", "u", "v"])
@pytest.mark.parametrize("homed", [(), ("down",), ("across",), ("down", "across")], ids=str)
def test_scans_along_several_axes_go_through_loops_of_their_own(homed: tuple[str, ...], lanes: str) -> None:
    """Whichever of them are kept, and whichever axis lies along the lanes."""
    numbers = np.random.default_rng(0)
    arguments = {name: numbers.integers(0, 9, (3, 5, 7)).astype(np.float32) for name in ("x", "out", "more")}
    plan = Plan({"i": 2}, {"u": 2, "v": 4}, dict.fromkeys(homed, Home.MEMORY), lanes=lanes)
    run_three_ways(parse_module(SCANS), arguments, {"M": 3, "N": 5, "K": 7}, plan, Facts({"N": 5, "K": 7}))
