"""The last tile of an axis may lie over the one before it where programs may repeat what others do, and only there."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

from ...generated.random_kernels.native import run_native
from ...library.reference import fresh_seed

TENSOR, TILE = "!vk.tensor<[M, N], f32>", "tensor<?x?xf32, #vk.axes<i, j>>"
AXES = """
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
"""
MOVED_BACK = "arith.minsi"
"""What moves a tile's beginning from its place to where the tile ends with the axis."""
COPY = f"""
vk.kernel @copy(%x: {TENSOR}, %out: {TENSOR}) {{{AXES}
  %a = vk.load %x[i, j] : {TENSOR} -> {TILE}
  %b = arith.mulf %a, %a : {TILE}
  vk.store %b in %out[i, j] : {TENSOR} <- {TILE}
}}
"""
UPDATE = f"""
vk.kernel @update(%x: {TENSOR}, %out: {TENSOR}) {{{AXES}
  %a = vk.load %x[i, j] : {TENSOR} -> {TILE}
  %old = vk.load %out[i, j] : {TENSOR} -> {TILE}
  %b = arith.addf %a, %old : {TILE}
  vk.store %b in %out[i, j] : {TENSOR} <- {TILE}
}}
"""
ATOMIC = f"""
vk.kernel @atomic(%x: {TENSOR}, %out: {TENSOR}) {{{AXES}
  %a = vk.load %x[i, j] : {TENSOR} -> {TILE}
  vk.store %a atomic add in %out[i, j] : {TENSOR} <- {TILE}
}}
"""


def arguments(seed: int, poison: float) -> tuple[dict[str, Any], dict[str, int]]:
    numbers = np.random.default_rng(seed)
    rows, columns = int(numbers.integers(1, 20)), int(numbers.integers(1, 90))
    x = numbers.integers(-4, 5, (rows, columns)).astype(np.float32)
    return {"x": x, "out": np.full_like(x, poison)}, {"M": rows, "N": columns}


def plan(seed: int) -> Plan:
    numbers = np.random.default_rng(seed)
    tiles = {"i": int(numbers.choice([1, 2, 4])), "j": int(numbers.choice([4, 8, 32]))}
    return Plan(tiles, lanes=str(numbers.choice(["i", "j"])), order=("i", "j"))


def run(kernel: str, given: dict[str, Any], sizes: dict[str, int], plan: Plan, facts: Facts) -> str:
    """Compare what a kernel writes as written, mapped, and as native code; the text of the mapped kernel."""
    module = parse_module(kernel)
    expected, actual, native = (deepcopy(given) for _ in range(3))
    interpret(module, expected)
    mapped = apply_plan(module, plan, facts, overlap=True)
    verify_mapped(mapped)
    text = print_module(mapped)
    interpret(mapped, actual, order=2, check_races=True)
    run_native(mapped, native, sizes)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, name)
        np.testing.assert_array_equal(native[name], value, name)
    return text


@pytest.mark.parametrize("number", range(4))
def test_tiles_that_overlap_store_the_whole_tensor(number: int) -> None:
    seed = fresh_seed() + number
    given, sizes = arguments(seed, np.nan)
    assert MOVED_BACK in run(COPY, given, sizes, plan(seed), Facts(distinct=True))


@pytest.mark.parametrize("kernel", [UPDATE, ATOMIC], ids=["update", "atomic"])
def test_what_may_not_be_repeated_is_done_once(kernel: str) -> None:
    seed = fresh_seed()
    given, sizes = arguments(seed, 3)
    assert MOVED_BACK not in run(kernel, given, sizes, plan(seed), Facts(distinct=True))


def test_tensors_that_may_overlap_have_tiles_that_do_not() -> None:
    seed = fresh_seed()
    given, sizes = arguments(seed, np.nan)
    given["out"] = given["x"]
    assert MOVED_BACK not in run(COPY, given, sizes, plan(seed), Facts())
