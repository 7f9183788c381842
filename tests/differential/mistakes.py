"""Values of options that every function that has the option must refuse with a `vk.Error`."""

from __future__ import annotations

import math
from typing import Any

BY_OPTION: dict[str, tuple[Any, ...]] = {
    "activation": ("swish", "RELU", ""),
    "betas": ((1.0, 0.999), (0.9, 1.0), (-0.1, 0.9), (0.9, math.nan)),
    "bins": (0, -1),
    "dilation": (0, (1, -1)),
    "dim": (9, -9),
    "groups": (0, -1),
    "k": (-1, 1 << 40),
    "kind": ("median",),
    "padding": (-1, (0, -2)),
    "precision": ("fp8",),
    "probability": (-0.1, 1.5, math.nan),
    "reduction": ("average",),
    "smoothing": (-0.1, 1.5, math.nan),
    "step": (0, -1),
    "stride": (0, (1, 0)),
    "window": (-1, (1, 2, 3), (-2, None)),
}

UNCHECKED = {"cross_entropy_backward": ("reduction", "smoothing")}
"""Options of gradients whose forward function has checked them."""


def mistaken(function: str, options: dict[str, Any]) -> list[tuple[str, Any]]:
    """The option of each mistake that can be made, and its value."""
    left_out = UNCHECKED.get(function, ())
    names = [name for name in sorted(options) if name in BY_OPTION and name not in left_out]
    return [(name, value) for name in names for value in BY_OPTION[name]]
