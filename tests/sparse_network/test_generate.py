"""Generated networks are the challenge's."""

import numpy as np
import pytest

from vkernels.ir.errors import OptionError
from vkernels.sparse_network.generate import radix_layer, radix_network

from .networks import shared_file

SIZES = {1024: 6, 4096: 8, 16384: 10, 65536: 12}


def distinct_rows(layer):
    """Which inputs each of the neurons that differ has: distinct neurons × inputs, 0 or 1."""
    neurons = len(layer)
    rows = np.zeros((neurons // 16, neurons), np.int32)
    np.put_along_axis(rows, layer[: neurons // 16].astype(np.int64), 1, axis=1)
    return rows


def relations(layers):
    """How many inputs each two neurons of a block share: what no relabelling of the inputs changes."""
    rows = np.concatenate([distinct_rows(layer) for layer in layers])
    return rows @ rows.T


def test_the_first_block_is_the_official_one():
    official = np.load(shared_file("radixnet-1024-120.npz"))["column"]
    for layer in range(6):
        np.testing.assert_array_equal(radix_layer(1024, layer), official[layer])


@pytest.mark.parametrize("block", [1, 7, 19])
def test_a_later_block_is_the_official_one_but_for_the_permutation(block):
    official = np.load(shared_file("radixnet-1024-120.npz"))["column"][6 * block : 6 * block + 6]
    ours = [radix_layer(1024, 6 * block + digit) for digit in range(6)]
    np.testing.assert_array_equal(relations(ours), relations(official))


@pytest.mark.parametrize("block", [0, 1, 5])
def test_all_layers_of_a_block_share_a_permutation(block):
    first = relations([radix_layer(1024, digit) for digit in range(6)])
    np.testing.assert_array_equal(relations([radix_layer(1024, 6 * block + digit) for digit in range(6)]), first)


@pytest.mark.parametrize(("neurons", "digits"), SIZES.items())
def test_every_neuron_has_32_inputs_and_32_outputs_and_15_twins(neurons, digits):
    for layer in (0, digits - 1, digits, 3 * digits + 1):
        column = radix_layer(neurons, layer)
        assert column.shape == (neurons, 32)
        assert column.dtype == np.int32
        assert (np.diff(column, axis=1) > 0).all()
        assert (np.bincount(column.ravel(), minlength=neurons) == 32).all()
        assert (column.reshape(16, neurons // 16, 32) == column[: neurons // 16]).all()


@pytest.mark.parametrize(("neurons", "digits"), SIZES.items())
def test_only_later_blocks_depend_on_the_seed(neurons, digits):
    np.testing.assert_array_equal(radix_layer(neurons, digits - 1, 1), radix_layer(neurons, digits - 1, 2))
    np.testing.assert_array_equal(radix_layer(neurons, digits, 1), radix_layer(neurons, digits, 1))
    assert (radix_layer(neurons, digits, 1) != radix_layer(neurons, digits, 2)).any()


def test_the_permutation_is_the_same_on_every_machine():
    assert radix_layer(1024, 6)[0].tolist()[:8] == [13, 77, 82, 87, 105, 119, 147, 184]


def test_layers_are_the_same_however_they_are_read():
    network = radix_network(1024, 9)
    whole, held = network.read(0, 9), network.in_memory()
    for first, last in ((0, 1), (3, 8), (8, 9)):
        for part in (network.read(first, last), held.read(first, last)):
            np.testing.assert_array_equal(part.column, whole.column[first:last])
            np.testing.assert_array_equal(part.weight, np.full((last - first, 1024, 32), 1 / 16, np.float32))
            assert part.nonzeros.tolist() == [32768] * (last - first)


@pytest.mark.parametrize(("neurons", "layers"), [(1000, 120), (0, 1), (-1024, 1), (1024, 0), (1024, 1921), (2048, 5)])
def test_sizes_that_the_challenge_does_not_have_are_refused(neurons, layers):
    with pytest.raises(OptionError, match=r"neurons|layers"):
        radix_network(neurons, layers)
