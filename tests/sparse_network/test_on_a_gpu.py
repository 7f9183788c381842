"""A sparse network finds the same on a real GPU as on the CPU, in every class of execution."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.network import SparseNetwork

from ..library.reference import fresh_seed
from .test_blocks import network_of
from .test_network import KINDS, random_images


@pytest.mark.parametrize("devices", [["cuda:0"], ["cuda:0", "cpu:cores=1"]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_has_all_classes_of_the_challenges_network(kind: str, devices: list[str]) -> None:
    network = radix_network(1024, 40)
    images = (np.random.default_rng(5).random((1024, 300)) < np.linspace(0.05, 0.6, 300)).astype(np.float32)
    host, gpu = (network.infer(images, kind=kind, devices=each) for each in (["cpu"], devices))
    assert 0 < host.survivors.size < 300
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, atol=1e-4)


def test_a_gpu_runs_blocks() -> None:
    seed = fresh_seed()
    network = SparseNetwork.of(network_of((30, 64, 64, 24, 24, 56), 8, 20, seed), bias=-0.02, cap=np.inf)
    images = random_images(30, 50, seed)
    host, gpu = (network.infer(images, kind="structured", devices=[device]) for device in ("cpu", "cuda:0"))
    assert gpu.record.kind == "structured"
    np.testing.assert_array_equal(gpu.survivors, host.survivors)
    np.testing.assert_allclose(gpu.features, host.features, rtol=1e-4, atol=1e-4)
