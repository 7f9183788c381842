"""Grouped matrix products, in which each group of rows has its own matrix, and mixtures of experts."""

from __future__ import annotations

import torch

from vkernels.library import experts

from .registering import define_differentiable, like, not_captured, with_checks_refused

__all__ = ["grouped_matmul", "mixture_of_experts"]

_WHY = "how many rows each group has is read on the host"

_grouped_matmul = define_differentiable(
    "grouped_matmul(Tensor x, Tensor weight, Tensor start, Tensor? bias, str activation, Tensor? row, bool checked) "
    "-> Tensor",
    not_captured(with_checks_refused(experts.grouped_matmul), _WHY),
    lambda x, weight, start, bias, activation, row, _: like(x, ((x if row is None else row).shape[0], weight.shape[2])),
    not_captured(experts.grouped_matmul_backward, _WHY),
    "x weight bias",
    without="checked",
)
_mixture_of_experts = define_differentiable(
    "mixture_of_experts(Tensor x, Tensor expert, Tensor gate, Tensor w1, Tensor w2, Tensor? b1, Tensor? b2, "
    "str activation, bool checked) -> Tensor",
    not_captured(experts.mixture_of_experts, _WHY),
    lambda x, expert, gate, w1, w2, *_: like(x, (x.shape[0], w2.shape[2])),
    not_captured(experts.mixture_of_experts_backward, _WHY),
    "x gate w1 w2 b1 b2",
    without="checked",
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
    """Each group of rows times its own matrix: `vkernels.library.grouped_matmul`.

    Gradients: of x, weight and bias. `start` is read on the host, so it cannot be captured in a CUDA graph.
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
