"""Any sparse network can be built, saved and run, in every class of execution, with the results of float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array, random_array

from vkernels.ir.errors import ArgumentError, FileError, OptionError
from vkernels.sparse_network.fixed_points import find_fixed_points
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.merge import merge_equal
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.run import LayerGroup

from ..library.reference import fresh_seed

KINDS = ["auto", "general", "structured", "saturating"]


def random_layers(sizes, seed, density=0.3):
    """Random sparse matrices, outputs × inputs."""
    random = np.random.default_rng(seed)
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    return [
        csr_array(random_array(shape, density=density, rng=random, data_sampler=random.standard_normal))
        for shape in shapes
    ]


def random_images(inputs, images, seed):
    random = np.random.default_rng(seed)
    return (random.random((inputs, images)) * (random.random(images) < 0.8)).astype(np.float32)


def exact(layers, biases, cap, images):
    """Features after the last layer, in float64."""
    values = images.astype(np.float64)
    for layer, bias in zip(layers, biases, strict=True):
        dense = layer.toarray().astype(np.float32).astype(np.float64)
        values = np.clip(dense @ values + np.reshape(bias, (-1, 1)), 0, cap)
    return values


def check(network, images, expected, **options):
    """What is clearly alive in float64 survives; of what survives besides, all features are as small as rounding is."""
    result = network.infer(images, **options)
    clearly = np.flatnonzero(expected.max(axis=0, initial=0) > 1e-4)
    assert set(clearly) <= set(result.survivors.tolist())
    assert np.all(result.features.max(axis=0, initial=0) > 0)
    np.testing.assert_allclose(result.features, expected[:, result.survivors], atol=1e-4, rtol=1e-4)
    return result


RECTANGULAR = (20, 31, 31, 31, 7, 7, 15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("images", [0, 1, 90])
def test_rectangular_layers_without_structure(kind, images):
    seed = fresh_seed()
    layers = random_layers(RECTANGULAR, seed)
    biases = [np.float32(-0.01)] * len(layers)
    inputs = random_images(20, images, seed)
    network = SparseNetwork.of(layers, bias=biases)
    result = check(network, inputs, exact(layers, biases, 32, inputs), kind=kind)
    assert len(result.record.live) == 6
    assert (
        result.record.executed_edges
        == sum(
            group.images * sum(layer.count_nonzero() for layer in layers[group.first : group.first + group.layers])
            for group in result.record.groups
        )
        or result.record.kind == "structured"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_biases_of_their_own_bring_the_dead_back(kind):
    seed = fresh_seed()
    layers = random_layers((12, 12, 9, 12), seed)
    biases = [np.random.default_rng(seed + n).normal(size=layer.shape[0]).astype(np.float32) for n, layer in
              enumerate(layers)]  # fmt: skip
    inputs = random_images(12, 40, seed)
    inputs[:, :3] = 0
    network = SparseNetwork.of(layers, bias=biases, cap=float("inf"))
    assert network.settled_from > 0
    check(network, inputs, exact(layers, biases, np.inf, inputs), kind=kind)


FORMS = {
    "csr": lambda m: m,
    "coo with an element twice": lambda m: coo_array(
        (np.repeat(m.data, 2) / 2, (np.repeat(m.tocoo().row, 2), np.repeat(m.tocoo().col, 2))), shape=m.shape
    ),
    "dense": lambda m: m.toarray(),
    "torch dense": lambda m: torch.from_numpy(m.toarray()),
    "torch csr": lambda m: torch.from_numpy(m.toarray()).to_sparse_csr(),
    "torch coo": lambda m: torch.from_numpy(m.toarray()).to_sparse(),
    "csr arrays": lambda m: (m.indptr, m.indices, m.data),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_come_in_many_forms(form):
    seed = fresh_seed()
    layers = random_layers((9, 14, 14, 5), seed)
    inputs = random_images(9, 20, seed)
    network = SparseNetwork.of([FORMS[form](layer) for layer in layers], bias=-0.02, inputs=9)
    assert network.sizes == (9, 14, 14, 5)
    check(network, inputs, exact(layers, [np.float32(-0.02)] * 3, 32, inputs), kind="general")
    check(network, torch.from_numpy(inputs), exact(layers, [np.float32(-0.02)] * 3, 32, inputs), kind="general")


def test_ell_arrays_are_padded_with_zeros():
    column, weight = np.array([[2, 0], [1, 0]]), np.array([[0.5, 0.25], [2.0, 0.0]])
    images = np.array([[4.0], [1.0], [2.0]], np.float32)
    result = SparseNetwork.of([(column, weight)], bias=-1.0, inputs=3).infer(images, kind="general")
    assert result.features.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_without_connections_kills_or_gives_its_bias(kind):
    layers = [csr_array(np.eye(4)), csr_array((4, 4)), csr_array(np.eye(4))]
    images = np.ones((4, 6), np.float32)
    assert SparseNetwork.of(layers, bias=0.0).infer(images, kind=kind).survivors.size == 0
    result = SparseNetwork.of(layers, bias=[0, 0.5, 0]).infer(images, kind=kind)
    assert result.features.tolist() == [[0.5] * 6] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_images_that_are_all_dead(kind):
    network = SparseNetwork.of(random_layers((8, 8, 8, 8), fresh_seed()), bias=-0.5)
    result = network.infer(np.zeros((8, 30), np.float32), kind=kind)
    assert result.survivors.size == 0
    assert result.features.shape == (8, 0)


@pytest.mark.parametrize("rows", [[0.5, float("nan")], [float("inf"), 1.0], [1e39, 1.0]])
def test_weights_that_are_no_numbers_are_refused(rows):
    with pytest.raises(ArgumentError, match=r"layer 1: the weight from input \d to output 0 is (nan|inf)"):
        SparseNetwork.of([np.eye(2), np.array([rows])])


WRONG = {
    "index out of range": ([(np.array([0, 1]), np.array([7]), np.array([1.0]))], {"inputs": 7}, "layer 0: index 7"),
    "a negative index": ([(np.array([[-1]]), np.array([[1.0]]))], {"inputs": 7}, "layer 0: index -1"),
    "starts that fall": ([(np.array([0, 2, 1]), np.array([0]), np.array([1.0]))], {"inputs": 7}, "start does not say"),
    "sizes that do not follow": ([np.eye(3), np.eye(4)], {}, "layer 1: the matrix has 4 columns, expected 3"),
    "no inputs said": ([(np.array([[0]]), np.array([[1.0]]))], {}, "with `inputs` said"),
    "no layers": ([], {}, "at least one layer"),
    "too few biases": ([np.eye(2)] * 2, {"bias": [0]}, "bias has 1 entries, expected one for each of 2"),
    "a bias of another size": ([np.eye(2)], {"bias": [np.zeros(3)]}, "layer 0: bias has shape"),
    "a bias that is no number": ([np.eye(2)], {"bias": [float("nan")]}, "layer 0: the bias nan is not finite"),
    "no cap": ([np.eye(2)], {"cap": 0}, "cap is 0"),
    "words": ([np.array([["a"]])], {}, "layer 0: .*expected a matrix of numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_network_is_refused(name):
    layers, options, message = WRONG[name]
    with pytest.raises(ArgumentError, match=message):
        SparseNetwork.of(layers, **options)


def test_what_cannot_be_run_is_refused():
    network = SparseNetwork.of([np.eye(3)])
    for images in (np.zeros((4, 2)), np.zeros(3), np.array([["a"] * 2] * 3)):
        with pytest.raises(ArgumentError, match=r"expected numbers, 3 \(inputs\) × images"):
            network.infer(images)
    with pytest.raises(OptionError, match="kind is 'fast', expected one of auto, general, structured, saturating"):
        network.infer(np.zeros((3, 1)), kind="fast")
    for devices in ([], "cpu", ["tpu"], ["cpu:cores=0"], ["cpu:cores=9999"], ["cpu", "cpu:cores=1"]):
        with pytest.raises(OptionError, match="devices"):
            network.infer(np.zeros((3, 1)), devices=devices)


def test_a_network_is_loaded_as_it_was_saved(tmp_path):
    layers = random_layers((6, 9, 9, 4), fresh_seed())
    saved = SparseNetwork.of(layers, bias=[np.arange(9) / -9, 0.5, np.zeros(4)], cap=3.5)
    saved.save(tmp_path / "network.npz")
    loaded = SparseNetwork.load(tmp_path / "network.npz")
    assert (loaded.sizes, loaded.cap, loaded.settled_from) == (saved.sizes, saved.cap, 2)
    for layer in range(3):
        one, other = saved.read(layer, layer + 1), loaded.read(layer, layer + 1)
        for name in ("column", "weight", "bias", "nonzeros"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column": np.full(4, 9, np.int32)}, "layer 0: index 9 is out of range"),
        ({"weight": np.full(4, np.nan, np.float32)}, "layer 0: the weight .* is nan"),
        ({"sizes": np.array([4])}, "describe no network"),
        ({"sizes": np.array([4, 5])}, "lengths do not go with"),
        ({"start": np.array([0, 1, 2, 3, 2])}, "the layers have 2 connections, the file 4"),
        ({"start": np.array([0, 1, 2, 3, -5])}, "the layers have 0 connections"),
        ({"cap": np.array([np.nan])}, "cap is nan"),
        ({"bias": np.zeros(4, object)}, "array `bias` holds object"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, changes, message):
    arrays = {"sizes": np.array([4, 4]), "cap": np.array([32.0]), "start": np.arange(5), "column": np.arange(4, dtype=np.int32), "weight": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}  # fmt: skip  # noqa: E501
    np.savez(tmp_path / "x.npz", **(arrays | changes))
    with pytest.raises(FileError, match=message) as caught:
        SparseNetwork.load(tmp_path / "x.npz")
    assert "x.npz" in str(caught.value)


def copied(seed):
    """A network whose outputs come in copies, more of them only once those before were merged."""
    random = np.random.default_rng(seed)
    first = np.repeat(random.random((4, 10)) * (random.random((4, 10)) < 0.6), 3, axis=0)
    second = np.zeros((12, 12))
    second[0, 0], second[1, 1], second[2, [0, 2]] = 0.5, 0.5, (0.25, 0.25)  # three ways to say the same
    second[3:, 3:] = random.random((9, 9)) * (random.random((9, 9)) < 0.5)
    third = random.random((5, 12))
    return [csr_array(layer) for layer in (first, second, third)]


def test_equal_outputs_are_found_in_any_weights():
    seed = fresh_seed()
    layers = copied(seed)
    network = SparseNetwork.of(layers, bias=-0.125)
    merged = merge_equal(network)
    assert merged.distinct[0] == 4
    assert merged.distinct[1] <= 10
    assert merged.connections < merged.connections_before == sum(layer.count_nonzero() for layer in layers)
    inputs = random_images(10, 50, seed)
    result = check(network, inputs, exact(layers, [-0.125] * 3, 32, inputs), kind="structured")
    assert result.record.kind == "structured"
    assert str(merged.connections) in result.record.findings[0]


def test_outputs_with_biases_of_their_own_are_not_merged():
    network = SparseNetwork.of([np.ones((3, 2))], bias=[np.array([-0.5, -0.25, -0.5])])
    assert merge_equal(network).distinct == (2,)
    assert network.infer(np.ones((2, 1)), kind="structured").features.ravel().tolist() == [1.5, 1.75, 1.5]


def test_where_nothing_is_found_it_is_general():
    """Weights are so small that no output stays at the cap."""
    layers = [0.01 * layer for layer in random_layers((20, 20, 20), fresh_seed())]
    network = SparseNetwork.of(layers, bias=-0.1, cap=1e6)
    for kind in KINDS:
        assert network.infer(np.ones((20, 3)), kind=kind).record.kind == "general"


def test_the_challenges_network_has_all_classes():
    network = radix_network(1024, 40)
    images = (np.random.default_rng(5).random((1024, 300)) < np.linspace(0.05, 0.6, 300)).astype(np.float32)
    results = {kind: network.infer(images, kind=kind) for kind in KINDS}
    general = results["general"]
    assert 0 < general.survivors.size < 300
    for kind, result in results.items():
        np.testing.assert_array_equal(result.survivors, general.survivors)
        np.testing.assert_allclose(result.features, general.features, atol=1e-4)
        assert result.record.kind == ("structured" if kind == "auto" else kind)
    assert results["structured"].record.executed_edges < general.record.executed_edges / 8
    assert results["saturating"].record.live[-1] == 0
    assert general.record.live[-1] >= general.survivors.size


def test_fixed_points_are_proved_not_assumed():
    ring = np.eye(4) + np.roll(np.eye(4), 1, axis=1)
    proved = find_fixed_points(SparseNetwork.of([ring] * 5, bias=-0.5))
    assert proved is not None
    assert proved.first == 0
    just = SparseNetwork.of([np.eye(4)] * 5, bias=-0.001)  # a cap that leaks is none
    assert find_fixed_points(just) is None
    late = find_fixed_points(SparseNetwork.of([np.eye(4), *[ring] * 4], bias=[-0.5] * 5))
    assert late is not None
    assert late.first == 1
    assert find_fixed_points(SparseNetwork.of([ring] * 5, cap=float("inf"))) is None


def test_a_fixed_point_may_have_features_that_are_0():
    layer = np.array([[2.0, 0, 0], [0, 0, 0], [1, 0, 1]])
    network = SparseNetwork.of([layer] * 30, bias=-0.25)
    found = find_fixed_points(network)
    assert found is not None
    assert found.state(30).tolist() == [32, 0, 32]
    images = np.array([[1.0, 0, 0.2], [5, 5, 0], [1, 1, 0]], np.float32)
    result = check(network, images, exact([csr_array(layer)] * 30, [-0.25] * 30, 32, images), kind="saturating")
    assert result.record.kind == "saturating"
    assert result.record.live[-1] < result.survivors.size


@pytest.mark.slow
def test_slices_of_the_cpu_share_the_images(monkeypatch):
    from vkernels.sparse_network import devices

    monkeypatch.setattr(devices, "usable_cores", lambda: 3)
    seed = fresh_seed()
    layers = random_layers(RECTANGULAR, seed)
    inputs = random_images(20, 203, seed)
    network = SparseNetwork.of(layers, bias=-0.01)
    expected = exact(layers, [np.float32(-0.01)] * len(layers), 32, inputs)
    slices = ["cpu:cores=1", "cpu:cores=2"]
    result = check(network, inputs, expected, devices=slices)
    assert [share.device for share in result.record.shares] == slices
    assert sum(share.images for share in result.record.shares) == 203
    assert all(share.images > 0 for share in result.record.shares)
    for few in (0, 1, 2):
        check(network, inputs[:, :few], expected[:, :few], devices=slices)


def test_images_are_divided_by_speed():
    from vkernels.sparse_network.devices import cut

    parts = cut(np.arange(100), [3.0, 1.0])
    assert [part.size for part in parts] == [75, 25]
    assert np.concatenate(parts).tolist() == list(range(100))


def test_what_was_found_out_is_kept():
    network = radix_network(1024, 3)
    first, again = (network.infer(np.ones((1024, 2))).record for _ in range(2))
    assert first.preprocessing > 0
    assert again.preprocessing == 0
    assert isinstance(first.groups[0], LayerGroup)
