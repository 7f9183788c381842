"""What Triton's programs begin with."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"]):
    i = vk.program_id(0)
