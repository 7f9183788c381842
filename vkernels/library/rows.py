"""Kernels that work on rows: softmax with its gradient, and layer normalisation."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .annotations import Result
from .arrays import Array, as_rows, constant_like, empty_like, give_back
from .declared import checked
from .long_rows import layer_norm_long, segment_of, softmax_long
from .replay import replayed


@vk.kernel
def softmax_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@vk.kernel
def softmax_gradient(grad: Float[vk.Tensor, "M N"], result: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    change, row = grad[i, j], result[i, j]
    out[i, j] = row * (change - vk.sum(change * row, axis=j))


@vk.kernel
def layer_norm_rows(
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    bias: Float[vk.Tensor, "N"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    centred = row - vk.mean(row, axis=j)
    variance = vk.mean(centred * centred, axis=j)
    out[i, j] = centred * vk.rsqrt(variance + eps) * weight[j] + bias[j]


@replayed
@checked
def softmax(x: Float[Array, "*B N"], out: Result[Array, "*B N", "x"] | None = None) -> Array:
    """exp(x) / sum(exp(x)) along the last dimension, computed with the row's maximum subtracted.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. Returns `out`, or a new
    array of x's shape and dtype. NaN anywhere in a row gives a row of NaN, as in torch.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    out = empty_like(x, tuple(x.shape)) if out is None else out
    rows, results = as_rows(x), as_rows(out)
    segment = segment_of(rows.shape[1]) if rows.shape == results.shape else None
    if segment is None:
        softmax_rows(rows, results)
    else:
        softmax_long(rows, results, segment)
    give_back(results, out)
    return out


@replayed
@checked
def softmax_backward(
    grad: Float[Array, "*B N"], result: Float[Array, "*B N"], out: Result[Array, "*B N", "result"] | None = None
) -> Array:
    """The gradient of x, of the gradient of `softmax(x)` and that result: result * (grad - sum(grad * result)).

    All of one shape and dtype, rows of any length. Returns `out`, or a new array like them; NaN and infinities spread
    as in torch. Raises `ArgumentError` where they do not go together.
    """
    out = empty_like(result, tuple(result.shape)) if out is None else out
    results = as_rows(out)
    softmax_gradient(as_rows(grad), as_rows(result), results)
    give_back(results, out)
    return out


@replayed
@checked
def layer_norm(
    x: Float[Array, "*B N"],
    weight: Float[Array, "N"] | None = None,
    bias: Float[Array, "N"] | None = None,
    eps: float = 1e-5,
    out: Result[Array, "*B N", "x"] | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last dimension (Ba, Kiros, Hinton 2016).

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. `weight` and `bias`: one element
    a column, or none. The variance is that of the centred row, divided by N. Returns `out`, or a new array like x.
    Raises `ArgumentError` for other dtypes or shapes that do not go together.
    """
    columns = (x.shape[-1],)
    out = empty_like(x, tuple(x.shape)) if out is None else out
    weight = constant_like(x, 1.0, columns) if weight is None else weight
    bias = constant_like(x, 0.0, columns) if bias is None else bias
    rows, results = as_rows(x), as_rows(out)
    fits = rows.shape == results.shape and tuple(weight.shape) == tuple(bias.shape) == columns
    segment = segment_of(rows.shape[1]) if fits else None
    if segment is None:
        layer_norm_rows(rows, weight, bias, eps, results)
    else:
        layer_norm_long(rows, weight, bias, eps, results, segment)
    give_back(results, out)
    return out
