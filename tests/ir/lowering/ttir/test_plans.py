"""Mapped by plans for GPUs, kernels do in TTIR what they do as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vkernels.ir.errors import ArgumentError, PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import ParameterKind, print_ttir
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module

from .lowering import assert_same, copied, kernel, lowered

ROWS, LENGTH = 7, 150
SIZES = {"M": ROWS, "N": LENGTH}
ROW_PLANS = [
    (Plan({"i": 1}, {"j": 64}), Facts()),
    (Plan({"i": 4}, {"j": 64}), Facts(distinct=True)),
    (Plan({"i": 4}, {"j": 256}), Facts(SIZES)),
    (Plan({"i": 2}, {"j": 16}), Facts(strides={"x": (LENGTH, 1), "out": (LENGTH, 1)})),
    (Plan({"i": 2}, {"j": 64}), Facts(large=("x", "out"))),
    (Plan({"i": 2}, {"j": 16}, splits={"j": 3}), Facts()),
]


def rows(name: str) -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal((ROWS, LENGTH)).astype(np.float32)
    arguments: dict[str, Any] = {"x": x, "out": np.full_like(x, np.nan)}
    return arguments | ({"weight": x[0].copy(), "eps": 1e-5} if name == "layer_norm" else {})


@pytest.mark.sample(3)
@pytest.mark.parametrize("resident", [0, 3])
@pytest.mark.parametrize(("plan", "facts"), ROW_PLANS)
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows(name: str, plan: Plan, facts: Facts, resident: int) -> None:
    module = kernel(name)
    ttir = lowered(module, plan, facts, resident)
    assert all(launch.is_persistent == (resident > 0) for launch in ttir.launches)
    assert_same(module, ttir, rows(name), SIZES, 1e-5)


@pytest.mark.parametrize("home", [Home.SHARED, Home.MEMORY, Home.RECOMPUTE])
def test_a_crossing_value_can_have_any_home(home: Home) -> None:
    module = kernel("softmax")
    ttir = lowered(module, Plan({"i": 4}, {"j": 64}, {"e": home}), Facts({"N": LENGTH}))
    (launch,) = ttir.launches
    kept = 4 * 192 * 4
    assert launch.scratch_bytes == (kept + 16 if home is Home.SHARED else 0)
    assert launch.swap_bytes == (kept if home is Home.MEMORY else 0)
    assert launch.is_persistent == (home is Home.MEMORY)
    assert_same(module, ttir, rows("softmax"), SIZES, 1e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("splits", [{}, {"k": 3}])
@pytest.mark.parametrize(("tiles", "chunk"), [((16, 32), 16), ((4, 8), 8), ((64, 64), 64)])
def test_matmul(tiles: tuple[int, int], chunk: int, splits: dict[str, int]) -> None:
    numbers = np.random.default_rng(0)
    arguments = {
        "a": numbers.integers(-3, 4, (19, 45)).astype(np.float16),
        "b": numbers.integers(-3, 4, (45, 70)).astype(np.float16),
        "bias": numbers.integers(-3, 4, 70).astype(np.float32),
        "out": np.full((19, 70), np.nan, np.float32),
    }
    module = kernel("matmul")
    plan = Plan({"i": tiles[0], "j": tiles[1]}, {"k": chunk}, splits=splits, order=("i", "j"))
    assert_same(module, lowered(module, plan, Facts()), arguments, {"M": 19, "N": 70, "K": 45})


@pytest.mark.sample(2)
@pytest.mark.parametrize("resident", [0, 2])
@pytest.mark.parametrize("plan", [
    Plan({"i": 8}, {"n": 8}, copies=("features",)), Plan({"i": 4}, {"n": 16}),
    Plan({"i": 8}, {"n": 8}, {"total": Home.SHARED}), Plan({"i": 32}, {"n": 32}),
])  # fmt: skip
def test_spdnn(plan: Plan, resident: int) -> None:
    numbers = np.random.default_rng(0)
    images, pixels, neurons, weights, layers = 21, 30, 24, 5, 4
    arguments = {
        "y": numbers.random((neurons, pixels)).astype(np.float32),
        "live": numbers.integers(0, pixels, images),
        "column": numbers.integers(0, neurons, (layers, neurons, weights)).astype(np.int32),
        "weight": numbers.random((layers, neurons, weights)).astype(np.float32),
        "bias": -0.3,
        "out": np.full((neurons, images), np.nan, np.float32),
        "peak": np.full(images, np.nan, np.float32),
    }
    module = kernel("spdnn")
    sizes = {"I": images, "P": pixels, "N": neurons, "K": weights, "L": layers}
    assert_same(module, lowered(module, plan, Facts({"N": neurons}), resident), arguments, sizes, 1e-5)


def test_parameters_are_what_facts_leave_open_and_the_launch_uses() -> None:
    facts = Facts(strides={"x": (-1, 1)}, multiples={"N": 16}, aligned=("x",), large=("out",))
    ttir = lowered(kernel("softmax"), Plan({"i": 1}, {"j": 64}), facts)
    (launch,) = ttir.launches
    assert launch.name == "softmax_launch_0"
    shown = [(p.kind.value, p.name, p.number, p.type) for p in launch.parameters]
    assert shown == [
        ("pointer", "x", 0, "ptr"), ("stride", "x", 0, "i32"),
        ("pointer", "out", 0, "ptr"), ("stride", "out", 0, "i64"), ("stride", "out", 1, "i64"), ("size", "N", 0, "i64"),
    ]  # fmt: skip
    assert ttir.sizes == ("M", "N")


def test_the_host_computes_programs_and_bytes_of_buffers() -> None:
    plan = Plan({"i": 4}, {"j": 64}, splits={"j": 3})
    ttir = lowered(kernel("softmax"), plan, Facts({"M": ROWS}))
    prepared = ttir.prepare({"N": LENGTH})
    assert prepared.programs == (6, 6, 6)
    assert len(prepared.buffer_bytes) == ttir.buffers == 2
    assert prepared.buffer_bytes == (2 * 3 * 4 * 4, 2 * 3 * 4 * 4)
    assert ttir.prepare({}) == prepared  # nothing of it depends on N
    with pytest.raises(ArgumentError, match="size M is not given"):
        lowered(kernel("softmax"), plan, Facts({})).prepare({"N": LENGTH})


def test_nothing_is_launched_for_no_rows() -> None:
    ttir = lowered(kernel("softmax"), Plan({"i": 4}, {"j": 64}), Facts())
    assert ttir.prepare({"M": 0, "N": 5}).programs == (0,)


def test_operations_carry_the_locations_of_what_they_came_from() -> None:
    text = "vk.kernel @k(%x: !vk.tensor<[N], f32>, %y: !vk.tensor<[N], f32>) {\n  %N = vk.size N\n  vk.tile i < %N\n"
    text += '  %v = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>> loc("k.py":7:4)\n'
    text += '  vk.store %v in %y[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>> loc("k.py":8:4)\n}\n'
    ttir = lowered(parse_module(text), Plan({"i": 64}), Facts())
    printed = print_ttir(ttir.launches[0].module, locations=True).splitlines()
    loads = [line for line in printed if '"tt.load"' in line]
    stores = [line for line in printed if '"tt.store"' in line]
    assert len(loads) == len(stores) == 2
    assert all('loc("k.py":7:4)' in line for line in loads)
    assert all('loc("k.py":8:4)' in line for line in stores)


def test_a_masked_element_is_neither_read_nor_written() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    wide, out = np.full((4, 8), np.nan, np.float32), np.full((4, 8), 7, np.float32)
    wide[:3, :5] = x
    ttir = lowered(kernel("softmax"), Plan({"i": 4}, {"j": 8}), Facts())
    views = {"x": wide[:3, :5], "out": out[:3, :5]}
    interpret_ttir(ttir, views, {"M": 3, "N": 5})
    assert (out[3:] == 7).all()
    assert (out[:, 5:] == 7).all()
    assert np.isfinite(out).all()


@pytest.mark.parametrize(("plan", "message"), [
    (Plan({"i": 3}, {"j": 64}), "3 elements along i; on a GPU that must be a power of two"),
    (Plan({"i": 4}, {"j": 100}), "100 elements along j; on a GPU that must be a power of two"),
    (Plan({"i": 1024}, {"j": 2048}), "a tile of 1024 x 2048 elements; on a GPU it holds 1048576 at most"),
])  # fmt: skip
def test_a_plan_whose_tiles_no_gpu_can_hold_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        lowered(kernel("softmax"), plan, Facts())


def test_names_become_identifiers() -> None:
    text = print_ttir(lowered(kernel("softmax"), Plan({"i": 4}, {"j": 64}), Facts()).launches[0].module)
    assert 'sym_name = "softmax_launch_0"' in text
    module = parse_module(
        'vk.kernel @"2 λ"(%x: !vk.tensor<[N], f32>) {\n  %N = vk.size N\n  vk.tile i < %N\n'
        "  %v = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>\n}\n"
    )
    assert lowered(module, Plan({"i": 64}), Facts()).launches[0].name == "k2___launch_0"


def test_swap_space_of_resident_programs_is_apart() -> None:
    module = kernel("softmax")
    ttir = lowered(module, Plan({"i": 1}, {"j": 64}, {"e": Home.MEMORY}), Facts({"N": LENGTH}))
    kinds = [p.kind for p in ttir.launches[0].parameters]
    assert kinds.count(ParameterKind.SWAP) == kinds.count(ParameterKind.PROGRAMS) == 1
    for resident in (1, 2, ROWS):
        arguments = rows("softmax")
        interpret_ttir(ttir, arguments, SIZES, resident=resident)
        expected = np.exp(arguments["x"].astype(np.float64))
        np.testing.assert_allclose(arguments["out"], expected / expected.sum(1, keepdims=True), rtol=1e-5)


def test_arguments_are_left_alone() -> None:
    arguments = rows("softmax")
    before = copied(arguments)
    interpret_ttir(lowered(kernel("softmax"), Plan({"i": 4}, {"j": 64}), Facts()), arguments, SIZES)
    np.testing.assert_array_equal(arguments["x"], before["x"])
