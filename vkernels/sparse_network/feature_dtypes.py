"""Dtypes of features between layers. 16 bits halve the bytes to fetch; sums are float32, rounded when stored.

NumPy has no bfloat16: such features are arrays of uint16 here, and tensors of torch for kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .network_layers import Floats

FLOAT32 = "float32"
DTYPES: dict[str, Any] = {FLOAT32: np.float32, "float16": np.float16, "bfloat16": np.uint16}
"""The NumPy dtype that holds features of each dtype."""


def check_storage(storage: str, cap: float) -> None:
    """Raises `OptionError` for an unknown dtype, and for one that cannot hold features up to the cap."""
    if storage not in DTYPES:
        raise OptionError(f"storage is {storage!r}, expected one of {', '.join(DTYPES)}")
    if storage == "float16" and cap > np.finfo(np.float16).max:
        raise OptionError(f"storage: float16 holds no features up to the cap {cap}; bfloat16 does")


def holds(storage: str, value: float) -> bool:
    """Whether a dtype holds a number exactly."""
    return bool(as_floats(stored(np.array([value], np.float32), DTYPES[storage]))[0] == np.float32(value))


def stored(values: Floats, dtype: Any) -> NDArray[Any]:
    """Features as they are held, rounded to nearest even."""
    if dtype != np.uint16:
        return values.astype(dtype)
    import torch

    halves: NDArray[Any] = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    return halves


def as_floats(features: NDArray[Any]) -> Floats:
    """Features of any of the dtypes, as float32."""
    if features.dtype == np.uint16:
        return (features.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return features.astype(np.float32, copy=False)


def for_kernels(features: NDArray[Any]) -> Any:
    """The same memory, as kernels take it."""
    if features.dtype != np.uint16:
        return features
    import torch

    return torch.from_numpy(features).view(torch.bfloat16)
