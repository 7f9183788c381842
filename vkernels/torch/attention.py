"""Attention, of batches and of sequences of any lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from vkernels.library.attention import attention as attention_alone
from vkernels.library.attention import (
    attention_backward,
    attention_forward,
    attention_of_sequences_backward,
    attention_of_sequences_forward,
)
from vkernels.library.attention_blocks import Window, bounds_of

from .registering import Context, computed_dtype, define, like, like_each, refuse

__all__ = ["attention", "attention_of_sequences"]

_TENSORS = "Tensor q, Tensor k, Tensor v"
_SETTINGS = "float? scale, bool causal, int? back, int? ahead"


def _window(back: int | None, ahead: int | None) -> Window:
    return None if back is None and ahead is None else (back, ahead)


def _results(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return like(q, (*q.shape[:3], v.shape[3])), like(q, q.shape[:3], computed_dtype(q))


def _keep(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, *ctx.settings = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, *output)


_attention = define(
    f"attention({_TENSORS}, {_SETTINGS}) -> Tensor",
    lambda q, k, v, scale, causal, *bounds: attention_alone(q, k, v, scale, causal, _window(*bounds)),
    lambda *arguments: _results(*arguments)[0],
)
_attention_backward = define(
    f"attention_backward(Tensor grad, {_TENSORS}, Tensor out, Tensor normaliser, {_SETTINGS}) "
    "-> (Tensor, Tensor, Tensor)",
    lambda grad, q, k, v, out, normaliser, scale, causal, *bounds: attention_backward(
        grad, q, k, v, out, normaliser, scale, causal, _window(*bounds)
    ),
    lambda grad, q, k, v, *_: like_each(grad, q, k, v),
)
_attention_forward = define(
    f"attention_forward({_TENSORS}, {_SETTINGS}) -> (Tensor, Tensor)",
    lambda q, k, v, scale, causal, *bounds: attention_forward(q, k, v, scale, causal, _window(*bounds)),
    _results,
    _keep,
    lambda ctx, grad, _: (*_attention_backward(grad, *ctx.saved_tensors, *ctx.settings), None, None, None, None),
)

# ── sequences ────────────────────────────────────────────────────────────────────────────────────────────────────────

_STARTS = "Tensor q_start, Tensor k_start"


_WHY = "where sequences start is read on the host"


def _run_sequences(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_start: torch.Tensor, k_start: torch.Tensor, *settings: Any
) -> Any:
    scale, causal, *bounds = settings
    refuse("attention_of_sequences", q, _WHY)
    return attention_of_sequences_forward(q, k, v, q_start, k_start, scale, causal, _window(*bounds))


def _run_sequences_backward(grad: torch.Tensor, *arguments: Any) -> Any:
    refuse("attention_of_sequences_backward", grad, _WHY)
    run: Callable[..., Any] = attention_of_sequences_backward
    found = run(grad, *arguments[:-2], _window(*arguments[-2:]))
    return tuple(each.contiguous() for each in found)


def _keep_sequences(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, q_start, k_start, *ctx.settings = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, *output, q_start, k_start)


_attention_of_sequences_backward = define(
    f"attention_of_sequences_backward(Tensor grad, {_TENSORS}, Tensor out, Tensor normaliser, {_STARTS}, {_SETTINGS}) "
    "-> (Tensor, Tensor, Tensor)",
    _run_sequences_backward,
    lambda grad, q, k, v, *_: like_each(grad, q, k, v),
)
_attention_of_sequences = define(
    f"attention_of_sequences({_TENSORS}, {_STARTS}, {_SETTINGS}) -> (Tensor, Tensor)",
    _run_sequences,
    lambda q, k, v, *_: (like(q, (*q.shape[:2], v.shape[2])), like(q, (q.shape[1], q.shape[0]), computed_dtype(q))),
    _keep_sequences,
    lambda ctx, grad, _: (*_attention_of_sequences_backward(grad, *ctx.saved_tensors, *ctx.settings), *(None,) * 6),
)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
) -> torch.Tensor:
    """softmax(q kᵀ · scale) v for every head: `vkernels.library.attention`. Gradients: of q, k and v.

    For the gradient, one number per query is kept in addition to arguments and result; scores are recomputed.
    """
    settings = (scale, causal, *bounds_of("attention", window))
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: torch.Tensor = _attention_forward(q, k, v, *settings)[0]
        return out
    return _attention(q, k, v, *settings)


def attention_of_sequences(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_start: torch.Tensor,
    k_start: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
) -> torch.Tensor:
    """`attention` within each of several concatenated sequences: the library's `attention_of_sequences`.

    Gradients: of q, k and v. Starts are read on the host, so it cannot be captured in a CUDA graph.
    """
    out: torch.Tensor = _attention_of_sequences(
        q, k, v, q_start, k_start, scale, causal, *bounds_of("attention", window)
    )[0]
    return out
