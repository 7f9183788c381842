"""Classifiers with pruned weights: layers with max(0, ·) between them, but not after the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import ArgumentError

from .from_matrices import as_rows
from .network import SparseNetwork
from .network_layers import Floats

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SparseClassifier:
    """`network` has each class twice, the second time negated: the difference undoes max(0, ·)."""

    network: SparseNetwork

    @staticmethod
    def of(layers: Sequence[Any], biases: Sequence[Any]) -> SparseClassifier:
        """A classifier from weights, matrices outputs × inputs as for `SparseNetwork.of`, and biases."""
        if not layers:
            raise ArgumentError("layers is empty, expected at least one layer")
        last, bias = as_rows(layers[-1], "the last layer"), biases[-1]
        bias = np.asarray(bias.detach().cpu().numpy() if hasattr(bias, "detach") else bias, np.float32)
        from scipy.sparse import vstack

        both = [*layers[:-1], vstack([last, -last]).tocsr()]
        signs = [*biases[:-1], np.concatenate([bias, -bias])]
        return SparseClassifier(SparseNetwork.of(both, signs, cap=float("inf")))

    @staticmethod
    def of_torch(model: Any) -> SparseClassifier:
        """A classifier from a torch `Sequential` of `Linear` with `ReLU` between them; weights of 0 are omitted."""
        import torch

        linear = [module for module in model if isinstance(module, torch.nn.Linear)]
        expected = [kind for module in linear for kind in (type(module), torch.nn.ReLU)][:-1]
        if [type(module) for module in model] != expected or any(module.bias is None for module in linear):
            raise ArgumentError("the model: expected Linear layers with biases, and ReLU between them")
        return SparseClassifier.of([module.weight for module in linear], [module.bias for module in linear])

    def scores(self, inputs: Any, **options: Any) -> Floats:
        """Scores of each class for each column of inputs: classes × images. `options`: as for `SparseNetwork.infer`."""
        result = self.network.infer(inputs, **{"kind": "general"} | options)
        classes = self.network.outputs // 2
        scores = np.zeros((classes, inputs.shape[1]), np.float32)
        scores[:, result.survivors] = result.features[:classes] - result.features[classes:]
        return scores

    def classify(self, inputs: Any, **options: Any) -> NDArray[np.int64]:
        """The class with the highest score, for each column of inputs."""
        classes: NDArray[np.int64] = self.scores(inputs, **options).argmax(axis=0)
        return classes


def largest(weights: Floats, zeros: float) -> Mask:
    """A mask of the weights that remain when a share `zeros`, the smallest in magnitude, is pruned."""
    keep = weights.size - round(zeros * weights.size)
    mask = np.zeros(weights.size, np.bool_)
    mask[np.argsort(-np.abs(weights).ravel(), kind="stable")[:keep]] = True
    return mask.reshape(weights.shape)


def largest_of_each(weights: Floats, kept: int, group: int) -> Mask:
    """A mask of the `kept` weights of largest magnitude among every `group` neighbours of a row (N:M).

    If a row's length is no multiple of `group`, its last group is shorter.
    """
    outputs, inputs = weights.shape
    groups = -(-inputs // group)
    magnitude = np.full((outputs, groups * group), -1.0)
    magnitude[:, :inputs] = np.abs(weights)
    parts = magnitude.reshape(outputs, groups, group)
    places = np.argsort(-parts, axis=2, kind="stable")[:, :, :kept]
    mask = np.zeros(parts.shape, np.bool_)
    np.put_along_axis(mask, places, True, axis=2)
    return mask.reshape(outputs, -1)[:, :inputs]
