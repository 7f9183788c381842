"""Loops whose loads are ahead give the same, whatever their number of iterations, and read nothing that changes."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.ahead import loads_ahead
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.targets import limits_of, target_named

Matrix = Float[vk.Tensor, "L D"]


def decayed(x: Matrix, decay: Float[vk.Tensor, "D"], out: Matrix):
    d = vk.tile("D")
    state = vk.zeros((d,), vk.float32)
    for t in vk.range("L"):
        state = state * decay[d] + x[t, d]
        out[t, d] = state


def in_place(x: Matrix, decay: Float[vk.Tensor, "D"]):
    d = vk.tile("D")
    for t in vk.range(1, "L"):
        x[t, d] += x[t - 1, d] * decay[d]


def followed(row: Int[vk.Tensor, "L"], x: Matrix, out: Matrix):
    """The place of the next row is found in the row before."""
    d = vk.tile("D")
    at = row[0]
    for t in vk.range("L"):
        out[t, d] = x[at, d] + x[row[t], d]
        at = row[at]


def nested(x: Matrix, out: Matrix):
    d = vk.tile("D")
    for t in vk.range("L"):
        total = vk.zeros((d,), vk.float32)
        for s in vk.range(t + 1):
            total += x[s, d] * x[t, d]
        out[t, d] = total


def pinned(text, stages):
    return vk.kernel(plan=vk.Pin(stages=stages))(text)


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(np.float32)  # exact


def expected(text, *given: np.ndarray) -> np.ndarray:
    """The results of the texts above, one step at a time."""
    if text is followed:
        row, x, out = given
        at = row[0] if len(row) else 0
        for t in range(len(row)):
            out[t] = x[at] + x[row[t]]
            at = row[at]
        return out
    if text is nested:
        x, out = given
        for t in range(len(x)):
            out[t] = (x[: t + 1] * x[t]).sum(0)
        return out
    x, decay, *_ = given
    total = np.zeros_like(decay)
    for t in range(len(x)):
        total = total * decay + x[t]
        x[t] = total
    return x


@pytest.mark.sample(10)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("text", [decayed, in_place, followed, nested])
def test_loops_give_the_same_however_far_ahead_they_load(text, stages, length):
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    if text is followed and length == 0:
        pytest.skip("reads its first row")
    x, out = numbers(rng, length, 5), np.full((length, 5), np.nan, np.float32)
    given = {
        decayed: [x, numbers(rng, 5) / 2, out], in_place: [x, numbers(rng, 5) / 2],
        followed: [rng.integers(0, max(1, length), length), x, out], nested: [x, out],
    }[text]  # fmt: skip
    wanted = expected(text, *(each.copy() for each in given))
    with on_a_gpu(NVIDIA if stages < 4 else AMD, seed % 1000):
        pinned(text, stages)(*given)
    np.testing.assert_array_equal(x if text is in_place else out, wanted)


def ir_of(text):
    kernel = vk.kernel(text)
    tensors = tuple((p.name, "float32" if "float32" in p.dtypes else "int64") for p in kernel.parameters)
    return kernel_in(kernel.build(Signature(tensors, (), ())))


@pytest.mark.parametrize(
    ("text", "moving", "fixed"), [(decayed, 1, 1), (in_place, 0, 1), (followed, 1, 0), (nested, 1, 1)]
)
def test_only_what_nothing_writes_nor_finds_in_the_loop_is_ahead(text, moving, fixed):
    found = list(loads_ahead(phases_of(ir_of(text))).values())
    assert (found.count(True), found.count(False)) == (moving, fixed)


def test_a_gpu_s_plan_of_a_recurrence_loads_ahead():
    limits = limits_of(target_named("h100-sxm5-80"))
    chosen = choose_plan(ir_of(decayed), {"L": 1000, "D": 4096}, limits)
    plain = choose_plan(ir_of(decayed), {"L": 1000, "D": 4096}, limits, pin=vk.Pin(stages=1))
    assert chosen.plan.stages > 1
    assert chosen.seconds < plain.seconds / 2
