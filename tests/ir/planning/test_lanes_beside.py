"""Axes along a CPU's lanes where much of the work has none along which memory is contiguous."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int64

import vkernels as vk
from tests.ir.planning.kernels import kernel_of
from tests.language.signatures import plain_signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.space import read_space

SERVER = Limits(registers=32, register_bytes=64, shared=2 << 20, multiprocessors=2, cache=256 << 20)


@vk.kernel
def nearest(x: Float[vk.Tensor, "N C"], y: Float[vk.Tensor, "M C"], place: Int64[vk.Tensor, "N 4"]):
    """Only distances, a part of the work, have the axis along which rows are contiguous."""
    i, j, c, k = vk.tile("N"), vk.whole("M"), vk.whole("C"), vk.whole(4)
    distance = vk.sum(vk.abs(x[i, c] - y[j, c]), axis=c)
    _, place[i, k] = vk.topk(distance, k, axis=j, largest=False)


@vk.kernel
def scaled(x: Float[vk.Tensor, "N C"], out: Float[vk.Tensor, "N C"]):
    """All work but a little has the contiguous axis."""
    i, c = vk.tile("N"), vk.whole("C")
    out[i, c] = x[i, c] / vk.sqrt(vk.sum(x[i, c] * x[i, c], axis=c))


@vk.kernel
def products_of_channels(a: Float[vk.Tensor, "I K C"], b: Float[vk.Tensor, "J K C"], out: Float[vk.Tensor, "I J C"]):
    """As many products as there are channels, which lie side by side."""
    i, j, c, k = vk.tile("I"), vk.tile("J"), vk.tile("C"), vk.whole("K")
    out[i, j, c] = vk.dot(a[i, k, c], b[j, k, c])


def kernel_in_phases(kernel: vk.Kernel) -> KernelOp:
    return phases_of(kernel_of(kernel.build(plain_signature(kernel))))


def test_work_without_contiguous_axes_gets_lanes_of_its_own():
    op, sizes = kernel_in_phases(nearest), {"N": 500, "M": 1000, "C": 16}
    assert set(read_space(op, sizes, SERVER).work_beside) >= {"i", "j"}
    chosen = choose_plan(op, sizes, SERVER)
    assert chosen.plan.lanes in ("i", "j")
    for lanes in ("i", "j", "c"):
        assert chosen.seconds <= choose_plan(op, sizes, SERVER, pin=Pin(lanes=lanes)).seconds * 1.001


def test_little_work_gets_none():
    assert read_space(kernel_in_phases(scaled), {"N": 500, "C": 1000}, SERVER).work_beside == ()


@pytest.mark.parametrize("lanes", ["i", "j", "c", None])
def test_results_are_the_same(lanes: str | None):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    random = np.random.default_rng(seed)
    x, y = random.standard_normal((37, 5)), random.standard_normal((53, 5))
    place = np.full((37, 4), -1)
    kernel = nearest if lanes is None else vk.kernel(nearest.function, plan=vk.Pin(lanes=lanes))
    kernel(x, y, place)
    distance = np.abs(x[:, None] - y[None]).sum(2)
    np.testing.assert_array_equal(place, np.argsort(distance, axis=1, kind="stable")[:, :4])


def test_a_contiguous_batch_of_products_fills_registers():
    chosen = choose_plan(kernel_in_phases(products_of_channels), {"I": 64, "J": 64, "K": 64, "C": 128}, SERVER)
    assert chosen.plan.lanes == "c"
    assert chosen.plan.tiles["c"] >= 16
