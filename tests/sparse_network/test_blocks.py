"""Blocks that lie hidden in any weights are found, and a network in blocks computes the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.sparse_network import blocks
from vkernels.sparse_network.blocks import find_blocks, find_groups
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.network import SparseNetwork

from ..library.reference import fresh_seed
from .test_network import check, exact, random_images, random_layers


def planted(random, inputs, outputs, height, width, missing=0.0):
    """Weights, outputs × inputs, and each output's block: `height` outputs at a time have the same `width` inputs,
    apart from a share of connections that are missing; outputs and inputs stand in random orders."""
    weight, block = np.zeros((outputs, inputs)), np.arange(outputs) // height
    for number in range(block[-1] + 1):
        chosen = np.ix_(block == number, random.permutation(inputs)[:width])
        there = random.random(weight[chosen].shape) >= missing
        weight[chosen] = (random.random(there.shape) + 0.1) * there * 3 / width
    order = random.permutation(outputs)
    return weight[order][:, random.permutation(inputs)], block[order]


def network_of(sizes, height, width, seed, missing=0.0):
    random = np.random.default_rng(seed)
    return [planted(random, inputs, outputs, height, width, missing)[0] for inputs, outputs in pairwise(sizes)]


def dense(layers):
    """The weights of one layer in blocks or not, outputs × inputs."""
    column = layers.column[0].astype(np.int64)
    weight = np.zeros((layers.outputs, layers.inputs))
    if layers.weight.ndim == 4:
        column = np.repeat(column, layers.weight.shape[2], axis=0)
    np.add.at(weight, (np.arange(layers.outputs)[:, None], column), layers.weight[0].reshape(column.shape))
    return weight


@given(
    seed=st.integers(0, 2**32), inputs=st.integers(6, 80), count=st.integers(1, 6), height=st.integers(1, 9),
    width=st.integers(1, 6),
)  # fmt: skip
@settings(max_examples=100)
def test_any_permutation_of_blocks_is_found(seed, inputs, count, height, width):
    weight, block = planted(np.random.default_rng(seed), inputs, count * height, height, width)
    layers = SparseNetwork.of([weight]).read(0, 1)
    groups = find_groups(layers.column[0], layers.weight[0], inputs)
    for number in range(count):
        assert len(set(groups.member[block == number])) == 1  # two blocks may have the same inputs, or nearly
    for output, group in enumerate(groups.member):
        together = groups.inputs[groups.start[group] : groups.start[group + 1]]
        assert set(np.flatnonzero(weight[output])) <= set(together)
        assert np.all(np.diff(together) > 0)
    assert groups.connections == np.count_nonzero(weight)
    assert groups.filled <= 0.25 * groups.connections + 1e-9


def test_sets_that_are_nearly_the_same_are_grouped():
    """Ten blocks, of whose outputs more than half lack an input or two: in about a hundred sets by themselves."""
    weight, _ = planted(np.random.default_rng(fresh_seed()), 400, 160, 16, 40, missing=0.02)
    layers = SparseNetwork.of([weight]).read(0, 1)
    groups = find_groups(layers.column[0], layers.weight[0], 400)
    assert len(np.unique(weight != 0, axis=0)) > 50
    assert 10 <= groups.start.size - 1 <= 25
    assert 0 < groups.filled < 0.1 * groups.connections


@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=6),
    height=st.integers(1, 9),
    missing=st.sampled_from([0, 0.05, 0.3]),
    cost=st.sampled_from([0.01, 0.9, 2.0]),
)
@settings(max_examples=60)
def test_a_network_in_blocks_has_the_same_weights(seed, sizes, height, missing, cost):
    """Whatever blocks cost, and so whichever layers get some: all, some or none."""
    weights = network_of(sizes, height, 5, seed, missing)
    biases = [np.random.default_rng(seed).normal(size=len(weight)).astype(np.float32) for weight in weights]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "COST", cost)
        found = find_blocks(SparseNetwork.of(weights, bias=biases))
    assert found.network is not None or cost > 0.5
    if found.network is None:
        return
    image = np.random.default_rng(seed + 1).random(sizes[0])
    expected, features = image, image
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        layer = found.network.read(number, number + 1)
        expected = np.clip(weight.astype(np.float32) @ expected + bias, 0, 32)
        features = np.clip(dense(layer) @ features + layer.bias[0], 0, 32)
        assert np.count_nonzero(layer.weight) == np.count_nonzero(weight)
    np.testing.assert_allclose(features[found.places], expected, rtol=1e-6, atol=1e-6)


SQUARE, RECTANGULAR = (64,) * 5, (30, 64, 64, 24, 24, 56)


@pytest.mark.sample(2)
@pytest.mark.parametrize("sizes", [SQUARE, RECTANGULAR])
@pytest.mark.parametrize("images", [0, 1, 90])
@pytest.mark.parametrize("missing", [0.0, 0.02])
def test_planted_blocks_are_found_and_run(sizes, images, missing):
    seed = fresh_seed()
    weights = network_of(sizes, 8, 20, seed, missing)
    biases = [np.float32(-0.02)] * len(weights)
    network = SparseNetwork.of(weights, bias=biases, cap=np.inf)  # and so no fixed point is proved
    inputs = random_images(sizes[0], images, seed)
    result = check(network, inputs, exact([_Dense(w) for w in weights], biases, np.inf, inputs), kind="structured")
    if missing == 0:
        assert result.record.kind == "structured"
        assert "blocks of 8 outputs with the same inputs, up to 20 inputs" in result.record.findings[1]
        assert "100% of the connections lie in blocks, 0.0% more are filled in" in result.record.findings[2]
        assert network.infer(inputs).record.kind == "structured"  # what "auto" takes too


class _Dense:
    """A matrix that `exact` takes."""

    def __init__(self, matrix):
        self._matrix = matrix

    def toarray(self):
        return self._matrix


def test_layers_of_one_launch_are_one_where_blocks_are_even():
    network = SparseNetwork.of(network_of(SQUARE, 16, 12, fresh_seed()), bias=-0.02)
    record = network.infer(np.ones((64, 5)), kind="structured").record
    assert [group.layers for group in record.groups] == [4]
    assert record.executed_edges == 5 * 4 * 64 * 12


def test_uneven_blocks_are_filled_up_with_outputs_that_nobody_sees():
    seed = fresh_seed()
    weights = network_of((60,) * 5, 9, 20, seed)  # six blocks of nine and one of six: cut to 4, or filled up
    network = SparseNetwork.of(weights, bias=-0.02)
    inputs = random_images(60, 40, seed)
    result = check(
        network, inputs, exact([_Dense(w) for w in weights], [np.float32(-0.02)] * 4, 32, inputs), kind="structured"
    )
    assert result.features.shape[0] == 60


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_blocks_take_features_of_16_bits(storage):
    seed = fresh_seed()
    weights = network_of(RECTANGULAR, 8, 20, seed)
    inputs = random_images(30, 50, seed)
    whole, halves = (
        SparseNetwork.of(weights, bias=-0.02).infer(inputs, kind="structured", storage=each)
        for each in ("float32", storage)
    )
    assert halves.record.kind == "structured"
    both, one, other = np.intersect1d(whole.survivors, halves.survivors, return_indices=True)
    assert both.size >= 0.9 * whole.survivors.size
    scale = whole.features.max(initial=0)
    np.testing.assert_allclose(halves.features[:, other], whole.features[:, one], atol=0.1 * scale)


@pytest.mark.parametrize("bias", [-0.02, 0.25])
def test_images_that_are_all_dead_stay_so_unless_a_bias_says_otherwise(bias):
    weights = network_of(RECTANGULAR, 8, 20, fresh_seed())
    result = SparseNetwork.of(weights, bias=bias).infer(np.zeros((30, 12)), kind="structured")
    assert result.record.kind == "structured"
    assert result.survivors.size == (12 if bias > 0 else 0)


def test_equal_outputs_are_merged_before_blocks_are_looked_for():
    weights = [np.repeat(weight, 3, axis=0) for weight in network_of((48, 48), 8, 20, fresh_seed())]
    record = SparseNetwork.of(weights).infer(np.ones((48, 2)), kind="structured").record
    assert "equal outputs merged: 2880 connections became 960" in record.findings[0]
    assert "blocks of 8 outputs" in record.findings[2]


def test_where_merging_wins_blocks_are_left_alone():
    record = radix_network(1024, 12).infer(np.ones((1024, 2)), kind="structured").record
    assert record.kind == "structured"
    assert "equal outputs merged" in record.findings[0]
    assert "no blocks: they would take" in record.findings[-1]


def test_weights_without_structure_stay_general():
    network = SparseNetwork.of(random_layers((40, 40, 40), fresh_seed()), bias=-0.1)
    record = network.infer(np.ones((40, 3)), kind="structured").record
    assert record.kind == "general"
    assert "no two outputs are equal" in record.findings[0]
    assert "no blocks" in record.findings[1]


def test_an_input_that_comes_twice_counts_twice():
    column = np.tile([[0, 2, 2]], (8, 1))
    weight = np.random.default_rng(3).random((8, 3))
    network = SparseNetwork.of([(column, weight)], inputs=3)
    result = network.infer(np.array([[1.0], [5.0], [2.0]]), kind="structured")
    assert result.record.kind == "structured"
    np.testing.assert_allclose(result.features[:, 0], weight[:, 0] + 2 * weight[:, 1] + 2 * weight[:, 2], rtol=1e-5)
