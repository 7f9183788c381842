"""Activations, written in terms of the other operations."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Tile
from .elementwise import erf, exp, maximum, tanh

_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654


@operation
def sigmoid(x: Any) -> Tile:
    """1 / (1 + exp(-x))."""
    value = current().tile(x)
    return 1.0 / (1.0 + exp(-value))  # type: ignore[no-any-return]


@operation
def relu(x: Any) -> Tile:
    """max(x, 0); NaN stays NaN."""
    return maximum(x, 0)


@operation
def silu(x: Any) -> Tile:
    """x * sigmoid(x)."""
    value = current().tile(x)
    return value * sigmoid(value)  # type: ignore[no-any-return]


@operation
def gelu(x: Any, approximate: str = "none") -> Tile:
    """x times the normal distribution function of x: exact, with `erf`; with `approximate="tanh"`, by tanh."""
    value = current().tile(x)
    if approximate == "tanh":
        return 0.5 * value * (1.0 + tanh(_SQRT_2_OVER_PI * (value + 0.044715 * value * value * value)))  # type: ignore[no-any-return]
    return 0.5 * value * (1.0 + erf(value * _SQRT_HALF))  # type: ignore[no-any-return]
