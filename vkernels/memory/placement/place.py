"""Place torch tensors as decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from vkernels.ir.errors import ArgumentError, SetupError

from ..gpu_timer import mapped
from .choose import PlacementDecision
from .costs import BufferPlacement


def place(decision: PlacementDecision, arrays: Mapping[str, Any], device: str = "cuda") -> dict[str, Any]:
    """Return the tensors to launch with. `arrays`: torch tensors on the host, by buffer.

    Copied tensors are new tensors on the device; copy their results back yourself. Zero-copy tensors must be pinned and
    contiguous, and share their bytes with the returned ones: the host sees results when the launch is over.

    Raises `ArgumentError` for a buffer with no tensor or an unsuitable one. Raises `SetupError` without a GPU, if it
    cannot access pinned memory, and for managed buffers, which torch cannot allocate.
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
