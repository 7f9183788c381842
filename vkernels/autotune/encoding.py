"""Points as rows of numbers, for models that learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from .space import Value

MOST_PAIRED = 10
"""Parameters whose products are columns of their own, at most: columns grow by its square."""


def encode(values: Sequence[Sequence[Value]], places: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
    """Rows of float32 for points given by the places of their values, N × parameters.

    Columns: each parameter's rank among its values (places, where values have no order), a flag for each value of
    parameters without an order, and the logarithms of the products of each two parameters that are sizes: threads are
    the product of a block's two sides, and what fits depends on products.
    """
    columns: list[npt.NDArray[np.float32]] = []
    sizes: list[npt.NDArray[np.float32]] = []
    for column, given in enumerate(values):
        at = places[:, column]
        if len(given) < 2:
            continue
        numbers = _numbers(given)
        if numbers is None:
            columns.append(at.astype(np.float32))
            if len(given) > 2:
                columns += [(at == place).astype(np.float32) for place in range(len(given))]
            continue
        columns.append(np.argsort(np.argsort(numbers)).astype(np.float32)[at])
        if len(given) > 2 and numbers.min() > 0:
            sizes.append(np.log2(numbers).astype(np.float32)[at])
    if len(sizes) <= MOST_PAIRED:
        columns += [one + other for one, other in combinations(sizes, 2)]
    return np.stack(columns, 1) if columns else np.zeros((len(places), 1), np.float32)


def _numbers(values: Sequence[Value]) -> npt.NDArray[np.float64] | None:
    """The values as numbers, or None where one of them is none."""
    if all(isinstance(value, (bool, int, float)) for value in values):
        return np.array(values, dtype=np.float64)
    return None
