"""Activations and their slopes, step by step as they are computed."""

from __future__ import annotations

import numpy as np

from ..drawing import Draw
from ..numbers import Number, choose, exp, normal_share, sigmoid, tanh

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")


def draw_activation(draw: Draw) -> str:
    return "none" if draw.chance(0.4) else str(draw.of(*ACTIVATIONS))


def constant(x: Number, value: float) -> Number:
    """A number of the source, rounded to the format that is computed in."""
    return Number(np.asarray(value), x.format, abs(value) * x.format.unit)


def activated(x: Number, activation: str | None) -> Number:
    if activation == "relu":
        return x.at_least(0.0)
    if activation == "gelu":
        return x * normal_share(x)
    if activation == "gelu_tanh":
        return constant(x, 0.5) * x * (1.0 + _bent(x))
    if activation == "silu":
        return x * sigmoid(x)
    if activation == "sigmoid":
        return sigmoid(x)
    if activation == "tanh":
        return tanh(x)
    return x


def slope(x: Number, activation: str | None) -> Number:
    """The derivative of an activation at x."""
    ones = Number(np.ones(x.shape), x.format, 0.0, x.loose)
    if activation == "relu":
        unsure = (np.abs(x.value) <= x.error) & (x.error > 0)
        steps = choose(x.value > 0, ones, choose(np.isnan(x.value), x, 0.0), unsure)
        return Number(steps.value, x.format, steps.error, steps.loose | x.loose)
    if activation == "gelu":
        return normal_share(x) + x * constant(x, 0.3989422804014327) * exp(constant(x, -0.5) * x * x)
    if activation == "gelu_tanh":
        bent = _bent(x)
        rise = constant(x, 0.7978845608028654) * (1.0 + constant(x, 0.134145) * x * x)
        return constant(x, 0.5) * (1.0 + bent) + constant(x, 0.5) * x * (1.0 - bent * bent) * rise
    if activation == "silu":
        share = sigmoid(x)
        return share * (1.0 + x * (1.0 - share))
    if activation == "sigmoid":
        share = sigmoid(x)
        return share * (1.0 - share)
    if activation == "tanh":
        bent = tanh(x)
        return 1.0 - bent * bent
    return 1.0 + 0.0 * x


def _bent(x: Number) -> Number:
    return tanh(constant(x, 0.7978845608028654) * (x + constant(x, 0.044715) * x * x * x))
