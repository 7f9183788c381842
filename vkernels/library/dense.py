"""Matrix multiplication with bias and activation in the same pass."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .activations import activated
from .arrays import Array, constant_like, empty_like


@vk.kernel
def matmul_bias(
    a: Float[vk.Tensor, "M K"],
    b: Float[vk.Tensor, "K N"],
    bias: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
    activation: vk.Constant = "none",
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    product = vk.dot(a[i, k], b[k, j])
    out[i, j] = activated(product + bias[j], activation)


ACTIVATIONS = ("none", "relu", "gelu", "sigmoid", "tanh")


def matmul(
    a: Array, b: Array, bias: Array | None = None, activation: str | None = None, out: Array | None = None
) -> Array:
    """activation(a @ b + bias), the sum over K kept in f32 (f64 for f64 operands) until the end.

    `a`: M × K, `b`: K × N, of any strides and of one dtype: f64, f32, f16 or bf16. `bias`: N elements.
    `activation`: none, relu, gelu (exact, with erf), sigmoid or tanh. Returns `out`, or a new M × N array of a's dtype.
    Raises `ArgumentError` for shapes or dtypes that do not go together, or an unknown activation.
    """
    activation = "none" if activation is None else activation
    if activation not in ACTIVATIONS:
        raise vk.ArgumentError(f"matmul: activation is {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    out = empty_like(a, (a.shape[0], b.shape[1])) if out is None else out
    bias = constant_like(a, 0.0, (b.shape[1],)) if bias is None else bias
    matmul_bias(a, b, bias, out, activation)
    return out
