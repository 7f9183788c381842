"""Networks that are larger than memory: read from a file while they run, and with it no more than was allowed."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from vkernels.ir.errors import FileError
from vkernels.sparse_network import infer as inference
from vkernels.sparse_network import network_file
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.infer import infer
from vkernels.sparse_network.network import SparseNetwork

from ..library.reference import fresh_seed
from .networks import numpy_layers


def saved(path, sizes=(6, 9, 9, 9, 4), **options):
    """A random network in a file."""
    random = np.random.default_rng(fresh_seed())
    layers = [
        csr_array(random_array(shape, density=0.4, rng=random, data_sampler=random.standard_normal))
        for shape in zip(sizes[1:], sizes[:-1], strict=True)
    ]
    network = SparseNetwork.of(layers, **options)
    network.save(path)
    return network


def test_a_streamed_network_is_the_one_that_was_saved(tmp_path):
    network = saved(tmp_path / "x.npz", bias=[np.arange(9) / -9, 0.5, -0.25, np.zeros(4)], cap=3.5)
    streamed = SparseNetwork.load(tmp_path / "x.npz", streamed=True)
    assert (streamed.sizes, streamed.cap, streamed.settled_from) == (network.sizes, 3.5, 2)
    assert not streamed.held
    for layer in (2, 0, 3, 3, 1):
        one, other = network.read(layer, layer + 1), streamed.read(layer, layer + 1)
        images = np.random.default_rng(layer).random((one.inputs, 3))
        for each in (one, other):
            assert each.nonzeros.tolist() == one.nonzeros.tolist()
        np.testing.assert_allclose(product(one, images), product(other, images), rtol=1e-12)
        np.testing.assert_array_equal(one.bias, other.bias)


def product(layers, images):
    """A layer's weights times these images, in float64."""
    return np.einsum("nk,nki->ni", layers.weight[0].astype(np.float64), images[layers.column[0]])


@pytest.mark.parametrize("kind", ["general", "structured", "saturating", "auto"])
def test_it_finds_the_same_survivors(tmp_path, kind):
    network = saved(tmp_path / "x.npz", bias=-0.05)
    streamed = replace(SparseNetwork.load(tmp_path / "x.npz", streamed=True), most_held=100)
    images = np.random.default_rng(fresh_seed()).random((6, 50)).astype(np.float32)
    found, expected = streamed.infer(images, kind=kind), network.infer(images, kind="general")
    np.testing.assert_array_equal(found.survivors, expected.survivors)
    np.testing.assert_allclose(found.features, expected.features, atol=1e-5)


def test_several_threads_may_read_at_once(tmp_path):
    network = saved(tmp_path / "x.npz", sizes=(9,) * 30, bias=-0.05)
    streamed = SparseNetwork.load(tmp_path / "x.npz", streamed=True)
    numbers = np.random.default_rng(fresh_seed()).integers(0, 29, 200).tolist()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda layer: streamed.read(layer, layer + 1), numbers))
    for layer, each in zip(numbers, found, strict=True):
        assert each.nonzeros.tolist() == network.read(layer, layer + 1).nonzeros.tolist()


@pytest.mark.slow
def test_memory_is_bounded_by_what_is_read_at_once_not_by_the_network(tmp_path, monkeypatch):
    layers, group = 32, 2 << 20
    network = replace(radix_network(4096, layers), most_held=group)
    monkeypatch.setattr(inference, "GROUP_BYTES", group)
    monkeypatch.setattr(network_file, "RUN_BYTES", group)
    whole = layers * network.read(0, 1).nbytes
    images = (np.random.default_rng(1).random((4096, 32)) < 0.3).astype(np.float32)
    assert peak(lambda: network.save(tmp_path / "x.npz")) < whole / 2
    streamed = SparseNetwork.load(tmp_path / "x.npz", streamed=True)
    assert peak(lambda: infer(streamed, images, kernel=zeros)) < whole / 2
    assert peak(lambda: infer(network, images, kernel=zeros)) < whole / 2
    assert peak(lambda: infer(network.in_memory(), images, kernel=zeros)) > whole  # so it can be told


def zeros(y, column, weight, bias, cap, out, peak):
    """A kernel that needs nothing and lets all images live."""
    out[:], peak[:] = 1, 1


def peak(work):
    """The most bytes that were allocated during some work, beyond those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ARRAYS = {"sizes": np.array([4, 4]), "cap": np.array([32.0]), "start": np.arange(5), "column": np.arange(4, dtype=np.int32), "weight": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column": np.full(4, 9, np.int32)}, "layer 0: index 9 is out of range"),
        ({"column": np.full(4, -1, np.int32)}, "layer 0: index -1 is out of range"),
        ({"weight": np.full(4, np.nan, np.float32)}, "layer 0: the weight .* is nan"),
        ({"bias": np.full(4, np.inf, np.float32)}, "layer 0: the bias inf is not finite"),
        ({"sizes": np.array([4])}, "describe no network"),
        ({"sizes": np.array([4, -4])}, "describe no network"),
        ({"sizes": np.array([4, 1 << 60])}, "lengths do not go with"),
        ({"start": np.array([0, 1, 2, 3, 2])}, "the layers have 2 connections, the file 4"),
        ({"start": np.array([0, 1, 2, 3, 1 << 60])}, "the layers have .* connections, the file 4"),
        ({"start": np.array([0, 3, 2, 3, 4])}, "start does not say"),
        ({"start": np.array([2, 2, 2, 3, 4])}, "start does not say"),
        ({"cap": np.array([np.nan])}, "cap is nan"),
        ({"cap": np.array([-1.0])}, "cap is -1"),
        ({"bias": np.zeros(4, object)}, "array `bias` holds object"),
        ({"weight": np.ones((2, 2), np.float32)}, "array `weight` has 2 dimensions, not 1"),
    ],
)
def test_a_damaged_file_is_refused_where_the_damage_is_met(tmp_path, changes, message):
    np.savez(tmp_path / "x.npz", **(ARRAYS | changes))
    with pytest.raises(FileError, match=message) as caught:
        SparseNetwork.load(tmp_path / "x.npz", streamed=True).read(0, 1)
    assert "x.npz" in str(caught.value)


def test_a_file_cut_short_or_changed_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    saved(path, sizes=(40,) * 6)
    data = path.read_bytes()
    random = np.random.default_rng(fresh_seed())
    for _ in range(60):
        place = int(random.integers(0, len(data)))
        path.write_bytes(data[:place] if random.random() < 0.3 else damaged(data, place))
        with suppress(FileError):  # or harmless; any other error fails
            network = SparseNetwork.load(path, streamed=True)
            for layer in range(network.layers):
                network.read(layer, layer + 1)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("was", "now"), [(b"'fortran_order'", b"'fortran_ord\xb4r "), (b"(4,)", b"(((("), (b"'<f4'", b"'<f4)")]
)
def test_a_header_that_cannot_be_read_is_refused(tmp_path, streamed, was, now):
    path = tmp_path / "x.npz"
    np.savez(path, **ARRAYS)
    path.write_bytes(path.read_bytes().replace(was, now))
    with pytest.raises(FileError, match=r"x\.npz: array `\w+` is damaged|x\.npz: not a whole"):
        SparseNetwork.load(path, streamed=streamed).read(0, 1)


def damaged(data, place):
    return data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"x\.npz: No such file"):
        SparseNetwork.load(tmp_path / "x.npz", streamed=True)


def test_numpy_layers_agree_with_a_streamed_network(tmp_path):
    network = saved(tmp_path / "x.npz", sizes=(9,) * 5, bias=-0.1)
    streamed = SparseNetwork.load(tmp_path / "x.npz", streamed=True)
    images = np.random.default_rng(fresh_seed()).random((9, 20)).astype(np.float32)
    one, other = infer(streamed, images, kernel=numpy_layers), infer(network, images, kernel=numpy_layers)
    np.testing.assert_allclose(one.features, other.features, atol=1e-6)
