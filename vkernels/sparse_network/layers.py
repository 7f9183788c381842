"""Run some layers of a network in one launch of a library kernel, for each form of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .feature_dtypes import for_kernels, stored
from .shared_plans import kernel_for


def run_layers(y: Any, column: Any, weight: Any, bias: Any, cap: float, out: Any, peak: Any) -> None:
    """The library's kernels: layers × outputs × connections, one layer where not as many come out as go in.

    Weights whose last stride is 0 are read once an output; those of four dimensions are blocks. All are arrays, or all
    tensors of torch on one device.
    """
    from vkernels.library.spdnn import equal_weight_layers, sparse_layer, sparse_layers

    if 0 in (y.shape[0], out.shape[0]):  # nothing to gather, or nothing to find the largest of
        _alone(bias[-1], cap, out, peak)
        return
    y, out = for_kernels(y), for_kernels(out)
    if weight.ndim == 4:
        _run_blocks(y, column, weight, bias, cap, out, peak)
    elif y.shape[0] == out.shape[0] and _strides(weight)[2] == 0:
        kernel_for(y, equal_weight_layers)(y, column, weight[:, :, 0], bias, cap, out, peak)
    elif y.shape[0] == out.shape[0]:
        kernel_for(y, sparse_layers)(y, column, weight, bias, cap, out, peak)
    else:
        kernel_for(y, sparse_layer)(y, column[0], weight[0], bias[0], cap, out, peak)


def _alone(bias: Any, cap: float, out: Any, peak: Any) -> None:
    """A layer without inputs, or without outputs."""
    on_device = not isinstance(bias, np.ndarray)
    alone = np.clip((bias.cpu().numpy() if on_device else bias)[:, None], 0, cap)
    peak[:] = float(alone.max(initial=0))
    out[:] = bias[:, None].clamp(0, cap) if on_device else stored(alone, out.dtype)


def _strides(array: Any) -> tuple[int, ...]:
    """0 where they are 0: bytes of an array, elements of a tensor."""
    strides: tuple[int, ...] = array.strides if isinstance(array, np.ndarray) else array.stride()
    return strides


def _run_blocks(y: Any, column: Any, weight: Any, bias: Any, cap: float, out: Any, peak: Any) -> None:
    """`run_layers` for weights of layers × blocks × outputs of a block × inputs of a block."""
    from vkernels.library.arrays import zeros
    from vkernels.library.spdnn import block_layer, block_layers, distance_to_state

    images, shape = out.shape[1], weight.shape[:3]
    blocks = out.reshape((*shape[1:], images))
    if y.shape[0] == out.shape[0]:
        kernel_for(y, block_layers)(y.reshape(blocks.shape), column, weight, bias.reshape(shape), cap, blocks, peak)
    else:
        kernel_for(y, block_layer)(y, column[0], weight[0], bias[0].reshape(shape[1:]), cap, blocks)
        kernel_for(y, distance_to_state)(out, zeros(peak, (out.shape[0],)), peak)
