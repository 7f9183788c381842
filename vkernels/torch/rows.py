"""Softmax and its logarithm, along the last dimension."""

from __future__ import annotations

import torch

from vkernels.library import losses, rows

from .registering import define_like_input

__all__ = ["log_softmax", "softmax"]


_softmax = define_like_input(rows.softmax, rows.softmax_backward, keeps_result=True)
_log_softmax = define_like_input(losses.log_softmax, losses.log_softmax_backward, keeps_result=True)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x) / sum(exp(x)) along the last dimension: `vkernels.library.softmax`, with its gradient."""
    return _softmax(x)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """x - log(sum(exp(x))) along the last dimension: `vkernels.library.log_softmax`, with its gradient."""
    return _log_softmax(x)
