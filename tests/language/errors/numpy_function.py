"""A function of NumPy."""

import numpy as np
from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = np.exp(x[i, 0])
