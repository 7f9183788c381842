"""Dtypes that a kernel computes in, known when it is built."""

from __future__ import annotations

from functools import reduce
from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import DType, PromotionError, computed
from ..dtypes import promote as common
from ..operation import Mistake, operation
from ..values import AddressableValue, Axis, ComplexTile, Tile
from .current_builder import current_builder


def dtype_of(value: Any) -> DType:
    """The dtype of a tile, tensor, scratchpad or axis; of a dtype itself. Raises the author's mistake for others."""
    if isinstance(value, DType):
        return value
    if isinstance(value, Tile | ComplexTile | AddressableValue):
        return value.dtype
    if isinstance(value, Axis):
        return current_builder().positions(value).dtype
    raise Mistake(
        TypeMismatchError,
        "expected a dtype, a tensor, a tile or a scratchpad",
        "Such as `vk.float32`, `x` or `x[i, j]`.",
        value,
    )


@operation
def compute_dtype(*values: Any) -> DType:
    """The dtype that arithmetic on tensors, tiles or dtypes is in: their common one, float32 for f16, bf16 and f8.

    Known when the kernel is built: `total = vk.zeros((i,), vk.compute_dtype(x))`.
    """
    if not values:
        raise Mistake(TypeMismatchError, "expected a tensor, a tile or a dtype", "Such as `vk.compute_dtype(x)`.")
    try:
        return computed(reduce(common, map(dtype_of, values)))
    except PromotionError as error:
        raise Mistake(TypeMismatchError, str(error), "Convert one of them, as with `.to(vk.float32)`.") from None
