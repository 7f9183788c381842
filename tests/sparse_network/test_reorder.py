"""Outputs in the order of what they gather: the same features, and neighbours that gather the same."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from vkernels.sparse_network import reorder
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.reorder import OrderedReader, reorder_outputs

from ..library.reference import fresh_seed

SIZES = (20, 31, 31, 31, 7, 7, 15)


def random_layers(sizes, random, equal):
    """Dense matrices, one in four weights not 0; those of an output equal, if so said, and equally many; else
    some output of each layer has two that differ."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        weight = random.random((outputs, inputs)) * (random.random((outputs, inputs)) < 0.25)
        weight[0, :2] = 0.25, 0.75
        if equal:
            chosen = random.permuted(np.tile(np.arange(inputs), (outputs, 1)), axis=1)[:, :4]
            weight = np.zeros((outputs, inputs))
            np.put_along_axis(weight, chosen, random.integers(1, 5, (outputs, 1)) / 8, axis=1)
        layers.append(weight)
    return layers


def dense(layers, index):
    """One layer's weights, outputs × inputs."""
    weight = np.zeros((layers.outputs, layers.inputs))
    np.add.at(weight, (np.arange(layers.outputs)[:, None], layers.column[index].astype(np.int64)), layers.weight[index])
    return weight


@pytest.mark.parametrize("equal", [False, True])
def test_a_network_in_order_computes_the_same(equal):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    layers = random_layers(SIZES, random, equal)
    biases = [random.normal(size=len(layer)).astype(np.float32) for layer in layers]
    ordered = reorder_outputs(SparseNetwork.of(layers, bias=biases))
    features = expected = random.random((20, 9))
    for number, (layer, bias) in enumerate(zip(layers, biases, strict=True)):
        expected = np.clip(layer @ expected + bias[:, None], 0, 32)
        found = ordered.read(number, number + 1)
        features = np.clip(dense(found, 0) @ features + found.bias[0][:, None], 0, 32)
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-5)


def test_equal_weights_are_stored_once_where_all_of_a_run_are():
    random = np.random.default_rng(fresh_seed())
    for equal in (True, False):
        network = reorder_outputs(SparseNetwork.of(random_layers(SIZES, random, equal)))
        for first, last in network.each_run():
            assert (network.read(first, last).weight.strides[2] == 0) == equal


def test_outputs_that_gather_the_same_become_neighbours():
    network = radix_network(1024, 12).in_memory()
    ordered = reorder_outputs(network)
    for layer in range(11):
        column = ordered.read(layer, layer + 1).column[0]
        changes = (column[1:] != column[:-1]).any(axis=1).sum()
        assert changes == len(np.unique(column, axis=0)) - 1
    last, before = ordered.read(11, 12).column[0], network.read(11, 12).column[0]
    assert len(np.unique(last, axis=0)) == len(np.unique(before, axis=0))


def test_a_network_in_order_has_narrow_indices_and_stays_where_it_begins_and_ends():
    ordered = reorder_outputs(radix_network(1024, 3))
    first = ordered.read(0, 1)
    assert first.column.dtype == np.int16
    assert ordered.held
    images = (np.random.default_rng(fresh_seed()).random((1024, 40)) < 0.4).astype(np.float32)
    result = radix_network(1024, 3).infer(images, kind="general")
    expected = images.astype(np.float64)
    plain = radix_network(1024, 3).read(0, 3)
    for layer in range(3):
        expected = np.clip(dense(plain, layer) @ expected - 0.3, 0, 32)
    np.testing.assert_array_equal(result.survivors, np.flatnonzero(expected.any(axis=0)))
    np.testing.assert_allclose(result.features, expected[:, result.survivors], atol=1e-4)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("kind", ["general", "saturating"])
def test_layers_that_are_not_held_are_put_in_order_as_they_come_while_many_images_live(equal, kind, monkeypatch):
    monkeypatch.setattr(reorder, "MIN_IMAGES_TO_REORDER", 60)
    random = np.random.default_rng(fresh_seed())
    sizes = (40,) + (48,) * 20 + (17,)
    layers = random_layers(sizes, random, equal)
    held = SparseNetwork.of(layers, bias=-0.4, cap=4)
    streamed = replace(held, held=False, most_held=0)
    images = (random.random((40, 150)) < np.linspace(0, 0.7, 150)).astype(np.float32)
    expected = images.astype(np.float64)
    for layer in layers:
        expected = np.clip(layer.astype(np.float32).astype(np.float64) @ expected - np.float64(np.float32(0.4)), 0, 4)
    found = streamed.infer(images, kind=kind)
    alive = expected.max(axis=0)
    sure = (alive == 0) | (alive > 1e-4)
    survives = np.isin(np.arange(150), found.survivors)
    np.testing.assert_array_equal(survives[sure], (alive > 0)[sure])
    np.testing.assert_allclose(found.features, expected[:, found.survivors], atol=1e-4)


def test_layers_are_read_in_order_and_values_are_moved_with_their_features():
    random = np.random.default_rng(fresh_seed())
    layers = random_layers((48,) * 6, random, equal=True)  # without padding
    network = replace(SparseNetwork.of(layers), held=False)
    turn = OrderedReader(network)
    features = expected = random.random((48, 3))
    many = reorder.MIN_IMAGES_TO_REORDER
    for number, images in enumerate((many, many, 1, 1, many)):
        expected = np.clip(layers[number] @ expected, 0, 32)
        for _ in range(2):  # the second time for fewer images: the order stays
            found = turn.read(number, number + 1, images)
            images = 1
        features = np.clip(dense(found, 0) @ features, 0, 32)
        moved = np.stack([turn.numbered(each.astype(np.float32), number + 1) for each in expected.T], axis=1)
        np.testing.assert_allclose(features, moved, rtol=1e-5)
        is_ordered = bool((np.diff(found.column[0][:, 0].astype(int)) >= 0).all())
        assert is_ordered == (number < 2)
    np.testing.assert_allclose(features, expected, rtol=1e-5)  # the last layer's outputs stay where they were
