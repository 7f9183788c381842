"""Reductions along a dimension, the largest elements of rows, and histograms."""

from __future__ import annotations

import math
from typing import Any

import torch

from vkernels.library import reductions

from .registering import Context, Operation, define, like

__all__ = ["argmax", "argmin", "histogram", "max", "mean", "min", "sum", "topk"]


def _shape(x: torch.Tensor, dim: int | None, keepdim: bool) -> tuple[int, ...]:
    if dim is None:
        return (1,) * x.ndim if keepdim else ()
    at = range(x.ndim)[dim]
    return (*x.shape[:at], *((1,) if keepdim else ()), *x.shape[at + 1 :])


def _fake(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    return like(x, _shape(x, dim, keepdim))


def _fake_place(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    return like(x, _shape(x, dim, keepdim), torch.int64)


def _keep_shape(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.dim, ctx.keepdim = inputs
    ctx.shape = x.shape


def _keep_x(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.dim, ctx.keepdim = inputs
    ctx.save_for_backward(x)


def _repeated(ctx: Context, grad: torch.Tensor) -> torch.Tensor:
    if ctx.dim is not None and not ctx.keepdim:
        grad = grad.unsqueeze(ctx.dim)
    return grad.reshape((1,) * len(ctx.shape)).expand(ctx.shape) if ctx.dim is None else grad.expand(ctx.shape)


def _of_mean(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    repeated = _repeated(ctx, grad)
    count = math.prod(ctx.shape) if ctx.dim is None else ctx.shape[ctx.dim]
    return repeated / count, None, None


def _to_place(find: Operation) -> Any:
    """The gradient goes to the first of the largest or smallest elements."""

    def backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (x,) = ctx.saved_tensors
        if ctx.dim is None:
            place = find(x, None, False).reshape(1)
            return torch.zeros_like(x).reshape(-1).scatter(0, place, grad.reshape(1)).reshape(x.shape), None, None
        place = find(x, ctx.dim, True)
        each = grad if ctx.keepdim else grad.unsqueeze(ctx.dim)
        return x.new_zeros(x.shape).scatter(ctx.dim, place, each), None, None

    return backward


_ARGUMENTS = "(Tensor x, int? dim, bool keepdim) -> Tensor"
_sum = define(
    f"sum{_ARGUMENTS}",
    reductions.sum,
    lambda x, *where: like(x, _shape(x, *where), x.dtype if x.dtype.is_floating_point else torch.int64),
    _keep_shape,
    lambda ctx, grad: (_repeated(ctx, grad), None, None),
)
_mean = define(f"mean{_ARGUMENTS}", reductions.mean, _fake, _keep_shape, _of_mean)
_argmax = define(f"argmax{_ARGUMENTS}", reductions.argmax, _fake_place)
_argmin = define(f"argmin{_ARGUMENTS}", reductions.argmin, _fake_place)
_max = define(f"max{_ARGUMENTS}", reductions.max, _fake, _keep_x, _to_place(_argmax))
_min = define(f"min{_ARGUMENTS}", reductions.min, _fake, _keep_x, _to_place(_argmin))


def _keep_places(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.shape = inputs[0].shape
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _to_places(ctx: Context, grad: torch.Tensor, _: Any) -> tuple[torch.Tensor, None]:
    (place,) = ctx.saved_tensors
    return grad.new_zeros(ctx.shape).scatter(1, place, grad), None


_topk = define(
    "topk(Tensor x, int k) -> (Tensor, Tensor)",
    reductions.topk,
    lambda x, k: (like(x, (x.shape[0], k)), like(x, (x.shape[0], k), torch.int64)),
    _keep_places,
    _to_places,
)
_histogram = define(
    "histogram(Tensor x, int bins, float low, float high) -> Tensor",
    reductions.histogram,
    lambda x, bins, low, high: like(x, (bins,), torch.int64),
)


def sum(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The sum along a dimension, or of all elements: `vkernels.library.sum`, with its gradient."""
    return _sum(x, dim, keepdim)


def mean(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The mean along a dimension, or of all elements: `vkernels.library.mean`, with its gradient."""
    return _mean(x, dim, keepdim)


def max(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The largest element along a dimension, or of all: `vkernels.library.max`. The first one gets the gradient."""
    return _max(x, dim, keepdim)


def min(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The smallest element along a dimension, or of all: `vkernels.library.min`. The first one gets the gradient."""
    return _min(x, dim, keepdim)


def argmax(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The first place, int64, of the largest element along a dimension, or of all: `vkernels.library.argmax`."""
    return _argmax(x, dim, keepdim)


def argmin(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The first place, int64, of the smallest element along a dimension, or of all: `vkernels.library.argmin`."""
    return _argmin(x, dim, keepdim)


def topk(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest elements of each row and their places: `vkernels.library.topk`. Gradient: of the elements."""
    value, index = _topk(x, k)
    return value, index


def histogram(x: torch.Tensor, bins: int, low: float, high: float) -> torch.Tensor:
    """Counts of elements in bins of equal width, int64: `vkernels.library.histogram`."""
    return _histogram(x, bins, low, high)
