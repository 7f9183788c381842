"""Find fixed points of a network: images that reach one need no more layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .network_layers import Floats, Layers, NetworkLayers

EPSILON = 2.0**-24
"""The largest relative error of one rounding to float32."""


@dataclass(frozen=True)
class FixedPoints:
    """From the layer `first` on, features equal to `state` of one layer are equal to `state` of every later layer.

    `full[l - first]`: which inputs of layer l are at the cap; the others are 0. The state after the last layer is that
    of l = number of layers. Images without features are handled separately: see `settled_from` of the network.
    """

    first: int
    full: tuple[NDArray[np.bool_], ...]
    cap: float

    def state(self, layer: int) -> Floats:
        """The inputs of a layer for a finished image; `layer` is at least `first`."""
        return np.where(self.full[layer - self.first], np.float32(self.cap), np.float32(0))


def find_fixed_points(network: NetworkLayers) -> FixedPoints | None:
    """Prove from weights, biases and cap that a state maps to itself, layer by layer to the end; None without a proof.

    The state begins with all inputs at the cap. Each layer's outputs must certainly be at the cap or 0: beyond these by
    more than the error of float32 sums in any order. If an output is between them, nothing is proved up to that layer,
    and the output is assumed to be at the cap from there on.
    """
    if not np.isfinite(network.cap) or not network.layers:
        return None
    full = np.ones(network.inputs, np.bool_)
    states, first = [full], 0
    for number, layer in enumerate(network.each_layer()):
        full, proved = _propagate(layer, full, network.cap)
        if not proved:
            states, first = [], number + 1
        states.append(full)
    return FixedPoints(first, tuple(states), network.cap) if first < network.layers else None


def _propagate(layer: Layers, full: NDArray[np.bool_], cap: float) -> tuple[NDArray[np.bool_], bool]:
    """The outputs at the cap if these inputs are at the cap and others 0, and whether all outputs are certain."""
    column, bias = layer.column[0], layer.bias[0].astype(np.float64)
    weight = np.zeros((layer.outputs, 1))
    if layer.inputs and column.size:
        weight = np.where(full[column], layer.weight[0], 0).astype(np.float64)
    total = cap * weight.sum(axis=1) + bias
    terms = weight.shape[1] + 4
    slack = 2 * terms * EPSILON * (cap * np.abs(weight).sum(axis=1) + np.abs(bias) + cap)
    high, low = total >= cap + slack, total <= -slack
    without = ~(weight != 0).any(axis=1) & (bias <= 0)  # empty sums have no error
    low |= without
    return high | ~low, bool((high | low).all())
