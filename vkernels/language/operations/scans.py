"""Inclusive scans along whole axes."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Tile


@operation
def cumulative_sum(x: Any, axis: Any = None) -> Tile:
    """The sum of each element and all before it; int64 for integers and bool."""
    return current().scan("sum", x, axis)


@operation
def cumulative_product(x: Any, axis: Any = None) -> Tile:
    """The product of each element and all before it; int64 for integers and bool."""
    return current().scan("product", x, axis)


@operation
def cumulative_max(x: Any, axis: Any = None) -> Tile:
    """The largest of each element and all before it; NaN from the first NaN on."""
    return current().scan("max", x, axis)


@operation
def cumulative_min(x: Any, axis: Any = None) -> Tile:
    """The smallest of each element and all before it; NaN from the first NaN on."""
    return current().scan("min", x, axis)
