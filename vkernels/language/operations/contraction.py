"""Matrix products and other contractions."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Tile


@operation
def dot(a: Any, b: Any, acc: Any = None, axis: Any = None, precision: str = "ieee") -> Tile:
    """Products of a and b, summed along the whole axis that both have, and added to `acc` if given.

    Other axes that both have are batch axes. The result's dtype is f32 for f16, bf16 and f8; int32 for narrower
    integers, uint32 if both are uint16. `axis` selects one of several shared axes. `precision`: "ieee", or "tf32",
    which allows devices to round f32 operands to tf32, and to add up to 128 products of f8 in fewer bits.
    """
    return current().dot(a, b, acc, axis, precision)
