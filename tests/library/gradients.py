"""Gradients of the library's functions: as torch's autograd has them in float64, and by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def exact_gradients(
    function: Callable[..., torch.Tensor], grad: torch.Tensor, *tensors: torch.Tensor
) -> list[torch.Tensor]:
    """The gradients of tensors of a function of torch's, in float64."""
    exact = [tensor.detach().double().clone().requires_grad_() for tensor in tensors]
    result = function(*exact)
    if result.requires_grad:  # a sum of nothing does not
        result.backward(grad.double())
    return [torch.zeros_like(tensor) if tensor.grad is None else tensor.grad for tensor in exact]


def assert_gradients(
    forward: Callable[..., torch.Tensor], backward: Callable[..., Sequence[Any]], *tensors: torch.Tensor
) -> None:
    """`backward(grad, *tensors)` gives the gradients of `forward(*tensors)`, all in float64, found by differences."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, *given: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(*given)
            return forward(*given)

        @staticmethod
        def backward(context: Any, grad: torch.Tensor) -> tuple[Any, ...]:
            return tuple(backward(grad, *context.saved_tensors))

    exact = [tensor.double().requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(Function.apply, exact)


def largest_sum(*factors: torch.Tensor) -> float:
    """The largest element of a product of two matrices' absolute values: what sums of products are the rest of."""
    if any(0 in factor.shape for factor in factors):
        return 0.0
    left, right = (factor.double().abs() for factor in factors)
    return float((left @ right).max())
