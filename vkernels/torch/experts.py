"""Products of which every row has a matrix of its own among a few, and mixtures of experts made of them."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import experts

from .capturing import refuse
from .registering import Context, define, like, like_each, unchecked

__all__ = ["grouped_matmul", "mixture_of_experts"]

_GROUPED = "Tensor x, Tensor weight, Tensor start, Tensor? bias, str activation, Tensor? row"
_EXPERTS = "Tensor x, Tensor expert, Tensor gate, Tensor w1, Tensor w2, Tensor? b1, Tensor? b2, str activation"


def _refuse_capture(function: str, x: torch.Tensor) -> None:
    refuse(function, x, "how many rows each group has is read on the host")


def _run_grouped_backward(grad: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, ...]:
    _refuse_capture("grouped_matmul_backward", grad)
    return unchecked(experts.grouped_matmul_backward)(grad, *arguments)


def _run_grouped(
    x: torch.Tensor,
    weight: torch.Tensor,
    start: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str,
    row: torch.Tensor | None,
    checked: bool,
) -> torch.Tensor:
    _refuse_capture("grouped_matmul", x)
    return experts.grouped_matmul(x, weight, start, bias, activation, row, checked=checked)


def _keep_grouped(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, start, bias, ctx.activation, row, _ = inputs
    ctx.save_for_backward(x, weight, start, bias, row)


def _grouped_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, weight, start, bias, row = ctx.saved_tensors
    of_x, of_weight, of_bias = _grouped_matmul_backward(grad, x, weight, start, bias, ctx.activation, row)
    return of_x, of_weight, None, None if bias is None else of_bias, None, None, None


_grouped_matmul_backward = define(
    f"grouped_matmul_backward(Tensor grad, {_GROUPED}) -> (Tensor, Tensor, Tensor)",
    _run_grouped_backward,
    lambda grad, x, weight, start, bias, *_: like_each(grad, x, weight, bias),
)
_grouped_matmul = define(
    f"grouped_matmul({_GROUPED}, bool checked) -> Tensor",
    _run_grouped,
    lambda x, weight, start, bias, activation, row, checked: like(
        x, ((x if row is None else row).shape[0], weight.shape[2])
    ),
    _keep_grouped,
    _grouped_gradients,
)


def _run_mixture_backward(grad: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, ...]:
    _refuse_capture("mixture_of_experts_backward", grad)
    return unchecked(experts.mixture_of_experts_backward)(grad, *arguments)


def _run_mixture(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
    _refuse_capture("mixture_of_experts", x)
    return experts.mixture_of_experts(x, *arguments)


def _keep_mixture(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    *tensors, ctx.activation, _ = inputs
    ctx.save_for_backward(*tensors)


def _mixture_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    *_, b1, b2 = ctx.saved_tensors
    found = _mixture_of_experts_backward(grad, *ctx.saved_tensors, ctx.activation)
    of_x, of_gate, of_w1, of_w2, of_b1, of_b2 = found
    biases = (None if b1 is None else of_b1, None if b2 is None else of_b2)
    return of_x, None, of_gate, of_w1, of_w2, *biases, None, None


_mixture_of_experts_backward = define(
    f"mixture_of_experts_backward(Tensor grad, {_EXPERTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _run_mixture_backward,
    lambda grad, x, expert, gate, w1, w2, b1, b2, _: like_each(grad, x, gate, w1, w2, b1, b2),
)
_mixture_of_experts = define(
    f"mixture_of_experts({_EXPERTS}, bool checked) -> Tensor",
    _run_mixture,
    lambda x, expert, gate, w1, w2, *_: like(x, (x.shape[0], w2.shape[2])),
    _keep_mixture,
    _mixture_gradients,
)


def grouped_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    start: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    row: torch.Tensor | None = None,
    checked: bool = True,
) -> torch.Tensor:
    """Every group of rows times a matrix of its own: `vkernels.library.grouped_matmul`.

    Gradients: of x, weight and bias. `start` is read on the host, so that it cannot be captured in a CUDA graph.
    """
    return _grouped_matmul(x, weight, start, bias, activation, row, checked)


def mixture_of_experts(
    x: torch.Tensor,
    expert: torch.Tensor,
    gate: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    b1: torch.Tensor | None = None,
    b2: torch.Tensor | None = None,
    activation: str = "gelu",
    checked: bool = True,
) -> torch.Tensor:
    """Each token through its experts; none is dropped: `vkernels.library.mixture_of_experts`.

    Gradients: of x, gate, weights and biases. Not for CUDA graphs, as `grouped_matmul`.
    """
    return _mixture_of_experts(x, expert, gate, w1, w2, b1, b2, activation, checked)
