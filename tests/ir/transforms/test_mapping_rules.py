"""What mapping must take care of, one rule a test, under plans that would break it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

I, N, M, IN = "#vk.axes<i>", "#vk.axes<n>", "#vk.axes<m>", "#vk.axes<i, n>"
AXES = """
  %I = vk.size I
  vk.tile i < %I
  %N = vk.size N
  vk.whole n < %N
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
"""
SIZES = {"I": 7, "N": 11}
EXACT = Facts(SIZES, distinct=True)
PLANS = [
    Plan({"i": tile}, {"n": chunk}, lanes=lanes)
    for tile, chunk, lanes in ((3, 4, "n"), (1, 1, "i"), (8, 16, "n"), (7, 11, "i"))
]


def check(
    parameters: str, body: str, arguments: dict[str, Any], plans: Iterable[Plan] = PLANS, facts: Facts = EXACT
) -> str:
    """Interpret as written and mapped by every plan; the last mapped text."""
    module = parse_module(f"vk.kernel @k({parameters}) {{{AXES}{body}}}")
    expected = {name: np.copy(value) for name, value in arguments.items()}
    interpret(module, expected)
    text = ""
    for plan in plans:
        mapped = apply_plan(module, plan, facts)
        text = print_module(mapped)
        verify_mapped(mapped)
        actual = {name: np.copy(value) for name, value in arguments.items()}
        interpret(mapped, actual, order=2, check_races=True)
        for name in expected:
            np.testing.assert_array_equal(actual[name], expected[name], f"{name} under {plan}\n{text}")
    return text


def integers(*shape: int, low: int = -3, high: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(low, high, shape)


def test_integer_division_never_divides_by_what_is_in_excess() -> None:
    type_ = f"tensor<?x?xi64, {IN}>"
    body = f"""
  %a = vk.load %x[i, n] : !vk.tensor<[I, N], i64> -> {type_}
  %b = vk.load %y[i, n] : !vk.tensor<[I, N], i64> -> {type_}
  %q = arith.divsi %a, %b : {type_}
  %r = arith.remsi %a, %b : {type_}
  %s = arith.addi %q, %r : {type_}
  vk.store %s in %out[i, n] : !vk.tensor<[I, N], i64> <- {type_}
"""
    arguments = {
        "x": integers(7, 11, low=-50, high=50),
        "y": integers(7, 11, low=1),
        "out": np.zeros((7, 11), np.int64),
    }
    parameters = ", ".join(f"%{name}: !vk.tensor<[I, N], i64>" for name in arguments)
    check(parameters, body, arguments)


def test_an_atomic_store_that_lacks_the_tile_axis_happens_once() -> None:
    body = f"""
  %a = vk.load %x[n] : !vk.tensor<[N], i64> -> tensor<?xi64, {N}>
  vk.store %a atomic add in %out[n] : !vk.tensor<[N], i64> <- tensor<?xi64, {N}>
  %total = vk.sum %a along n : tensor<?xi64, {N}> -> i64
  vk.store %total atomic add in %sum[%c0] : !vk.tensor<[1], i64> <- i64
  %b = vk.load %z[i] : !vk.tensor<[I], i64> -> tensor<?xi64, {I}>
  vk.store %b in %w[i] : !vk.tensor<[I], i64> <- tensor<?xi64, {I}>
"""
    arguments = {
        "x": integers(11), "out": np.ones(11, np.int64), "sum": np.ones(1, np.int64), "z": integers(7),
        "w": np.zeros(7, np.int64),
    }  # fmt: skip
    parameters = (
        "%x: !vk.tensor<[N], i64>, %out: !vk.tensor<[N], i64>, %sum: !vk.tensor<[1], i64>, "
        "%z: !vk.tensor<[I], i64>, %w: !vk.tensor<[I], i64>"
    )
    check(parameters, body, arguments)
    check(parameters, body, arguments, [Plan({"i": 2}, {"n": 2}, splits={"n": 3}, lanes="n")])


def test_atomic_scatters_meet() -> None:
    body = f"""
  %a = vk.load %x[i, n] : !vk.tensor<[I, N], i64> -> tensor<?x?xi64, {IN}>
  %k = vk.load %bin[i, n] : !vk.tensor<[I, N], i64> -> tensor<?x?xi64, {IN}>
  vk.scatter %a atomic add in %out[%k] : !vk.tensor<[B], i64>, (tensor<?x?xi64, {IN}>) <- tensor<?x?xi64, {IN}>
"""
    arguments = {"x": integers(7, 11), "bin": integers(7, 11, low=0, high=5), "out": np.zeros(5, np.int64)}
    parameters = "%x: !vk.tensor<[I, N], i64>, %bin: !vk.tensor<[I, N], i64>, %out: !vk.tensor<[B], i64>"
    check(parameters, body, arguments)


def test_a_range_with_stores_whose_result_is_used_stores_once() -> None:
    type_ = f"tensor<?xi64, {N}>"
    body = f"""
  %K = vk.size K
  %zero = vk.broadcast %c0 : i64 -> {type_}
  %last = vk.range %k = %c0 to %K carrying (%s = %zero : {type_}) {{
    %a = vk.load %x[%k, n] : !vk.tensor<[K, N], i64> -> {type_}
    %t = arith.addi %s, %a : {type_}
    vk.store %t atomic add in %running[%k, n] : !vk.tensor<[K, N], i64> <- {type_}
    vk.yield %t : {type_}
  }}
  vk.store %last in %out[n] : !vk.tensor<[N], i64> <- {type_}
"""
    arguments = {
        "x": integers(3, 11),
        "running": np.ones((3, 11), np.int64),
        "out": np.zeros(11, np.int64),
        "z": integers(7),
    }
    parameters = (
        "%x: !vk.tensor<[K, N], i64>, %running: !vk.tensor<[K, N], i64>, "
        "%out: !vk.tensor<[N], i64>, %z: !vk.tensor<[I], i64>"
    )
    check(parameters, body, arguments)


def test_a_value_loaded_before_a_store_keeps_what_it_was() -> None:
    type_ = f"tensor<?xi64, {N}>"
    wide = f"tensor<?x?xi64, {IN}>"
    body = f"""
  %old = vk.load %x[n] : !vk.tensor<[N], i64> -> {type_}
  %one = vk.broadcast %c1 : i64 -> {type_}
  %new = arith.addi %old, %one : {type_}
  %largest = vk.max %old along n : {type_} -> i64
  vk.store %new in %x[n] : !vk.tensor<[N], i64> <- {type_}
  %l = vk.broadcast %largest : i64 -> {type_}
  %d = arith.subi %l, %old : {type_}
  %again = vk.load %x[n] : !vk.tensor<[N], i64> -> {type_}
  %e = arith.muli %d, %again : {type_}
  vk.store %e in %out[n] : !vk.tensor<[N], i64> <- {type_}
"""
    del wide
    arguments = {"x": integers(11), "out": np.zeros(11, np.int64), "z": integers(7)}
    parameters = "%x: !vk.tensor<[N], i64>, %out: !vk.tensor<[N], i64>, %z: !vk.tensor<[I], i64>"
    one_program = [Plan({"i": 8}, {"n": chunk}, lanes="n") for chunk in (1, 4, 16)]
    check(parameters, body, arguments, one_program)
    with pytest.raises(PlanError, match="programs along i share"):
        check(parameters, body, arguments, [Plan({"i": 2}, {"n": 4}, lanes="n")])


def test_a_while_loop_over_phases() -> None:
    type_ = f"tensor<?x?xi64, {IN}>"
    body = f"""
  %limit = arith.constant 4 : i64
  %a = vk.load %x[i, n] : !vk.tensor<[I, N], i64> -> {type_}
  %steps, %last = scf.while (%k = %c0, %v = %a) : (i64, {type_}) -> (i64, {type_}) {{
    %more = arith.cmpi slt, %k, %limit : i64
    scf.condition(%more) %k, %v : i64, {type_}
  }} do {{
  ^bb0(%k: i64, %v: {type_}):
    %s = vk.sum %v along n : {type_} -> tensor<?xi64, {I}>
    %b = vk.broadcast %s : tensor<?xi64, {I}> -> {type_}
    %two = arith.constant 3 : i64
    %w = vk.broadcast %two : i64 -> {type_}
    %m = arith.remsi %b, %w : {type_}
    %new = arith.addi %v, %m : {type_}
    %next = arith.addi %k, %c1 : i64
    scf.yield %next, %new : i64, {type_}
  }}
  vk.store %last in %out[i, n] : !vk.tensor<[I, N], i64> <- {type_}
"""
    arguments = {"x": integers(7, 11), "out": np.zeros((7, 11), np.int64)}
    check("%x: !vk.tensor<[I, N], i64>, %out: !vk.tensor<[I, N], i64>", body, arguments)


def test_a_conditional_with_stores_and_phases() -> None:
    type_ = f"tensor<?x?xi64, {IN}>"
    body = f"""
  %a = vk.load %x[i, n] : !vk.tensor<[I, N], i64> -> {type_}
  %yes = arith.cmpi ne, %flag, %c0 : i64
  scf.if %yes {{
    %s = vk.sum %a along n : {type_} -> tensor<?xi64, {I}>
    %b = vk.broadcast %s : tensor<?xi64, {I}> -> {type_}
    %d = arith.addi %a, %b : {type_}
    vk.store %d in %out[i, n] : !vk.tensor<[I, N], i64> <- {type_}
  }} else {{
    vk.store %a in %out[i, n] : !vk.tensor<[I, N], i64> <- {type_}
  }}
"""
    for flag in (0, 1):
        arguments = {"x": integers(7, 11), "flag": flag, "out": np.zeros((7, 11), np.int64)}
        check("%x: !vk.tensor<[I, N], i64>, %flag: i64, %out: !vk.tensor<[I, N], i64>", body, arguments)


def test_the_divisor_of_an_axis_can_be_arithmetic_on_sizes() -> None:
    module = parse_module("""
vk.kernel @k(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
  %N = vk.size N
  %c8 = arith.constant 8 : i64
  %even = arith.muli %N, %c8 : i64
  vk.whole n < %even
  %a = vk.load %x[n] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<n>>
  vk.store %a in %out[n] guarding [0] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<n>>
}""")
    mapped = apply_plan(module, Plan(chunks={"n": 4}), Facts())
    verify_mapped(mapped)
    assert "within" not in print_module(mapped)
    arguments = {"x": np.arange(5, dtype=np.float32), "out": np.full(5, np.nan, np.float32)}
    interpret(mapped, arguments)
    np.testing.assert_array_equal(arguments["out"], arguments["x"])


def test_guards_are_compared_with_sizes_that_nothing_else_names() -> None:
    body = f"""
  %a = vk.load %x[%c1 + 2 * n] guarding [0] : !vk.tensor<[Q], i64> -> tensor<?xi64, {N}>
  vk.store %a in %out[n] : !vk.tensor<[N], i64> <- tensor<?xi64, {N}>
"""
    arguments = {"x": integers(9), "out": np.zeros(11, np.int64), "z": integers(7)}
    text = check("%x: !vk.tensor<[Q], i64>, %out: !vk.tensor<[N], i64>, %z: !vk.tensor<[I], i64>", body, arguments)
    assert "vk.size Q" in text


def test_the_neighbour_in_another_program_is_refused() -> None:
    body = f"""
  %a = vk.load %x[i] : !vk.tensor<[I], i64> -> tensor<?xi64, {I}>
  vk.store %a in %out[i] : !vk.tensor<[I], i64> <- tensor<?xi64, {I}>
  %b = vk.load %out[%c1 + i] guarding [0] : !vk.tensor<[I], i64> -> tensor<?xi64, {I}>
  vk.store %b in %y[i] : !vk.tensor<[I], i64> <- tensor<?xi64, {I}>
"""
    arguments = {"x": integers(7), "out": np.zeros(7, np.int64), "y": np.zeros(7, np.int64), "z": integers(11)}
    parameters = (
        ", ".join(f"%{name}: !vk.tensor<[I], i64>" for name in ("x", "out", "y")) + ", %z: !vk.tensor<[N], i64>"
    )
    with pytest.raises(PlanError, match="out is written and accessed again"):
        check(parameters, body, arguments)
    check(parameters, body, arguments, [Plan({"i": 8}, {"n": 4}, lanes="i")])


def test_a_tile_axis_cannot_be_reduced() -> None:
    body = f"""
  %a = vk.load %x[i] : !vk.tensor<[I], i64> -> tensor<?xi64, {I}>
  %s = vk.sum %a along i : tensor<?xi64, {I}> -> i64
  vk.store %s in %out[%c0] : !vk.tensor<[1], i64> <- i64
"""
    arguments = {"x": integers(7), "out": np.zeros(1, np.int64), "z": integers(11)}
    with pytest.raises(PlanError, match="along i: a tile axis"):
        check("%x: !vk.tensor<[I], i64>, %out: !vk.tensor<[1], i64>, %z: !vk.tensor<[N], i64>", body, arguments)


def test_locations_and_names_are_kept() -> None:
    module = parse_module("""
vk.kernel @k(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
  %N = vk.size N
  vk.whole n < %N
  %row = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<n>> loc("kernel.py":3:8)
  vk.store %row in %out[n] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<n>> loc("kernel.py":4:4)
}""")
    text = print_module(apply_plan(module, Plan(chunks={"n": 4}), Facts()), locations=True)
    loads = [line for line in text.splitlines() if "vk.load" in line]
    assert len(loads) == 2
    assert all("%row" in line and 'loc("kernel.py":3:8)' in line for line in loads)


def test_an_axis_is_not_split_where_a_later_launch_along_it_needs_a_whole_sum_again() -> None:
    """`two` is a sum along j in the loop that computes `three`, which the launch along j computes again."""
    module = parse_module("""vk.kernel @k(
  %x: !vk.tensor<[P, Q], f32>, %y: !vk.tensor<[P, Q], f32>, %out: !vk.tensor<[P], f32>
) {
  %P = vk.size P
  %Q = vk.size Q
  vk.whole i < %Q
  vk.whole j < %P
  %a = vk.load %x[j, i] : !vk.tensor<[P, Q], f32> -> tensor<?x?xf32, #vk.axes<j, i>>
  %two = vk.sum %a along j : tensor<?x?xf32, #vk.axes<j, i>> -> tensor<?xf32, #vk.axes<i>>
  %square = arith.mulf %two, %two : tensor<?xf32, #vk.axes<i>>
  %three = vk.sum %square along i : tensor<?xf32, #vk.axes<i>> -> f32
  %b = vk.load %y[j, 0] : !vk.tensor<[P, Q], f32> -> tensor<?xf32, #vk.axes<j>>
  %tile = vk.broadcast %three : f32 -> tensor<?xf32, #vk.axes<j>>
  %sum = arith.addf %b, %tile : tensor<?xf32, #vk.axes<j>>
  vk.store %sum in %out[j] : !vk.tensor<[P], f32> <- tensor<?xf32, #vk.axes<j>>
}""")
    facts = Facts({"P": 1024, "Q": 33}, distinct=True)
    with pytest.raises(PlanError, match="axis j cannot be split over programs: a reduction along it is computed again"):
        apply_plan(module, Plan(chunks={"i": 4, "j": 8}, splits={"j": 4}), facts)
