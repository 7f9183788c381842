"""Python's `assert` that fails while building."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    assert x.ndim == 3, "three dimensions"
