"""Two layers of a network in one launch: what is between them stays on chip."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .activations import activated
from .annotations import Activation, Result
from .arrays import Array, check_apart, constant_like, empty_like
from .declared import checked
from .replay import replayed


@vk.kernel
def mlp_rows(
    x: Float[vk.Tensor, "M K"],
    w1: Float[vk.Tensor, "K H"],
    b1: Float[vk.Tensor, "H"],
    w2: Float[vk.Tensor, "H N"],
    b2: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
    activation: vk.Constant = "relu",
):
    i = vk.tile("M")
    k = vk.whole("K")
    h = vk.whole("H")
    n = vk.whole("N")
    product = vk.dot(w1[k, h], x[i, k])
    hidden = activated(product + b1[h], activation).to(x.dtype)
    vk.phase()  # so that `hidden` can be kept, instead of its product alone
    out[i, n] = vk.dot(w2[h, n], hidden) + b2[n]


@replayed
@checked
def mlp(
    x: Float[Array, "M K"],
    w1: Float[Array, "K H"],
    b1: Float[Array, "H"] | None,
    w2: Float[Array, "H N"],
    b2: Float[Array, "N"] | None = None,
    activation: Activation = "relu",
    out: Result[Array, "M N", "x"] | None = None,
) -> Array:
    """activation(x @ w1 + b1) @ w2 + b2, both sums kept in f32 (f64 for f64 operands).

    `x`: M × K, `w1`: K × H, `w2`: H × N, of any strides (transposes of an H × K and an N × H are fastest on a CPU) and
    of one dtype: f64, f32, f16 or bf16. `b1`: H elements, `b2`: N, or none. `activation`: none, relu, gelu (exact,
    with erf), gelu_tanh, silu, sigmoid or tanh; its results are rounded to x's dtype. Returns `out`, or a new M × N
    array of x's dtype.
    Raises `ArgumentError` for shapes or dtypes that do not go together, or an unknown activation.
    """
    out = empty_like(x, (x.shape[0], w2.shape[-1])) if out is None else out
    b1 = constant_like(x, 0.0, (w1.shape[-1],)) if b1 is None else b1
    b2 = constant_like(x, 0.0, (w2.shape[-1],)) if b2 is None else b2
    check_apart("mlp", out, w1=w1, w2=w2)
    mlp_rows(x, w1, b1, w2, b2, out, activation)
    return out
