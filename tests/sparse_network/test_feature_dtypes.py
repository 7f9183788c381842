"""Features held in 16 bits: the same images survive, and where not it is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vkernels.ir.errors import OptionError
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.images import ImageSource, pixels_of
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.run_layers import as_floats, for_kernels, holds, stored

from ..library.reference import fresh_seed
from .test_network import KINDS, random_images, random_layers

NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def rounded(values, storage):
    """What is left of numbers after they were stored, by torch."""
    return torch.from_numpy(np.asarray(values, np.float64)).to(torch.float32).to(NARROW[storage]).double().numpy()


@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", NARROW)
@pytest.mark.parametrize("images", [0, 1, 70])
def test_each_feature_is_rounded_and_no_sum(storage, images):
    seed = fresh_seed()
    sizes = (20, 31, 31, 31, 7, 15)
    layers = random_layers(sizes, seed)
    inputs = random_images(20, images, seed)
    network = SparseNetwork.of(layers, bias=0.0)
    result = network.infer(inputs, kind="general", storage=storage)
    values = inputs.astype(np.float64)
    for number, layer in enumerate(layers):
        values = rounded(values, storage) if number else values
        values = np.clip(layer.toarray().astype(np.float32).astype(np.float64) @ values, 0, 32)
    expected = rounded(values, storage)[:, result.survivors]
    scale = 2.0**-10 if storage == "float16" else 2.0**-7
    np.testing.assert_allclose(result.features, expected, rtol=8 * scale, atol=8 * scale)
    np.testing.assert_array_equal(rounded(result.features, storage), result.features)
    assert result.record.storage == storage


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_the_challenges_categories_are_those_of_float32(kind):
    network, images = radix_network(1024, 24), ImageSource(pixels_of("digits"), 1024).spread(300).part(0, 300)
    result = network.infer(images, kind=kind, storage="float16", check=True)
    assert result.record.same_as_float32
    assert 0 < result.survivors.size < 300
    coarse = network.infer(images, kind=kind, storage="bfloat16", check=True)  # eight bits may well let others live
    plain = network.infer(images, kind=kind)
    assert coarse.record.same_as_float32 is np.array_equal(coarse.survivors, plain.survivors)


@pytest.mark.parametrize("storage", NARROW)
def test_categories_that_differ_are_told(storage):
    tiny = SparseNetwork.of([[[1e-30]], [[1e-30]], [[1.0]]], bias=0.0)
    images = np.array([[1e8, 0.0]], np.float32)
    assert tiny.infer(images).survivors.size == 0  # too small for float32 too
    small = SparseNetwork.of([[[2.0**-6]]] * 6, bias=0.0)
    result = small.infer(np.ones((1, 3), np.float32), kind="general", storage=storage, check=True)
    assert result.record.same_as_float32 is (storage == "bfloat16")
    assert result.survivors.size == (3 if storage == "bfloat16" else 0)


def test_it_is_asked_for():
    network = SparseNetwork.of([np.eye(3)])
    assert network.infer(np.ones((3, 2))).record.same_as_float32 is None
    assert network.infer(np.ones((3, 2)), check=True).record.same_as_float32 is True
    with pytest.raises(OptionError, match="storage is 'int8', expected one of float32, float16, bfloat16"):
        network.infer(np.ones((3, 1)), storage="int8")
    wide = SparseNetwork.of([np.eye(3)], cap=float("inf"))
    with pytest.raises(OptionError, match="float16 holds no features up to the cap inf; bfloat16 does"):
        wide.infer(np.ones((3, 1)), storage="float16")
    assert wide.infer(np.ones((3, 1)), storage="bfloat16").survivors.tolist() == [0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", NARROW)
def test_a_cap_that_is_rounded_proves_nothing(storage):
    ring = np.eye(4) + np.roll(np.eye(4), 1, axis=1)
    exact, inexact = (SparseNetwork.of([ring] * 5, bias=-0.125, cap=cap) for cap in (32.0, 3.3))
    images = np.ones((4, 3), np.float32)
    assert exact.infer(images, kind="saturating", storage=storage).record.kind == "saturating"
    assert inexact.infer(images, kind="saturating").record.kind == "saturating"
    assert inexact.infer(images, kind="saturating", storage=storage).record.kind == "general"


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", NARROW)
def test_devices_side_by_side_hold_them_too(storage, monkeypatch):
    from vkernels.sparse_network import devices

    monkeypatch.setattr(devices, "usable_cores", lambda: 2)
    network = SparseNetwork.of(random_layers((8, 12, 12, 5), fresh_seed()), bias=-0.01)
    images = random_images(8, 40, fresh_seed())
    slices = network.infer(images, kind="general", storage=storage, devices=["cpu:cores=1"] * 2)
    alone = network.infer(images, kind="general", storage=storage)
    np.testing.assert_array_equal(slices.survivors, alone.survivors)
    np.testing.assert_allclose(slices.features, alone.features, rtol=2.0**-7)


@pytest.mark.parametrize("storage", NARROW)
def test_what_is_stored_comes_back_as_torch_rounds_it(storage):
    values = np.random.default_rng(fresh_seed()).normal(size=(7, 9)).astype(np.float32)
    held = stored(values, np.uint16 if storage == "bfloat16" else np.float16)
    np.testing.assert_array_equal(as_floats(held), rounded(values, storage))
    assert torch.as_tensor(for_kernels(held)).dtype == NARROW[storage]
    assert holds(storage, 32.0)
    assert not holds(storage, 3.3)
