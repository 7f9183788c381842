"""Gradients of matrix products with bias and activation, one, many, and two layers of them."""

from __future__ import annotations

from jaxtyping import Float

from .activations import activate_into, before_activation, slopes_into
from .annotations import Activation
from .arrays import Array, as_rows, empty_like
from .declared import checked
from .dense import Precision, batched_matmul, matmul
from .reductions import sum as sum_along
from .replay import replayed


@replayed
@checked
def matmul_backward(
    grad: Float[Array, "M N"],
    a: Float[Array, "M K"],
    b: Float[Array, "K N"],
    bias: Float[Array, "N"] | None = None,
    activation: Activation | None = None,
    precision: Precision | None = None,
) -> tuple[Array, Array, Array | None]:
    """The gradients of a, b and bias, of the gradient of `matmul(a, b, bias, activation)`; none where there is no bias.

    `grad`: M × N; all of one dtype. With an activation the product is computed again, so that nothing of it need be
    kept; its slope times `grad` is rounded to that dtype. New arrays.
    Raises `ArgumentError` for shapes or dtypes that do not go together.
    """
    if activation not in (None, "none"):
        grad = before_activation(grad, matmul(a, b, bias, None, precision, _products(grad)), activation)
    of_a = matmul(grad, b.swapaxes(0, 1), precision=precision)
    of_b = matmul(a.swapaxes(0, 1), grad, precision=precision)
    return of_a, of_b, None if bias is None else sum_along(grad, 0)


@replayed
@checked
def batched_matmul_backward(
    grad: Float[Array, "B M N"],
    a: Float[Array, "B M K"],
    b: Float[Array, "B K N"] | Float[Array, "K N"],
    bias: Float[Array, "N"] | None = None,
    activation: Activation | None = None,
    precision: Precision | None = None,
) -> tuple[Array, Array, Array | None]:
    """The gradients of a, b and bias, of the gradient of `batched_matmul(a, b, bias, activation)`: new arrays.

    `grad`: B × M × N; the rest is as of `matmul_backward`. That of one b for all is the sum over n.
    """
    if b.ndim == 2:
        of_a, of_b, of_bias = matmul_backward(as_rows(grad), as_rows(a), b, bias, activation, precision)
        return of_a.reshape(a.shape), of_b, of_bias
    if activation not in (None, "none"):
        grad = before_activation(grad, batched_matmul(a, b, bias, None, precision, _products(grad)), activation)
    of_a = batched_matmul(grad, b.swapaxes(1, 2), precision=precision)
    of_b = batched_matmul(a.swapaxes(1, 2), grad, precision=precision)
    return of_a, of_b, None if bias is None else sum_along(as_rows(grad), 0)


@replayed
@checked
def mlp_backward(
    grad: Float[Array, "M N"],
    x: Float[Array, "M K"],
    w1: Float[Array, "K H"],
    b1: Float[Array, "H"] | None,
    w2: Float[Array, "H N"],
    b2: Float[Array, "N"] | None = None,
    activation: Activation = "relu",
) -> tuple[Array, Array, Array | None, Array, Array | None]:
    """The gradients of x, w1, b1, w2 and b2, of the gradient of `mlp(x, w1, b1, w2, b2, activation)`.

    `grad`: M × N; all of one dtype, to which what lies between the layers, computed again, and its gradient are
    rounded. None for a bias that there is not; otherwise new arrays.
    Raises `ArgumentError` for shapes or dtypes that do not go together, or an unknown activation.
    """
    products, upper = (empty_like(x, (x.shape[0], w1.shape[1]), computed=True) for _ in range(2))
    matmul(x, w1, b1, out=products)
    hidden = activate_into(products, activation, empty_like(x, tuple(products.shape)))
    matmul(grad, w2.swapaxes(0, 1), out=upper)
    change = slopes_into(upper, products, activation, empty_like(x, tuple(products.shape)))
    of_x, of_w1 = matmul(change, w1.swapaxes(0, 1)), matmul(x.swapaxes(0, 1), change)
    of_b1, of_b2 = (None if bias is None else sum_along(over, 0) for bias, over in ((b1, change), (b2, grad)))
    return of_x, of_w1, of_b1, matmul(hidden.swapaxes(0, 1), grad), of_b2


def _products(grad: Array) -> Array:
    """Room for products as they are computed."""
    return empty_like(grad, tuple(grad.shape), computed=True)
