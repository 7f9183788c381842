"""What a call may not do while a GPU's work is captured in a graph: look at what tensors hold."""

from __future__ import annotations

import torch

from vkernels.ir.errors import ArgumentError
from vkernels.library.arrays import is_captured


def is_capturing(x: torch.Tensor) -> bool:
    """Whether work with a tensor goes into a graph instead of to its GPU."""
    return is_captured(x.device)


def refuse_checks(function: str, x: torch.Tensor, checked: bool) -> None:
    """Raise `ArgumentError` where indices would be read while a graph is captured."""
    if checked and is_capturing(x):
        raise ArgumentError(
            f"{function}: checked=True reads indices, which cannot be done while a CUDA graph is captured: check them "
            "before, and pass checked=False"
        )


def refuse(function: str, x: torch.Tensor, why: str) -> None:
    """Raise `ArgumentError` for what cannot be captured at all."""
    if is_capturing(x):
        raise ArgumentError(f"{function}: {why}, which cannot be done while a CUDA graph is captured")
