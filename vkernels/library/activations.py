"""Activations as helper functions and as kernels."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float

import vkernels.language as vk

from .annotations import ACTIVATIONS as ACTIVATIONS
from .arrays import Array, as_rows, empty_like, fill
from .declared import Activation, Result, checked, replayed
from .samples import CPU_ROWS, SHORT_ROWS, entry

__all__ = ["activate"]


@vk.function
def activated(x, activation: vk.Constant):
    if activation == "relu":
        return vk.relu(x)
    if activation == "gelu":
        return vk.gelu(x)
    if activation == "gelu_tanh":
        return vk.gelu(x, approximate="tanh")
    if activation == "silu":
        return vk.silu(x)
    if activation == "sigmoid":
        return vk.sigmoid(x)
    if activation == "tanh":
        return vk.tanh(x)
    return x


@vk.function
def slope(x, activation: vk.Constant):
    """The derivative of an activation."""
    if activation == "relu":
        return vk.where(x > 0.0, 1.0, vk.where(vk.isnan(x), x, 0.0))
    if activation == "gelu":
        share = 0.5 * (1.0 + vk.erf(x * 0.7071067811865476))
        return share + x * 0.3989422804014327 * vk.exp(-0.5 * x * x)
    if activation == "gelu_tanh":
        bent = vk.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
        return 0.5 * (1.0 + bent) + 0.5 * x * (1.0 - bent * bent) * 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    if activation == "silu":
        share = vk.sigmoid(x)
        return share * (1.0 + x * (1.0 - share))
    if activation == "sigmoid":
        share = vk.sigmoid(x)
        return share * (1.0 - share)
    if activation == "tanh":
        bent = vk.tanh(x)
        return 1.0 - bent * bent
    return 1.0 + 0.0 * x


@vk.kernel
def activate_elements(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], activation: vk.Constant = "relu"):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = activated(x[i, j], activation)


@vk.kernel
def activation_gradient(
    grad: Float[vk.Tensor, "M N"],
    x: Float[vk.Tensor, "M N"],
    out: Float[vk.Tensor, "M N"],
    activation: vk.Constant = "relu",
):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = grad[i, j] * slope(x[i, j], activation)


@replayed
@checked
def activate(x: Float[Array, "*S"], activation: Activation, out: Result[Array, "*S", "x"] | None = None) -> Array:
    """An activation of each element: none, relu, gelu (exact, with erf), gelu_tanh, silu, sigmoid or tanh.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. Returns `out`, which may be x,
    or a new array like x.
    Raises `ArgumentError` for other dtypes or activations, and for an `out` of another shape or dtype.
    """
    return activate_into(x, activation, out)


@replayed
@checked
def activate_backward(
    grad: Float[Array, "*S"], x: Float[Array, "*S"], activation: Activation, out: Result[Array, "*S", "x"] | None = None
) -> Array:
    """The gradient of x, given the gradient of `activate(x, activation)`: grad times the activation's derivative at x.

    `grad`: of x's shape and dtype. Returns `out`, or a new array like x. Raises `ArgumentError` as `activate` does.
    """
    return slopes_into(grad, x, activation, out)


def before_activation(grad: Array, activation: str | None, compute: Callable[[Array], object]) -> Array:
    """The gradient of an activation's input, given that of its output: a new array like `grad`, or `grad` without one.

    `compute` writes the activation's input into an array.
    """
    if activation in (None, "none"):
        return grad
    products = empty_like(grad, tuple(grad.shape), computed=True)
    compute(products)
    return slopes_into(grad, products, activation, empty_like(grad, tuple(grad.shape)))


def activate_into(x: Array, activation: str, out: Array | None) -> Array:
    """`activate` into an array of any dtype, or a new array like x."""
    return fill(out, x, lambda results: activate_elements(as_rows(x), results, activation))


def slopes_into(grad: Array, x: Array, activation: str | None, out: Array | None) -> Array:
    """`activate_backward` into an array of any dtype, or a new array like x."""
    return fill(out, x, lambda results: activation_gradient(as_rows(grad), as_rows(x), results, activation))


CATALOGUE = (
    entry("activate", activate_elements, SHORT_ROWS, CPU_ROWS),
    entry("activate", activation_gradient, SHORT_ROWS, CPU_ROWS),
)
