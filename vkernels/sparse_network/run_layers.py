"""Run some layers of a network in one launch of a library kernel, for each form of weights and dtype of features.

Features of 16 bits halve the bytes to fetch; sums are float32, rounded when stored. NumPy has no bfloat16, so such
features are arrays of uint16 here, and torch tensors for kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError
from vkernels.library.arrays import zeros
from vkernels.library.spdnn import (
    block_layer,
    block_layers,
    distance_to_state,
    equal_weight_layers,
    sparse_layer,
    sparse_layers,
)

from .network_layers import Floats
from .shared_plans import kernel_for

FLOAT32 = "float32"
DTYPES: dict[str, Any] = {FLOAT32: np.float32, "float16": np.float16, "bfloat16": np.uint16}
"""The NumPy dtype of stored features of each dtype."""


def check_storage(storage: str, cap: float) -> None:
    """Raise `OptionError` for an unknown dtype, and for one that cannot hold features up to the cap."""
    if storage not in DTYPES:
        raise OptionError(f"storage is {storage!r}, expected one of {', '.join(DTYPES)}")
    if storage == "float16" and cap > np.finfo(np.float16).max:
        raise OptionError(f"storage: float16 holds no features up to the cap {cap}; bfloat16 does")


def holds(storage: str, value: float) -> bool:
    """Whether a dtype represents a number exactly."""
    return bool(as_floats(stored(np.array([value], np.float32), DTYPES[storage]))[0] == np.float32(value))


def stored(values: Floats, dtype: Any) -> NDArray[Any]:
    """Features as stored, rounded to nearest even."""
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
    """The same memory in the form that kernels take."""
    if features.dtype != np.uint16:
        return features
    import torch

    return torch.from_numpy(features).view(torch.bfloat16)


def run_layers(y: Any, column: Any, weight: Any, bias: Any, cap: float, out: Any, peak: Any) -> None:
    """Run layers with the library's kernels; there is one layer if the numbers of inputs and outputs differ.

    Weights with a last stride of 0 are read once per output; weights of four dimensions are blocks. All arguments are
    NumPy arrays, or torch tensors on one device.
    """
    if 0 in (y.shape[0], out.shape[0]):  # no inputs or no outputs
        _alone(bias[-1], cap, out, peak)
        return
    y, out = for_kernels(y), for_kernels(out)
    if weight.ndim == 4:
        _run_blocks(y, column, weight, bias, cap, out, peak)
    elif y.shape[0] == out.shape[0] and (weight.strides if isinstance(weight, np.ndarray) else weight.stride())[2] == 0:
        kernel_for(y, equal_weight_layers)(y, column, weight[:, :, 0], bias, cap, out, peak)
    elif y.shape[0] == out.shape[0]:
        kernel_for(y, sparse_layers)(y, column, weight, bias, cap, out, peak)
    else:
        kernel_for(y, sparse_layer)(y, column[0], weight[0], bias[0], cap, out, peak)


def _alone(bias: Any, cap: float, out: Any, peak: Any) -> None:
    on_device = not isinstance(bias, np.ndarray)
    alone = np.clip((bias.cpu().numpy() if on_device else bias)[:, None], 0, cap)
    peak[:] = float(alone.max(initial=0))
    out[:] = bias[:, None].clamp(0, cap) if on_device else stored(alone, out.dtype)


def _run_blocks(y: Any, column: Any, weight: Any, bias: Any, cap: float, out: Any, peak: Any) -> None:
    images, shape = out.shape[1], weight.shape[:3]
    blocks = out.reshape((*shape[1:], images))
    if y.shape[0] == out.shape[0]:
        kernel_for(y, block_layers)(y.reshape(blocks.shape), column, weight, bias.reshape(shape), cap, blocks, peak)
    else:
        kernel_for(y, block_layer)(y, column[0], weight[0], bias[0].reshape(shape[1:]), cap, blocks)
        kernel_for(y, distance_to_state)(out, zeros(peak, (out.shape[0],)), peak)
