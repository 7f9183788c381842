"""GPUs as devices of sparse networks, with torch's tensors on the host in their place: the same code, another name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vkernels.ir.errors import OptionError, SetupError
from vkernels.sparse_network import devices, gpu_inference
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.network import SparseNetwork

from ..library.reference import fresh_seed
from .test_blocks import network_of
from .test_network import KINDS, RECTANGULAR, check, exact, random_images, random_layers


@pytest.fixture
def as_if_there(monkeypatch):
    """Every GPU that is asked for is here; its memory is the host's, each under a name of its own."""
    monkeypatch.setattr(devices, "torch_device", lambda vendor, number: f"cpu:{number}")
    monkeypatch.setattr(devices, "usable_cores", lambda: 2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("images", [0, 1, 90])
def test_a_gpu_computes_what_the_reference_does(as_if_there, kind, images):
    seed = fresh_seed()
    layers = random_layers(RECTANGULAR, seed)
    biases = [np.float32(-0.01)] * len(layers)
    inputs = random_images(20, images, seed)
    network = SparseNetwork.of(layers, bias=biases)
    result = check(network, inputs, exact(layers, biases, 32, inputs), kind=kind, devices=["cuda:0"])
    (share,) = result.record.shares
    assert (share.device, share.images) == ("cuda:0", images)
    assert share.transfer <= result.record.transfer
    assert result.record.kind == network.infer(inputs, kind=kind).record.kind


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_has_all_classes_of_the_challenges_network(as_if_there, kind):
    network = radix_network(1024, 40)
    images = (np.random.default_rng(5).random((1024, 120)) < np.linspace(0.05, 0.6, 120)).astype(np.float32)
    host, gpu = (network.infer(images, kind=kind, devices=[device]) for device in ("cpu", "nvidia:1"))
    assert 0 < host.survivors.size < 120
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, atol=1e-4)
    assert gpu.record.kind == host.record.kind
    assert gpu.record.live[0] == 120
    assert gpu.record.live[-1] < 120


def test_a_gpu_runs_blocks(as_if_there):
    seed = fresh_seed()
    weights = network_of((30, 64, 64, 24, 24, 56), 8, 20, seed)
    images = random_images(30, 50, seed)
    network = SparseNetwork.of(weights, bias=-0.02, cap=np.inf)
    host, gpu = (network.infer(images, devices=[device]) for device in ("cpu", "amd:0"))
    assert gpu.record.kind == "structured"
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, rtol=1e-5)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_a_gpu_holds_features_in_16_bits(as_if_there, storage):
    network = radix_network(1024, 12)
    images = (np.random.default_rng(5).random((1024, 40)) < 0.4).astype(np.float32)
    host, gpu = (network.infer(images, kind="general", storage=storage, devices=[each]) for each in ("cpu", "cuda:0"))
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("bias", [-0.5, 0.25])
def test_images_that_are_all_dead(as_if_there, bias):
    network = SparseNetwork.of(random_layers((8, 8, 6, 8), fresh_seed()), bias=bias)
    host, gpu = (network.infer(np.zeros((8, 30)), devices=[device]) for device in ("cpu", "cuda:0"))
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_layers_without_inputs_or_outputs(as_if_there, kind, device):
    layers = [np.zeros((0, 3)), np.zeros((4, 0))]
    result = SparseNetwork.of(layers, bias=[0.0, 0.5]).infer(np.ones((3, 2)), kind=kind, devices=[device])
    assert result.features.tolist() == [[0.5, 0.5]] * 4


@pytest.mark.slow
def test_several_devices_share_the_images(as_if_there):
    seed = fresh_seed()
    layers = random_layers(RECTANGULAR, seed)
    inputs = random_images(20, 203, seed)
    expected = exact(layers, [np.float32(-0.01)] * len(layers), 32, inputs)
    network = SparseNetwork.of(layers, bias=-0.01)
    named = ["cuda:0", "cpu:cores=1", "cuda:1"]
    result = check(network, inputs, expected, devices=named)
    assert [share.device for share in result.record.shares] == named
    assert sum(share.images for share in result.record.shares) == 203
    assert all(share.images > 0 for share in result.record.shares)
    assert result.record.live[0] == 203  # what was run to warm up does not count
    for few in (0, 1, 2):
        check(network, inputs[:, :few], expected[:, :few], devices=named)


def test_weights_are_brought_to_a_gpu_once(as_if_there, monkeypatch):
    network, brought = SparseNetwork.of(random_layers(RECTANGULAR, fresh_seed()), bias=0.5), []  # nobody dies
    bring = gpu_inference.Tensors.of
    monkeypatch.setattr(
        gpu_inference.Tensors, "of", lambda layers, device: (brought.append(device), bring(layers, device))[1]
    )
    for _ in range(2):
        network.infer(np.ones((20, 5)), kind="general", devices=["cuda:0"])
    assert brought == ["cpu:0"] * len(network.ends)


def test_a_network_that_is_not_held_is_read_some_layers_at_a_time(as_if_there, monkeypatch):
    network = radix_network(1024, 12)
    images = (np.random.default_rng(5).random((1024, 40)) < 0.4).astype(np.float32)
    held = network.infer(images, kind="general")
    streamed = SparseNetwork(network.sizes, network.read, network.cap, most_held=0)
    monkeypatch.setattr(gpu_inference, "GROUP_BYTES", 3 * 1024 * 32 * 6)
    result = streamed.infer(images, kind="general", devices=["cuda:0"])
    np.testing.assert_array_equal(result.survivors, held.survivors)
    np.testing.assert_allclose(result.features, held.features, atol=1e-4)
    assert max(group.layers for group in result.record.groups[1:]) <= 3


@pytest.mark.slow
def test_batches_that_fit_are_put_together(as_if_there, monkeypatch):
    monkeypatch.setattr(gpu_inference, "BATCH_BYTES", 3 * 4 * 31 * 25)
    seed = fresh_seed()
    layers = random_layers(RECTANGULAR, seed)
    inputs = random_images(20, 90, seed)
    result = check(
        SparseNetwork.of(layers, bias=-0.01), inputs, exact(layers, [np.float32(-0.01)] * 6, 32, inputs),
        devices=["cuda:0"], kind="general",
    )  # fmt: skip
    assert max(group.images for group in result.record.groups) == 25


def test_what_cannot_be_is_refused(as_if_there):
    network = SparseNetwork.of([np.eye(3)])
    for named, message in {
        ("cuda:0", "cuda:0"): "named twice", ("cuda:0", "nvidia:0"): "named twice",
        ("cuda", "cpu"): "must say its cores", ("cuda:x",): "nor a GPU", ("cuda:0:1",): "nor a GPU",
        ("cuda:-1",): "nor a GPU",
    }.items():  # fmt: skip
        with pytest.raises(OptionError, match=message):
            network.infer(np.zeros((3, 1)), devices=list(named))


@pytest.mark.parametrize(
    ("device", "count", "hip", "message"),
    [
        ("cuda:0", 0, None, r"cuda:0 is not here: torch \S+ sees no GPU"),
        ("nvidia:0", 0, None, "nvidia:0 is not here: .* sees no NVIDIA"),
        ("nvidia", 1, "6.4", "nvidia:0 is not here: .* sees no NVIDIA"),
        ("amd:0", 1, None, "amd:0 is not here: .* sees no AMD"),
        ("cuda:1", 1, None, "cuda:1 is not here: torch sees 1 GPU, counted from 0"),
        ("amd:7", 2, "6.4", "amd:7 is not here: torch sees 2 GPUs, counted from 0"),
    ],
)
def test_a_gpu_that_is_not_here_is_said(monkeypatch, device, count, hip, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.version, "hip", hip)
    with pytest.raises(SetupError, match=message):
        SparseNetwork.of([np.eye(3)]).infer(np.zeros((3, 1)), devices=[device])


def test_names_of_gpus_are_torchs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.version, "hip", None)
    found = devices.parse_devices(["cuda", "nvidia:2", "cpu:cores=1"])
    assert [(worker.device, worker.gpu, worker.threads) for worker in found] == [
        ("cuda", "cuda:0", None), ("nvidia:2", "cuda:2", None), ("cpu:cores=1", None, 1),
    ]  # fmt: skip
    assert devices.threads_of(["cuda", "cpu:cores=1"]) == 1
