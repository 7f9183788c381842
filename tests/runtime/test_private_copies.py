"""Calls whose atomics update private copies are right on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Int, Num

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.runtime import get_threads, set_threads


@vk.kernel
def add_up(index: Int[vk.Tensor, "N"], weight: Num[vk.Tensor, "N"], total: Num[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(total[index[i]], weight[i])


@vk.kernel(plan=vk.Pin(private_copies=7))
def in_seven(index: Int[vk.Tensor, "N"], weight: Num[vk.Tensor, "N"], total: Num[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(total[index[i]], weight[i])


@vk.kernel
def add_to(x: Num[vk.Tensor, "N"], out: Num[vk.Tensor, "N"]):
    i = vk.tile("N")
    vk.atomic_add(out[i], x[i])


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest):
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


@pytest.mark.parametrize("kernel", [add_up, in_seven])
def test_totals_are_the_same_on_any_number_of_threads(kernel, threads):
    """Many equal indices and few; integers exactly, and floats with the same bits each time."""
    random = np.random.default_rng(fresh_seed())
    for bins, dtype in ((1, "i8"), (300, "f4")):
        index, weight = random.integers(0, bins, 200_001), random.integers(-50, 50, 200_001).astype(dtype)
        weight = weight / np.float32(3) if dtype == "f4" else weight
        totals = np.zeros((4, bins), dtype)
        for total in totals:
            kernel(index, weight, total)
        expected, tolerance = np.bincount(index, weight, minlength=bins), 1e-2 if dtype == "f4" else 0
        np.testing.assert_allclose(totals[0], expected, rtol=0, atol=tolerance)
        if kernel is in_seven:  # whose first call has the plan already
            np.testing.assert_array_equal(totals, totals[:1].repeat(4, 0))


def test_a_tensor_that_is_read_and_updated_has_no_copies():
    """The plan is chosen for tensors of their own; in place it runs with atomics, not on the bottom rung."""
    x, rungs = np.arange(100_000), set()
    with vk.on_launch(lambda event: rungs.add(event.rung)):
        out = np.ones_like(x)
        add_to(x, out)
        np.testing.assert_array_equal(out, x + 1)
        add_to(out, out)
    np.testing.assert_array_equal(out, 2 * x + 2)
    assert "bottom" not in rungs
