"""Matrix products and their like."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Tile


@operation
def dot(a: Any, b: Any, acc: Any = None, axis: Any = None, precision: str = "ieee") -> Tile:
    """Products of a and b, summed along the whole axis that both have, and added to `acc` if given.

    Other axes that both have stay (a batch). f16, bf16 and f8 are added in f32, integers of fewer bits in int32, or in
    uint32 where both are uint16, and that is the result's dtype. `axis` says along which, where they share several.
    `precision`: "ieee", or "tf32", which lets devices that have it round f32 operands to tf32, and add up to 128
    products of f8 in fewer bits.
    """
    return current().dot(a, b, acc, axis, precision)
