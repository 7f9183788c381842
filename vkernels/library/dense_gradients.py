"""Gradients of matrix products with bias and activation, one, many, and two layers of them."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .activations import activated, check_activation, slope
from .arrays import Array, as_rows, check_shape, constant_like, empty_like
from .dense import batched_matmul, check_dimensions, check_precision, matmul
from .reductions import sum as sum_along
from .replay import replayed


@vk.kernel
def slopes_of_products(
    grad: Float[vk.Tensor, "B M N"],
    a: Float[vk.Tensor, "B M K"],
    b: Float[vk.Tensor, "B K N"],
    bias: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "B M N"],
    activation: vk.Constant = "relu",
    precision: vk.Constant = "ieee",
):
    n = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    product = vk.dot(a[n, i, k], b[n, k, j], precision=precision) + bias[j]
    out[n, i, j] = grad[n, i, j] * slope(product, activation)


@vk.kernel
def mlp_between(
    grad: Float[vk.Tensor, "M N"],
    x: Float[vk.Tensor, "M K"],
    w1: Float[vk.Tensor, "K H"],
    b1: Float[vk.Tensor, "H"],
    w2: Float[vk.Tensor, "H N"],
    hidden: Float[vk.Tensor, "M H"],
    change: Float[vk.Tensor, "M H"],
    activation: vk.Constant = "relu",
):
    i = vk.tile("M")
    h = vk.tile("H")
    k = vk.whole("K")
    n = vk.whole("N")
    product = vk.dot(x[i, k], w1[k, h]) + b1[h]
    hidden[i, h] = activated(product, activation)
    change[i, h] = vk.dot(grad[i, n], w2[h, n]) * slope(product, activation)


@replayed
def matmul_backward(
    grad: Array,
    a: Array,
    b: Array,
    bias: Array | None = None,
    activation: str | None = None,
    precision: str | None = None,
) -> tuple[Array, Array, Array | None]:
    """The gradients of a, b and bias, of the gradient of `matmul(a, b, bias, activation)`; none where there is no bias.

    `grad`: M × N; all of one dtype. With an activation the product is computed again, so that nothing of it need be
    kept; its slope times `grad` is rounded to that dtype. New arrays.
    Raises `ArgumentError` for shapes or dtypes that do not go together.
    """
    check_dimensions("matmul_backward", a, b, 2)
    check_shape("matmul_backward", "grad", grad, (a.shape[0], b.shape[1]))
    change = _before_activation("matmul_backward", grad[None], a[None], b[None], bias, activation, precision)[0]
    of_a = matmul(change, b.swapaxes(0, 1), precision=precision)
    of_b = matmul(a.swapaxes(0, 1), change, precision=precision)
    return of_a, of_b, None if bias is None else sum_along(change, 0)


@replayed
def batched_matmul_backward(
    grad: Array,
    a: Array,
    b: Array,
    bias: Array | None = None,
    activation: str | None = None,
    precision: str | None = None,
) -> tuple[Array, Array, Array | None]:
    """The gradients of a, b and bias, of the gradient of `batched_matmul(a, b, bias, activation)`.

    `grad`: B × M × N; the rest is as of `matmul_backward`. That of one b for all is the sum over n.
    """
    check_dimensions("batched_matmul_backward", a, b, 3, 2 if b.ndim == 2 else 3)
    check_shape("batched_matmul_backward", "grad", grad, (*a.shape[:2], b.shape[-1]))
    if b.ndim == 2:
        of_a, of_b, of_bias = matmul_backward(as_rows(grad), as_rows(a), b, bias, activation, precision)
        return of_a.reshape(a.shape), of_b, of_bias
    change = _before_activation("batched_matmul_backward", grad, a, b, bias, activation, precision)
    of_a = batched_matmul(change, b.swapaxes(1, 2), precision=precision)
    of_b = batched_matmul(a.swapaxes(1, 2), change, precision=precision)
    return of_a, of_b, None if bias is None else sum_along(as_rows(change), 0)


@replayed
def mlp_backward(
    grad: Array,
    x: Array,
    w1: Array,
    b1: Array | None,
    w2: Array,
    b2: Array | None = None,
    activation: str = "relu",
) -> tuple[Array, Array, Array | None, Array, Array | None]:
    """The gradients of x, w1, b1, w2 and b2, of the gradient of `mlp(x, w1, b1, w2, b2, activation)`.

    `grad`: M × N; all of one dtype, to which what lies between the layers, computed again, and its gradient are
    rounded. None for a bias that there is not; otherwise new arrays.
    Raises `ArgumentError` for shapes or dtypes that do not go together, or an unknown activation.
    """
    check_activation("mlp_backward", activation)
    check_dimensions("mlp_backward", x, w1, 2)
    hidden, change = (empty_like(x, (x.shape[0], w1.shape[1])) for _ in range(2))
    kept = constant_like(x, 0.0, (w1.shape[1],)) if b1 is None else b1
    mlp_between(grad, x, w1, kept, w2, hidden, change, activation)
    of_x, of_w1 = matmul(change, w1.swapaxes(0, 1)), matmul(x.swapaxes(0, 1), change)
    of_b1, of_b2 = (None if bias is None else sum_along(over, 0) for bias, over in ((b1, change), (b2, grad)))
    return of_x, of_w1, of_b1, matmul(hidden.swapaxes(0, 1), grad), of_b2


def _before_activation(
    function: str, grad: Array, a: Array, b: Array, bias: Array | None, activation: str | None, precision: str | None
) -> Array:
    """The gradient of a @ b + bias, batches of each; `grad` itself where there is no activation."""
    activation = "none" if activation is None else activation
    check_activation(function, activation)
    precision = check_precision(function, precision)
    if activation == "none":
        return grad
    bias = constant_like(a, 0.0, (b.shape[-1],)) if bias is None else bias
    change = empty_like(grad, tuple(grad.shape))
    slopes_of_products(grad, a, b, bias, change, activation, precision)
    return change
