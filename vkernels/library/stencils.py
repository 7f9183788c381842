"""Stencils over the last two dimensions: each result is a weighted sum of its neighbours, 0 beyond the boundary."""

from __future__ import annotations

from jaxtyping import Float

import vkernels.language as vk

from .arrays import Array, as_images, check_apart, empty_like, fill, flip
from .declared import Result, checked, replayed
from .reductions import sum as sum_along
from .samples import entry

__all__ = ["stencil"]


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


@vk.kernel
def stencil_weight_gradient(
    grad: Float[vk.Tensor, "B M N"], x: Float[vk.Tensor, "B M N"], part: Float[vk.Tensor, "B M 3 3"]
):
    b = vk.tile("B")
    i = vk.tile("M")
    j = vk.whole("N")
    for down in range(3):
        for right in range(3):
            part[b, i, down, right] = vk.sum(grad[b, i, j] * x[b, i + (down - 1), j + (right - 1)], axis=j)


CROSS = (1, 3, 4, 5, 7)
"""The positions of a cross among 3 × 3 weights in row-major order."""


@replayed
@checked
def stencil(
    x: Float[Array, "*B M N"],
    weight: Float[Array, "3 3"] | Float[Array, "5"],
    out: Result[Array, "*B M N", "x"] | None = None,
) -> Array:
    """Each element and its neighbours in the last two dimensions, weighted and added; 0 beyond the boundary.

    `x`: at least two dimensions, any strides; f64, f32, f16 or bf16, the latter two computed in f32. `weight`, of x's
    dtype: 3 × 3, `out[i, j] = sum of weight[a, b] * x[i + a - 1, j + b - 1]` (a cross-correlation, as torch's conv2d
    with a padding of 1); or 5 elements, for a cross: above, left, centre, right, below. Returns `out`, which must not
    overlap x, or a new array like x.
    Raises `ArgumentError` for other dtypes or shapes that do not match, and for an `out` that is x.
    """
    if out is not None:
        check_apart("stencil", out, x=x)
    kernel = stencil_cross if weight.ndim == 1 else stencil_square
    return fill(out, x, lambda results: kernel(as_images(x), weight, results), as_images)


@checked
def stencil_backward(
    grad: Float[Array, "*B M N"], x: Float[Array, "*B M N"], weight: Float[Array, "3 3"] | Float[Array, "5"]
) -> tuple[Array, Array]:
    """The gradients of x and weight, given the gradient of `stencil(x, weight)`: new arrays.

    That of x is the stencil of `grad` with the weights turned round. `grad`: as x is.
    Raises `ArgumentError` for dtypes or shapes that do not match.
    """
    of_x = stencil(grad, flip(weight, tuple(range(weight.ndim))))
    images = as_images(x)
    part = empty_like(x, (*images.shape[:2], 3, 3), computed=True)
    stencil_weight_gradient(as_images(grad), images, part)
    whole = sum_along(part.reshape((images.shape[0] * images.shape[1], 9)), 0)
    of_weight = empty_like(weight, tuple(weight.shape))
    of_weight[...] = whole[list(CROSS)] if weight.ndim == 1 else whole.reshape((3, 3))
    return of_x, of_weight


_IMAGES, _CPU_IMAGES = {"B": 16, "M": 1024, "N": 1024}, {"B": 4, "M": 512, "N": 512}


CATALOGUE = (
    entry("stencil", stencil_cross, _IMAGES, _CPU_IMAGES, "float32"),
    entry("stencil", stencil_square, _IMAGES, _CPU_IMAGES, "float32"),
    entry("stencil", stencil_weight_gradient, _IMAGES, _CPU_IMAGES, "float32", computed=("part",)),
)
