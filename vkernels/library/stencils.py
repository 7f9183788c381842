"""Stencils over the last two dimensions: each result is a weighted sum of its neighbours, 0 beyond the boundary."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .arrays import Array, as_images, check_apart, empty_like, give_back


@vk.kernel
def stencil_cross(x: Float[vk.Tensor, "B M N"], weight: Float[vk.Tensor, "5"], out: Float[vk.Tensor, "B M N"]):
    b = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    column = weight[0] * x[b, i - 1, j] + weight[4] * x[b, i + 1, j]
    row = weight[1] * x[b, i, j - 1] + weight[2] * x[b, i, j] + weight[3] * x[b, i, j + 1]
    out[b, i, j] = column + row


@vk.kernel
def stencil_square(x: Float[vk.Tensor, "B M N"], weight: Float[vk.Tensor, "3 3"], out: Float[vk.Tensor, "B M N"]):
    b = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    total = 0.0
    for down in range(3):
        for right in range(3):
            total += weight[down, right] * x[b, i + (down - 1), j + (right - 1)]
    out[b, i, j] = total


def stencil(x: Array, weight: Array, out: Array | None = None) -> Array:
    """Each element and its neighbours in the last two dimensions, weighted and added; what lies beyond is 0.

    `x`: at least two dimensions, any strides; f64, f32, f16 or bf16, the latter two computed in f32. `weight`, of x's
    dtype: 3 × 3, `out[i, j] = sum of weight[a, b] * x[i + a - 1, j + b - 1]` (a cross-correlation, as torch's conv2d
    with a padding of 1); or 5 elements, for a cross: above, left, centre, right, below. Returns `out`, which must not
    overlap x, or a new array like x.
    Raises `ArgumentError` for other dtypes or shapes that do not go together, and for an `out` that is x.
    """
    if x.ndim < 2:
        raise vk.ArgumentError(f"stencil: x has shape {tuple(x.shape)}, expected at least two dimensions")
    out = empty_like(x, tuple(x.shape)) if out is None else out
    check_apart("stencil", out, x=x)
    images, results = as_images(x), as_images(out)
    kernel = stencil_cross if weight.ndim == 1 else stencil_square
    kernel(images, weight, results)
    give_back(results, out)
    return out
