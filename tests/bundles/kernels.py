"""Kernels that the tests of bundles build."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def scale(x: Float[vk.Tensor, "M N"], factor: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.tile("N")
    out[i, j] = x[i, j] * factor


@vk.kernel
def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)
