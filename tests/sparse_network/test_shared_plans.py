"""Plans of a sparse network's launches: few for many shapes, and right where the last tile is not full."""

import numpy as np
import pytest

import vkernels as vk
from vkernels.ir.limits import Limits
from vkernels.library.spdnn import equal_weight_layers
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.run_layers import run_layers
from vkernels.sparse_network.shared_plans import IMAGES, MOST_LINES, round_sizes, with_shared_plans

from ..library.reference import fresh_seed


def test_few_plans_serve_the_launches_of_a_network():
    network = radix_network(1024, 12)
    random = np.random.default_rng(fresh_seed())
    images = (random.random((1024, 700)) < np.linspace(0.1, 0.4, 700)).astype(np.float32)
    events = []
    most = (IMAGES[1] // IMAGES[0]).bit_length() + MOST_LINES - 1  # a rounded number each, and each width of a tile
    with vk.on_launch(events.append):
        for count in range(330, 701, 37):
            network.infer(images[:, :count], kind="general")
    for kernel in {event.kernel for event in events}:
        own = [event for event in events if event.kernel == kernel]
        shapes = {tuple(event.called.sizes.items()) for event in own}
        plans = {repr(event.plan) for event in own}
        assert len(plans) <= min(most, len(shapes))


@pytest.mark.parametrize("images", [1, 2, 3, 5, 15, 17, 31, 40, 65])
def test_any_number_of_images_is_right(images):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    column = random.integers(0, 50, (3, 50, 6))
    weight = random.random((3, 50, 6)).astype(np.float32) / 4
    bias = random.normal(size=(3, 50)).astype(np.float32) / 4
    y = expected = random.random((50, images)).astype(np.float32)
    out, peak = np.full((50, images), np.nan, np.float32), np.full(images, np.nan, np.float32)
    run_layers(y, column.astype(np.int32), weight, bias, 2.0, out, peak)
    for layer in range(3):
        total = np.einsum("nk,nki->ni", weight[layer].astype(np.float64), expected[column[layer]])
        expected = np.clip(total + bias[layer][:, None], 0, 2)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(peak, out.max(axis=0))


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_features_beyond_a_cores_own_cache_are_right(storage):
    random = np.random.default_rng(fresh_seed())
    neurons, images = 20000, 37
    layers = [(random.integers(0, neurons, (neurons, 3)), random.integers(1, 4, (neurons, 3)) / 8) for _ in range(2)]
    result = SparseNetwork.of(layers, bias=-0.25, cap=2, inputs=neurons).infer(
        y := random.integers(0, 2, (neurons, images)), kind="general", storage=storage
    )
    expected = y.astype(np.float64)
    for column, weight in layers:  # all numbers are few bits long: exact
        expected = np.clip(np.einsum("nk,nki->ni", weight, expected[column]) - 0.25, 0, 2)
    np.testing.assert_array_equal(result.survivors, np.flatnonzero(expected.any(axis=0)))
    np.testing.assert_array_equal(result.features, expected[:, result.survivors])


def test_sizes_that_plans_are_chosen_for_are_few():
    found = {
        tuple(round_sizes({"L": layers, "N": 9, "I": i}).items()) for layers in range(1, 70) for i in range(1, 5000)
    }
    assert len(found) == (IMAGES[1] // IMAGES[0]).bit_length()
    assert round_sizes({"N": 9, "P": 70, "I": 33}) == {"N": 9, "P": 128, "I": 64}


@pytest.mark.parametrize(("dtype", "width"), [("float32", 16), ("float16", 32)])
def test_two_outputs_are_worked_on_at_a_time_where_features_leave_a_cores_own_cache(dtype, width):
    limits = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)
    dtypes = {"column": "int32", "weight": "float32", "bias": "float32", "peak": "float32", "y": dtype, "out": dtype}
    for neurons, images, tile in ((65536, 256, 2 * width), (65536, 8, 8), (1024, 256, None)):
        sizes = {"N": neurons, "I": images, "L": 12, "K": 32}
        plan = with_shared_plans(equal_weight_layers).plan_for(sizes, dtypes, limits)
        assert plan is not None
        if tile is not None:
            assert (plan.tiles["i"], plan.chunks["n"], plan.copies) == (tile, 2, ("features",))


@pytest.mark.parametrize(
    ("level_2", "registers", "images", "tile", "outputs"),
    [
        (2 << 20, (32, 64), 1024, 64, 2),
        (1 << 20, (32, 64), 1024, 64, 2),
        (512 << 10, (32, 64), 1024, 32, 4),
        (1 << 20, (16, 32), 1024, 64, 1),
        (1 << 20, (32, 64), 64, 32, 4),
        (1 << 20, (32, 64), 4, 4, 8),
    ],
)
def test_features_of_a_tile_fit_a_cores_own_cache_and_its_sums_the_registers(level_2, registers, images, tile, outputs):
    limits = Limits(
        registers=registers[0], register_bytes=registers[1], shared=level_2, multiprocessors=2, cache=32 << 20
    )
    tensors = ("y", "weight", "bias", "out", "peak")
    plan = with_shared_plans(equal_weight_layers).plan_for(
        {"N": 1024, "I": images, "L": 4, "K": 32}, dict.fromkeys(tensors, "float32") | {"column": "int16"}, limits
    )
    assert plan is not None
    assert (plan.tiles["i"], plan.chunks["n"]) == (tile, outputs)
