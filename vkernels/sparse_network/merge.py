"""Merge outputs that are equal for every image, for any weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .from_matrices import LAUNCH, as_csr, of_layers, to_ell
from .network_layers import Floats, Indices, Layers, NetworkLayers

HASH_MULTIPLIER = 0x9E3779B97F4A7C15
"""An odd 64-bit number with evenly spread multiples, from the golden ratio."""

Copies = NDArray[np.int64]
"""The merged feature that each feature equals."""


@dataclass(frozen=True)
class Merged:
    """`network` has each distinct output once; output n of the original is its output `copies[n]`.

    Inputs are unchanged. Small layers are padded with unused outputs, so that one launch can run several. `distinct`:
    distinct outputs of each layer; `connections`, `connections_before`: of all layers together.
    """

    network: NetworkLayers
    copies: Copies
    distinct: tuple[int, ...]
    connections: int
    connections_before: int

    @property
    def has_copies(self) -> bool:
        """Whether outputs were merged."""
        return self.connections < self.connections_before


def merge_equal(network: NetworkLayers) -> Merged:
    """Merge outputs that have equal weights, inputs and biases, layer by layer.

    Weights of merged inputs are summed, so outputs can become equal by merging the layer before. Sums are in float64
    and rounded.
    """
    copies: Copies = np.arange(network.inputs)
    distinct, single, before = network.inputs, [], 0
    for layer in network.each_layer():
        before += int(layer.nonzeros[0])
        merged_layer, copies = _merge(layer, copies, distinct)
        distinct = merged_layer.outputs
        single.append(merged_layer)
    after = sum(int(layer.nonzeros.sum()) for layer in single)
    sizes = tuple(layer.outputs for layer in single)
    merged = of_layers([layer.narrow() for layer in _evened(single)], network.cap)
    return Merged(merged, copies, sizes, after, before)


def _evened(single: list[Layers]) -> list[Layers]:
    """Small layers, padded with outputs of 0 to the size of neighbouring layers."""
    result: list[Layers] = []
    for number, layer in enumerate(single):
        around = max(each.outputs for each in single[max(0, number - 2) : number + 3])
        more = around - layer.outputs
        more = more if around * layer.column.shape[2] <= LAUNCH and number < len(single) - 1 else 0
        column, weight = (np.pad(array, ((0, 0), (0, more), (0, 0))) for array in (layer.column, layer.weight))
        inputs = result[-1].outputs if result else layer.inputs
        result.append(Layers(column, weight, np.pad(layer.bias, ((0, 0), (0, more))), layer.nonzeros, inputs))
    return result


def _merge(layer: Layers, copies: Copies, inputs: int) -> tuple[Layers, Copies]:
    """A layer on merged inputs with each distinct output once, and the distinct output for each output."""
    column, weight, bias = layer.column[0].astype(np.int32), layer.weight[0], np.asarray(layer.bias[0], np.float32)
    rows, copy = distinct_rows(column, weight, bias)
    if inputs < layer.inputs:
        chosen = Layers(column[rows][None], weight[rows][None], bias[rows][None], layer.nonzeros, layer.inputs)
        column, weight = _add_up(chosen, copies, inputs)
        bias = bias[rows]
        again, copy_again = distinct_rows(column, weight, bias)
        rows, copy = again, copy_again[copy]
    column, weight = column[rows], weight[rows]
    return Layers(column[None], weight[None], bias[rows][None], np.array([np.count_nonzero(weight)]), inputs), copy


def _add_up(layer: Layers, copies: Copies, inputs: int) -> tuple[Indices, Floats]:
    """Each output's weights of inputs that have become one added up, in f64."""
    start, column, weight = as_csr(layer)
    keys = np.repeat(np.arange(layer.outputs), np.diff(start)) * inputs + copies[column]
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    keys, sums = keys[order][first], weight.astype(np.float64)[order]
    if first.size:
        sums = np.add.reduceat(sums, first)
    ends = np.cumsum(np.bincount(keys // inputs, minlength=layer.outputs))
    return to_ell((np.concatenate([[0], ends]), keys % inputs, sums.astype(np.float32)))


def distinct_rows(column: Indices, weight: Floats, bias: Floats) -> tuple[NDArray[np.int64], Copies]:
    """The first of each set of equal rows, ascending, and the set of each row."""
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    bits = weight.view(np.uint32).astype(np.uint64) << np.uint64(32) | column.astype(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) * np.uint64(HASH_MULTIPLIER)
    keys = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1) + bias.view(np.uint32)
    _, first, copy = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows, copy = first[order], np.argsort(order)[copy.ravel()]
    leader = rows[copy]
    if (column == column[leader]).all() and (weight == weight[leader]).all() and (bias == bias[leader]).all():
        return rows, copy
    alone = np.arange(len(column))  # two different rows with one key: rare; merging none is correct
    return alone, alone
