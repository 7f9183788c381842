"""Inference, the reference and the baselines find the same survivors, however the work is cut."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.ir.errors import OptionError
from vkernels.sparse_network import infer as inference
from vkernels.sparse_network.bench import reference
from vkernels.sparse_network.bench.baselines import prepare_baselines
from vkernels.sparse_network.bench.reference import ReferenceNetwork, run_reference
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.images import digits
from vkernels.sparse_network.infer import LayerGroup, infer
from vkernels.sparse_network.network import SparseNetwork

from .networks import numpy_layers, plain_live, random_inputs, random_network

NETWORKS = st.builds(
    random_network,
    neurons=st.integers(2, 12),
    layers=st.integers(1, 9),
    inputs=st.integers(1, 2),
    bias=st.sampled_from([-0.9, -0.3]),
    seed=st.integers(0, 2**32),
)


@pytest.mark.slow
@given(network=NETWORKS, images=st.integers(0, 40), seed=st.integers(0, 2**32), batch=st.integers(1, 50))
def test_the_reference_is_dense_float64(network, images, seed, batch):
    inputs = random_inputs(network.inputs, images, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "BATCH", batch)
        some = ReferenceNetwork(network, memory=2 * 8 * network.inputs * 2 * batch)
        truth = some.run(inputs, threads=2)
        again = some.run(inputs)
    assert again.survivors.tolist() == truth.survivors.tolist()
    alive = plain_live(network, inputs)
    assert truth.survivors.tolist() == alive[-1].tolist()
    assert truth.live.tolist() == [len(ids) for ids in alive[:-1]]
    nonzeros = np.count_nonzero(network.read(0, network.layers).weight, axis=(1, 2))
    assert truth.nonzeros.tolist() == nonzeros.tolist()
    assert truth.real_edges == sum(len(ids) * int(count) for ids, count in zip(alive, nonzeros, strict=False))


@given(
    network=NETWORKS,
    images=st.integers(0, 40),
    seed=st.integers(0, 2**32),
    groups=st.none() | st.lists(st.integers(1, 5), min_size=1, max_size=4),
    batch=st.none() | st.integers(1, 50),
)
def test_groups_and_batches_change_no_result(network, images, seed, groups, batch):
    inputs = random_inputs(network.inputs, images, seed)
    told = []
    result = infer(
        network,
        inputs,
        groups=groups,
        batch=batch,
        kernel=numpy_layers,
        progress=lambda layers, live: told.append((layers, live)),
    )
    alive = plain_live(network, inputs)[-1]
    assert result.survivors.tolist() == alive.tolist()
    everything = np.empty((network.inputs, images), np.float32)
    layers = network.read(0, network.layers)
    if images:
        peak = np.empty(images, np.float32)
        numpy_layers(inputs, layers.column, layers.weight, layers.bias, network.cap, everything, peak)
    np.testing.assert_array_equal(result.features, everything[:, alive])
    assert sum(layers for layers, _ in told) == pytest.approx(network.layers)
    assert sum(g.layers * g.images for g in result.groups) <= images * network.layers


def test_dead_images_are_dropped_between_groups():
    network = radix_network(1024, 12).in_memory()
    inputs = digits(1024)[:, :300]
    truth = run_reference(network, inputs)
    result = infer(network, inputs, groups=[1, 2, 3], kernel=numpy_layers)
    assert result.groups == tuple(
        LayerGroup(n, int(truth.live[first]), first) for n, first in ((1, 0), (2, 1), (3, 3), (3, 6), (3, 9))
    )
    assert result.executed_edges == 32768 * sum(group.layers * group.images for group in result.groups)
    assert truth.real_edges <= result.executed_edges < 32768 * 12 * 300


def test_groups_grow_where_nothing_dies_and_shrink_where_much_does():
    length = inference.group_length
    assert length(None, [], 100) == inference.FIRST_LAYERS
    assert length(None, [LayerGroup(1, 100, 0)], 100) == 2
    assert length(None, [LayerGroup(8, 100, 0)], 100) == 16
    assert length(None, [LayerGroup(64, 100, 0)], 100) == inference.MAX_LAYERS_A_LAUNCH
    assert length(None, [LayerGroup(8, 100, 0)], 1) < 8
    assert length(None, [LayerGroup(1, 100, 0)], 1) == 1
    assert 1 <= length(None, [LayerGroup(8, 100, 0)], 60) < 8
    assert [length([2, 5], [LayerGroup(1, 1, 0)] * count, 1) for count in range(4)] == [2, 5, 5, 5]


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"groups": []}, {"groups": [3, 0]}, {"threads": 0}])
def test_no_work_at_a_time_is_refused(wrong):
    network = random_network(4, 2, 2, -0.3, 0)
    with pytest.raises(OptionError):
        infer(network, random_inputs(4, 5, 0), kernel=numpy_layers, **wrong)


@given(network=NETWORKS, images=st.integers(0, 40), seed=st.integers(0, 2**32))
@settings(max_examples=50)
def test_baselines_find_the_survivors(network, images, seed):
    inputs = random_inputs(network.inputs, images, seed)
    survivors = plain_live(network, inputs)[-1].tolist()
    for name, run in prepare_baselines(network, inputs, threads=2).items():
        assert run().tolist() == survivors, name
        assert run().tolist() == survivors, f"{name}, again"


def test_baselines_find_the_survivors_of_many_batches():
    network = radix_network(1024, 20).in_memory()
    inputs = digits(1024)
    survivors = run_reference(network, inputs, threads=2).survivors
    assert 0 < len(survivors) < 1797
    for name, run in prepare_baselines(network, inputs, threads=1).items():
        np.testing.assert_array_equal(run(), survivors, name)


@pytest.mark.slow
def test_the_kernel_finds_the_survivors_of_the_challenge():
    network = radix_network(1024, 30).in_memory()
    inputs = digits(1024)
    truth = run_reference(network, inputs, threads=2)
    for threads in (1, 2):
        result = infer(network, inputs, threads=threads)
        np.testing.assert_array_equal(result.survivors, truth.survivors)
        assert np.isfinite(result.features).all()
        assert (result.features.max(axis=0) > 0).all()


@pytest.mark.slow
@given(network=NETWORKS, images=st.integers(1, 40), seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_the_kernel_takes_any_network(network, images, seed):
    inputs = random_inputs(network.inputs, images, seed)
    assert infer(network, inputs).survivors.tolist() == plain_live(network, inputs)[-1].tolist()


def test_a_network_that_is_not_held_is_read_once_and_a_few_layers_at_a_time(monkeypatch):
    network, read = random_network(16, 40, 4, 0.0, 3), []
    counted = replace(network, read=lambda first, last: (read.append((first, last)), network.read(first, last))[1])
    monkeypatch.setattr(inference, "GROUP_BYTES", 5 * network.read(0, 1).nbytes)
    monkeypatch.setattr(inference, "BATCH_BYTES", 16 * 4 * 10)
    inputs = random_inputs(16, 200, 3)
    streamed = infer(counted, inputs, kernel=numpy_layers)
    assert [first for first, _ in read] == [0, *(last for _, last in read[:-1])]
    assert max(last - first for first, last in read) == 5
    held = infer(network.in_memory(), inputs, kernel=numpy_layers)
    np.testing.assert_array_equal(streamed.survivors, held.survivors)
    np.testing.assert_allclose(streamed.features, held.features, rtol=1e-6)


def test_a_batch_that_has_few_early_and_loses_none_after_is_not_overwritten_by_the_next():
    network = SparseNetwork.of([np.eye(1)] * 12, bias=-1.0)
    values = [*[5.0] * 39, 30, *[2.0] * 39, 31, *[2.0] * 39, 29]  # each image dies after as many layers
    result = infer(network, np.array([values], np.float32), groups=[1], batch=40, kernel=numpy_layers)
    assert result.survivors.tolist() == [39, 79, 119]
    assert result.features.tolist() == [[18, 19, 17]]
