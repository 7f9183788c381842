"""An array that no parameter holds, as a whole."""

import numpy as np
from jaxtyping import Float

import vkernels as vk

table = np.ones(3)


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + table
