"""Pruned classifiers give dense torch's scores, and pruning takes what it says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from vkernels.ir.errors import ArgumentError
from vkernels.sparse_network.sparse_classifier import SparseClassifier, largest, largest_of_each

from ..library.reference import fresh_seed


def network(sizes, seed, zeros=0.8):
    """Linear layers with ReLU between them, most weights 0."""
    torch.manual_seed(seed % 2**31)
    modules = []
    for inputs, outputs in pairwise(sizes):
        linear = nn.Linear(inputs, outputs)
        mask = largest(linear.weight.detach().numpy(), zeros)
        linear.weight.data *= torch.from_numpy(mask)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("sizes", [(30, 40, 40, 40, 7), (12, 5), (9, 30, 3, 2)])
@pytest.mark.parametrize("images", [0, 1, 65])
def test_scores_are_those_of_dense_torch(sizes, images):
    seed = fresh_seed()
    model = network(sizes, seed)
    inputs = torch.from_numpy(np.random.default_rng(seed).normal(size=(images, sizes[0])).astype(np.float32))
    expected = model.double()(inputs.double()).detach().numpy().T
    scores = SparseClassifier.of_torch(model.float()).scores(inputs.numpy().T.copy())
    assert scores.shape == (sizes[-1], images)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_scores_below_0_are_not_lost():
    classifier = SparseClassifier.of([np.eye(2)], [np.array([-5.0, -7.0])])
    inputs = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
    assert classifier.scores(inputs).tolist() == [[-4, -5], [-6, -7]]
    assert classifier.classify(inputs).tolist() == [0, 0]


def test_an_image_that_is_dead_before_the_end_has_the_last_biases():
    layers, biases = [np.eye(2), np.eye(2)], [np.array([-1.0, -1.0]), np.array([0.25, 0.5])]
    scores = SparseClassifier.of(layers, biases).scores(np.zeros((2, 3), np.float32))
    assert scores.tolist() == [[0.25] * 3, [0.5] * 3]
    none = SparseClassifier.of(layers, [biases[0], np.zeros(2)]).scores(np.zeros((2, 3), np.float32))
    assert none.tolist() == [[0] * 3, [0] * 3]


@pytest.mark.parametrize("kind", ["general", "structured", "auto"])
def test_every_class_of_execution_will_do(kind):
    seed = fresh_seed()
    model = network((16, 20, 20, 4), seed)
    inputs = np.random.default_rng(seed).random((16, 30)).astype(np.float32)
    expected = model(torch.from_numpy(inputs.T)).detach().numpy().T
    scores = SparseClassifier.of_torch(model).scores(inputs, kind=kind)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_other_models_are_refused():
    for model in (
        nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(3, 3, bias=False)),
    ):
        with pytest.raises(ArgumentError, match="expected Linear layers with biases, and ReLU between them"):
            SparseClassifier.of_torch(model)
    with pytest.raises(ArgumentError, match="at least one layer"):
        SparseClassifier.of([], [])


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9, 0.99, 1.0])
def test_the_smallest_weights_go(zeros):
    weights = np.random.default_rng(fresh_seed()).normal(size=(20, 30)).astype(np.float32)
    mask = largest(weights, zeros)
    assert mask.sum() == 600 - round(600 * zeros)
    assert np.abs(weights[mask]).min(initial=np.inf) >= np.abs(weights[~mask]).max(initial=0)


@pytest.mark.parametrize(("kept", "group"), [(1, 10), (2, 4), (1, 7), (3, 100)])
def test_of_every_group_the_largest_stay(kept, group):
    weights = np.random.default_rng(fresh_seed()).normal(size=(6, 23)).astype(np.float32)
    weights[0] = 0  # ties are no trouble
    mask = largest_of_each(weights, kept, group)
    for start in range(0, 23, group):
        part, stays = np.abs(weights[:, start : start + group]), mask[:, start : start + group]
        assert (stays.sum(axis=1) == min(kept, part.shape[1])).all()
        assert (np.where(stays, part, np.inf).min(axis=1) >= np.where(stays, 0, part).max(axis=1)).all()
