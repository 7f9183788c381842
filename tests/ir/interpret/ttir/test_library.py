"""Kernels of the library, lowered for GPUs and run in NumPy, against references in f64."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.errors import ArgumentError
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan

from .library import (
    COPIES,
    HELD,
    MEMORY,
    ONE_COPY,
    PRODUCT,
    RECOMPUTED,
    SHARED,
    SPLIT,
    Call,
    layer_norm,
    matmul,
    network,
    softmax,
)

GPU = Limits(registers=255, register_bytes=4, shared=100 << 10, multiprocessors=8, cache=4 << 20, threads=1024, warp=32)
SIZES = [(1, 1), (2, 64), (5, 50), (3, 16), (7, 129)]
PLANS = {"held": HELD, "recomputed": RECOMPUTED, "shared": SHARED, "memory": MEMORY, "split": SPLIT}
FLOATS = [np.float64, np.float32, np.float16, np.uint16]


def seeded() -> int:
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed = {seed}")
    return seed


def check(call: Call, plan: Plan, exact: bool = False, **options) -> None:
    lowered = call.lowered(plan, exact)
    assert not call.difference(call.run(lowered, **options))


@pytest.mark.sample(2)
@pytest.mark.parametrize("plan", PLANS.values(), ids=["held", "recomputed", "shared", "memory", "split"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(plan, dtype):
    seed = seeded()
    for rows, columns in SIZES:
        exact = plan in (SHARED, MEMORY) or (seed + rows) % 2 == 0
        check(softmax(rows, columns, dtype, seed, padding=rows), plan, exact, order=seed)


@pytest.mark.sample(2)
@pytest.mark.parametrize("plan", [HELD, RECOMPUTED, SPLIT], ids=["held", "recomputed", "split"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(plan, dtype):
    seed = seeded()
    for rows, columns in SIZES[1:]:
        check(layer_norm(rows, columns, dtype, seed, padding=rows), plan, (seed + rows) % 2 == 0, order=seed)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul(dtype):
    seed = seeded()
    for sizes in [(16, 16, 16), (20, 40, 24), (1, 7, 33), (33, 16, 2)]:
        check(matmul(*sizes, dtype, seed, padding=seed % 3), PRODUCT, seed % 2 == 0, order=seed)
    check(matmul(20, 40, 24, dtype, seed, "relu"), PRODUCT, order=seed)


@pytest.mark.sample(1)
@pytest.mark.parametrize("plan", [COPIES, ONE_COPY], ids=["copies", "one"])
def test_networks(plan):
    seed = seeded()
    for neurons, images in [(8, 4), (20, 10), (3, 1)]:
        for resident in (1, 3):
            check(network(neurons, images, seed=seed), plan, resident == 1, resident=resident, order=seed)


@pytest.mark.parametrize(
    "call",
    [softmax(6, 300), layer_norm(6, 300), matmul(70, 50, 40), network(64, 20)],
    ids=lambda call: call.kernel.name,
)
def test_chosen_plans_of_the_library(call):
    tensors = {name: a for name, a in call.arguments.items() if isinstance(a, np.ndarray)}
    dtypes = tuple((name, a.dtype.name) for name, a in tensors.items())
    scalars = tuple((name, "f64") for name in call.arguments if name not in tensors)
    module = call.kernel.build(Signature(dtypes, scalars, tuple(call.constants.items())))
    check(call, choose_plan(kernel_in(module), call.sizes, GPU).plan, exact=True)


def test_the_interpreter_says_what_is_missing():
    call = softmax(3, 50)
    lowered = call.lowered(HELD)
    with pytest.raises(ArgumentError, match="no argument for parameter out"):
        interpret_ttir(lowered, {"x": call.arguments["x"]}, call.sizes)
    with pytest.raises(ArgumentError, match="argument `x` is a float, expected an array"):
        interpret_ttir(lowered, {**call.arguments, "x": 3.0}, call.sizes)
    with pytest.raises(ArgumentError, match="size M is not given"):
        interpret_ttir(lowered, call.arguments, {"N": 50})


def test_a_difference_is_seen():
    call = softmax(3, 50)
    outputs = call.run(call.lowered(HELD))
    outputs["out"][1, 3] += 0.01
    assert "out[1, 3]" in call.difference(outputs)
    outputs["out"][1, 3] = np.nan
    assert "1 are wrong" in call.difference(outputs)


def test_nothing_is_done_where_there_is_nothing():
    for plan in (HELD, RECOMPUTED, SPLIT):
        check(softmax(0, 5), plan)
        check(layer_norm(0, 5), plan)
    check(matmul(0, 3, 5), PRODUCT)


@pytest.mark.sample(2)
@pytest.mark.parametrize("plan", [HELD, RECOMPUTED, SHARED, MEMORY], ids=["held", "recomputed", "shared", "memory"])
def test_an_output_in_the_place_of_an_input(plan):
    seed = seeded()
    for rows, columns in SIZES:
        call = softmax(rows, columns, seed=seed, padding=rows)
        check(replace(call, in_place="x"), plan, plan in (SHARED, MEMORY), order=seed)
