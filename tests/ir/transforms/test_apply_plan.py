"""Mapped kernels give the same as the kernels as written, whatever the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

KERNELS = Path(__file__).parent
Arguments = dict[str, Any]


def copied(arguments: Arguments) -> Arguments:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def check(name: str, arguments: Arguments, plan: Plan, facts: Facts, exact: bool = False) -> str:
    """Compare a kernel of this folder as written and mapped; the mapped text."""
    module = parse_module((KERNELS / f"{name}.mlir").read_text(), name)
    expected, actual = copied(arguments), copied(arguments)
    interpret(module, expected)
    before = print_module(module)
    mapped = apply_plan(module, plan, facts)
    assert print_module(module) == before
    verify_mapped(mapped)
    text = print_module(mapped)
    if "0xff800000" not in text:  # xDSL reads a tile of -inf back as a number
        assert print_module(parse_module(text)) == text
    interpret(mapped, actual, order=1, check_races=True)
    for key, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(actual[key], value, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)
    return text


ROWS, LENGTH = 7, 150
EXACT = {"M": ROWS, "N": LENGTH}
ROW_PLANS = [
    (Plan({"i": 4}, {"j": 64}, lanes="j"), Facts()),
    (Plan({"i": 4}, {"j": 64}, lanes="j"), Facts(distinct=True)),
    (Plan({"i": 7}, {"j": 50}, lanes="j"), Facts(multiples={"M": 7, "N": 50})),
    (Plan({"i": 1}, {"j": 256}, lanes="j"), Facts({"N": LENGTH})),
    (Plan({"i": 16}, {"j": 150}, lanes="i"), Facts(EXACT)),
    (Plan({"i": 2}, {"j": 16}, splits={"j": 3}, lanes="j"), Facts()),
    (Plan({"i": 1}, {"j": 64}, splits={"j": 7}, lanes="j"), Facts(EXACT)),
    (Plan({"i": 1}, {"j": 256}, splits={"j": 2}, lanes="j"), Facts({"N": LENGTH})),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("plan", "facts"), ROW_PLANS)
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows(name: str, plan: Plan, facts: Facts) -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, LENGTH)).astype(np.float32)
    arguments: Arguments = {"x": x, "out": np.full_like(x, np.nan)}
    if name == "layer_norm":
        arguments |= {"weight": x[0].copy(), "eps": 1e-5}
    check(name, arguments, plan, facts)


@pytest.mark.parametrize("home", [Home.SHARED, Home.MEMORY, Home.RECOMPUTE])
def test_a_crossing_value_can_have_any_home(home: Home) -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, LENGTH)).astype(np.float32)
    plan = Plan({"i": 4}, {"j": 64}, {"e": home}, lanes="j")
    text = check("softmax", {"x": x, "out": np.full_like(x, np.nan)}, plan, Facts({"N": LENGTH}))
    assert ('vk.scratch "e" : !vk.scratch<[4, 192], f32>' in text) == (home is Home.SHARED)
    assert ('vk.buffer "e"' in text) == (home is Home.MEMORY)
    assert ("vk.barrier" in text) == (home is not Home.RECOMPUTE)


@pytest.mark.sample(4)
@pytest.mark.parametrize("packs", [(), ("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("splits", [{}, {"k": 3}])
@pytest.mark.parametrize(("chunk", "facts"), [
    (1, Facts()), (4, Facts()), (7, Facts({"K": 45})), (5, Facts(multiples={"K": 5})),
    (64, Facts({"M": 19, "N": 70, "K": 45}, strides={"a": (45, 1), "b": (70, 1)})),
])  # fmt: skip
def test_matmul(packs: tuple[str, ...], splits: dict[str, int], chunk: int, facts: Facts) -> None:
    numbers = np.random.default_rng(0)
    arguments = {
        "a": numbers.integers(-3, 4, (19, 45)).astype(np.float16),
        "b": numbers.integers(-3, 4, (45, 70)).astype(np.float16),
        "bias": numbers.integers(-3, 4, 70).astype(np.float32),
        "out": np.full((19, 70), np.nan, np.float32),
    }
    plan = Plan({"i": 6, "j": 32}, {"k": chunk}, splits=splits, packs=packs, lanes="j", order=("j", "i"))
    text = check("matmul", arguments, plan, facts, exact=True)
    for name in packs:
        assert f'vk.launch "pack {name}"' in text
        assert f"vk.load %{name}[" in text


SPDNN_PLANS = [
    (Plan({"i": 8}, {"n": 1}, copies=("features",), lanes="i"), Facts({"N": 24})),
    (Plan({"i": 8}, {"n": 5}, copies=("features",), lanes="i"), Facts({"N": 24}, distinct=True)),
    (Plan({"i": 8}, {"n": 5}, lanes="i"), Facts({"N": 24})),
    (Plan({"i": 8}, {"n": 5}, {"total": Home.SHARED}, lanes="i"), Facts({"N": 24})),
    (Plan({"i": 32}, {"n": 64}, lanes="i"), Facts({"N": 24, "I": 21, "K": 5})),
]


def spdnn_arguments() -> Arguments:
    numbers = np.random.default_rng(0)
    images, pixels, neurons, weights, layers = 21, 30, 24, 5, 4
    return {
        "y": numbers.random((neurons, pixels)).astype(np.float32),
        "live": numbers.integers(0, pixels, images),
        "column": numbers.integers(0, neurons, (layers, neurons, weights)).astype(np.int32),
        "weight": numbers.random((layers, neurons, weights)).astype(np.float32),
        "bias": -0.3,
        "out": np.full((neurons, images), np.nan, np.float32),
        "peak": np.full(images, np.nan, np.float32),
    }


@pytest.mark.sample(3)
@pytest.mark.parametrize(("plan", "facts"), SPDNN_PLANS)
def test_spdnn(plan: Plan, facts: Facts) -> None:
    check("spdnn", spdnn_arguments(), plan, facts)


def test_two_copies_make_a_layer_one_nest() -> None:
    text = check("spdnn", spdnn_arguments(), *SPDNN_PLANS[0])
    full = text[: text.index("} else {")]
    loop = full[full.index("scf.for %l") :]
    assert loop.count("scf.for %n0") == 2  # the layer's, and the one after all layers
    assert "vk.buffer" not in text


REFUSED = [
    ("softmax", Plan({}, {"j": 64}), Facts(), "tile axis i no elements"),
    ("softmax", Plan({"i": 4, "q": 2}, {"j": 64}), Facts(), "names axis q"),
    ("softmax", Plan({"i": 4}, {"j": 64}, lanes="k"), Facts(), "names axis k"),
    ("softmax", Plan({"i": 4, "j": 64}, {"j": 64}), Facts(), "whole axis j a place among the tile axes"),
    ("softmax", Plan({"i": 4}, {"j": 0}), Facts(), "axis j"),
    ("softmax", Plan({"i": 4}, {"j": 64}, {"e": Home.REGISTERS}), Facts(), "registers cannot hold it"),
    ("softmax", Plan({"i": 4}, {"j": 64}, {"e": Home.SHARED}), Facts(), "e needs shared memory for all of axis j"),
    ("softmax", Plan({"i": 4}, {"j": 64}, {"z": Home.SHARED}), Facts(), "homes to z"),
    ("softmax", Plan({"i": 4}, {"j": 64}, splits={"i": 2}), Facts(), "splits axis i"),
    ("softmax", Plan({"i": 4}, {"j": 64}, copies=("x",)), Facts(), "no scratchpad"),
    ("softmax", Plan({"i": 4}, {"j": 64}, packs=("q",)), Facts(), "packs q"),
    ("softmax", Plan({"i": 4}, {"j": 64}, packs=("out",)), Facts(), "out is not a tensor that is only loaded"),
    ("spdnn", Plan({"i": 4}, {"n": 2}, {"features": Home.SHARED}), Facts(), "features needs shared memory for all of"),
    ("spdnn", Plan({"i": 4}, {"n": 2}, {"total": Home.RECOMPUTE}), Facts({"N": 8}), "total cannot be recomputed"),
    ("spdnn", Plan({"i": 4}, {"n": 2}, splits={"n": 2}), Facts({"N": 8}), "a loop or conditional holds"),
]


@pytest.mark.parametrize(("name", "plan", "facts", "message"), REFUSED)
def test_a_plan_that_cannot_be_applied_is_refused(name: str, plan: Plan, facts: Facts, message: str) -> None:
    module = parse_module((KERNELS / f"{name}.mlir").read_text(), name)
    with pytest.raises(PlanError, match=message):
        apply_plan(module, plan, facts)
