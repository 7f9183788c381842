"""Two f8 dtypes together."""

from jaxtyping import Float8e4m3fn, Float8e5m2

import vkernels as vk


@vk.kernel
def kernel(x: Float8e4m3fn[vk.Tensor, "M"], y: Float8e5m2[vk.Tensor, "M"]):
    i = vk.tile("M")
    z = x[i] + y[i]
