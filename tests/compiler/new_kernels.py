"""Kernels that no process has seen before: nothing is remembered of them."""

from jaxtyping import Float

import vkernels as vk


def new(name: str = "softmax", **options: object):
    """A softmax of its own, of this name and with these options of `vk.kernel`."""

    def other(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        row = x[i, j]
        e = vk.exp(row - vk.max(row, axis=j))
        out[i, j] = e / vk.sum(e, axis=j)

    other.__name__ = name
    return vk.kernel(**options)(other) if options else vk.kernel(other)
