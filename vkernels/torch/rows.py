"""Softmax and its logarithm, along the last dimension."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import losses, rows

from .registering import Context, define, like_first


def _keep_result(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


_softmax_backward = define(
    "softmax_backward(Tensor grad, Tensor result) -> Tensor", rows.softmax_backward, like_first
)  # fmt: skip
_softmax = define(
    "softmax(Tensor x) -> Tensor", rows.softmax, like_first,
    _keep_result, lambda ctx, grad: _softmax_backward(grad, *ctx.saved_tensors),
)  # fmt: skip

_log_softmax_backward = define(
    "log_softmax_backward(Tensor grad, Tensor result) -> Tensor", losses.log_softmax_backward, like_first
)  # fmt: skip
_log_softmax = define(
    "log_softmax(Tensor x) -> Tensor", losses.log_softmax, like_first,
    _keep_result, lambda ctx, grad: _log_softmax_backward(grad, *ctx.saved_tensors),
)  # fmt: skip


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x) / sum(exp(x)) along the last dimension: `vkernels.library.softmax`, with its gradient."""
    return _softmax(x)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """x - log(sum(exp(x))) along the last dimension: `vkernels.library.log_softmax`, with its gradient."""
    return _log_softmax(x)
