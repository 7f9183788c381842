"""Tensors put where a decision says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vkernels.ir.errors import ArgumentError, SetupError

from ..gpu_timer import mapped
from .choose import PlacementDecision
from .costs import BufferPlacement


def place(decision: PlacementDecision, arrays: Mapping[str, Any], device: str = "cuda") -> dict[str, Any]:
    """The tensors of a launch as it is to take them: `arrays`, torch tensors of the host by buffer.

    Copied ones are new tensors of the device; their results are for the caller to copy back. Zero-copy ones have to be
    pinned and without gaps, and the device's tensor is the same bytes: what a launch writes there the host sees once
    the launch is over.

    Raises `ArgumentError` for a buffer without a tensor or with one that is not so, and `SetupError` where there is no
    GPU, where pinned memory cannot be reached from it, and for managed buffers: torch makes none.
    """
    for choice in decision.choices:
        if choice.buffer not in arrays:
            raise ArgumentError(f"there is no tensor for {choice.buffer}")
        if getattr(getattr(arrays[choice.buffer], "device", None), "type", None) != "cpu":
            raise ArgumentError(f"{choice.buffer}: expected a torch tensor of the host")
        if choice.placement is BufferPlacement.ZERO_COPY and not arrays[choice.buffer].is_contiguous():
            raise ArgumentError(f"{choice.buffer} is to be reached in place: expected a tensor without gaps")
    managed = [choice.buffer for choice in decision.choices if choice.placement is BufferPlacement.MANAGED]
    if managed:
        raise SetupError(f"{', '.join(managed)}: torch makes no managed memory; place it yourself, or copy")
    import torch

    if not torch.cuda.is_available():
        raise SetupError("torch reaches no GPU here")
    on = torch.device(device)
    return {
        **arrays,
        **{each.buffer: _placed(each.buffer, arrays[each.buffer], each.placement, on) for each in decision.choices},
    }


def _placed(name: str, tensor: Any, placement: BufferPlacement, device: Any) -> Any:
    if placement is BufferPlacement.COPY or not tensor.numel():
        return tensor.to(device, non_blocking=True)
    if not tensor.is_pinned():
        raise ArgumentError(f"{name} is to be reached in place: expected a pinned tensor (tensor.pin_memory())")
    return mapped(tensor, device).view(tensor.dtype).view(tensor.shape)
