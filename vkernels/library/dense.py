"""Matrix products, single and batched, with bias and activation in the same pass, and two layers in one launch."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Float

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .activations import activate_into, activated, before_activation, slopes_into
from .arrays import (
    Array,
    as_rows,
    check_apart,
    constant_like,
    dtype_name,
    empty_like,
    empty_of,
    fill,
    is_narrow_on_cpu,
    is_of_eight_bits,
)
from .declared import Activation, OneOf, Result, checked, replayed
from .reductions import sum as sum_along
from .samples import entry

__all__ = ["batched_matmul", "matmul", "mlp"]

Precision = Annotated[str, OneOf(("ieee", "tf32"))]


@vk.kernel
def matmul_bias(
    a: Float[vk.Tensor, "M K"],
    b: Float[vk.Tensor, "K N"],
    bias: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
    activation: vk.Constant = "none",
    precision: vk.Constant = "ieee",
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    product = vk.dot(a[i, k], b[k, j], precision=precision)
    out[i, j] = activated(product + bias[j], activation)


@vk.kernel
def matmul_batches(
    a: Float[vk.Tensor, "B M K"],
    b: Float[vk.Tensor, "B K N"],
    bias: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "B M N"],
    activation: vk.Constant = "none",
    precision: vk.Constant = "ieee",
):
    n = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    product = vk.dot(a[n, i, k], b[n, k, j], precision=precision)
    out[n, i, j] = activated(product + bias[j], activation)


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
def matmul(
    a: Float[Array, "M K"],
    b: Float[Array, "K N"],
    bias: Float[Array, "N"] | None = None,
    activation: Activation | None = None,
    precision: Precision | None = None,
    out: Result[Array, "M N"] | None = None,
    dtype: str | None = None,
) -> Array:
    """activation(a @ b + bias), the sum over K kept in f32 (f64 for f64 operands) until the end.

    `a`: M × K, `b`: K × N, of any strides, transposes included, and of one dtype: f64, f32, f16 or bf16; or one of the
    two f8 on GPUs whose tensor cores take it. `bias`: N elements, or none. `activation`: none, relu, gelu (exact, with
    erf), gelu_tanh, silu, sigmoid or tanh. `precision`: "ieee", or "tf32", which lets devices that have it round f32
    operands to tf32, and add up to 128 products of f8 in fewer bits than f32 has (sm_90 is much faster so). Returns
    `out`, or a new M × N array of the dtype that `dtype` names, such as "float16": a's where it names none, float32
    for f8.
    Raises `ArgumentError` for shapes or dtypes that do not match, and for an unknown activation or precision.
    """
    out = _room("matmul", a, (a.shape[0], b.shape[1]), dtype, out)
    bias = _no_bias(out, b.shape[1]) if bias is None else bias
    check_apart("matmul", out, a=a, b=b)
    matmul_bias(a, b, bias, out, activation or "none", precision or "ieee")
    return out


@replayed
@checked
def batched_matmul(
    a: Float[Array, "B M K"],
    b: Float[Array, "B K N"] | Float[Array, "K N"],
    bias: Float[Array, "N"] | None = None,
    activation: Activation | None = None,
    precision: Precision | None = None,
    out: Result[Array, "B M N"] | None = None,
    dtype: str | None = None,
) -> Array:
    """activation(a[n] @ b[n] + bias) for each n, or with one b for all.

    `a`: B × M × K, `b`: B × K × N or K × N; otherwise as `matmul`. Returns `out`, or a new B × M × N array.
    """
    out = _room("batched_matmul", a, (*a.shape[:2], b.shape[-1]), dtype, out)
    if b.ndim == 2:
        return fill(out, out, lambda results: matmul(as_rows(a), b, bias, activation, precision, results))
    bias = _no_bias(out, b.shape[2]) if bias is None else bias
    check_apart("batched_matmul", out, a=a, b=b)
    matmul_batches(a, b, bias, out, activation or "none", precision or "ieee")
    return out


def _room(function: str, a: Array, shape: tuple[int, ...], dtype: str | None, out: Array | None) -> Array:
    if out is None:
        dtype = "float32" if dtype is None and is_of_eight_bits(a) else dtype
        return empty_like(a, shape) if dtype is None else empty_of(a, shape, dtype, function)
    found = dtype_name(out)
    if dtype not in (None, found):
        raise ArgumentError(f"{function}: out has dtype {found}, expected {dtype}, as dtype says")
    return out


def _no_bias(out: Array, columns: int) -> Array:
    """A bias of zeros; f8 does not promote with other dtypes."""
    like = empty_of(out, (0,), "float32") if is_of_eight_bits(out) else out
    return constant_like(like, 0.0, (columns,))


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
    Raises `ArgumentError` for shapes or dtypes that do not match, or an unknown activation.
    """
    out = empty_like(x, (x.shape[0], w2.shape[-1])) if out is None else out
    b1 = constant_like(x, 0.0, (w1.shape[-1],)) if b1 is None else b1
    b2 = constant_like(x, 0.0, (w2.shape[-1],)) if b2 is None else b2
    check_apart("mlp", out, x=x, w1=w1, w2=w2)
    if is_narrow_on_cpu(x):  # dot units take operands from memory, so that `hidden` must be there
        hidden = empty_like(x, (x.shape[0], w1.shape[1]))
        matmul_bias(x, w1, b1, hidden, activation)
        matmul_bias(hidden, w2, b2, out)
    else:
        mlp_rows(x, w1, b1, w2, b2, out, activation)
    return out


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
    """The gradients of a, b and bias, given the gradient of `matmul(a, b, bias, activation)`; None without a bias.

    `grad`: M × N; all of one dtype. With an activation the product is recomputed, so nothing of it is kept;
    the activation's derivative times `grad` is rounded to that dtype. New arrays.
    Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    grad = before_activation(grad, activation, lambda products: matmul(a, b, bias, None, precision, products))
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
    """The gradients of a, b and bias, given the gradient of `batched_matmul(a, b, bias, activation)`: new arrays.

    `grad`: B × M × N; otherwise as `matmul_backward`. The gradient of a shared b is the sum over n.
    """
    if b.ndim == 2:
        of_a, of_b, of_bias = matmul_backward(as_rows(grad), as_rows(a), b, bias, activation, precision)
        return of_a.reshape(a.shape), of_b, of_bias
    grad = before_activation(grad, activation, lambda products: batched_matmul(a, b, bias, None, precision, products))
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
    products: Float[Array, "M H"] | None = None,
) -> tuple[Array, Array, Array | None, Array, Array | None]:
    """The gradients of x, w1, b1, w2 and b2, given the gradient of `mlp(x, w1, b1, w2, b2, activation)`.

    `grad`: M × N; all of one dtype. `products`: `matmul(x, w1, b1)`, M × H, if that was kept; else it is computed
    again, one product more than the other four. What is between the layers, and its gradient, is rounded to that dtype.
    None for a missing bias; otherwise new arrays.
    Raises `ArgumentError` for shapes or dtypes that do not match, or an unknown activation.
    """
    size = x.shape[0], w1.shape[1]
    upper = empty_like(x, size, computed=True)
    if products is None:
        products = matmul(x, w1, b1, out=empty_like(x, size, computed=True))
    hidden = activate_into(products, activation, empty_like(x, tuple(products.shape)))
    matmul(grad, w2.swapaxes(0, 1), out=upper)
    change = slopes_into(upper, products, activation, empty_like(x, tuple(products.shape)))
    of_x, of_w1 = matmul(change, w1.swapaxes(0, 1)), matmul(x.swapaxes(0, 1), change)
    of_b1, of_b2 = (None if bias is None else sum_along(over, 0) for bias, over in ((b1, change), (b2, grad)))
    return of_x, of_w1, of_b1, matmul(hidden.swapaxes(0, 1), grad), of_b2


CATALOGUE = (
    entry("matmul", matmul_bias, {"M": 4096, "N": 4096, "K": 4096}, {"M": 512, "N": 512, "K": 512}),
    entry(
        "batched_matmul", matmul_batches, {"B": 64, "M": 512, "N": 512, "K": 64}, {"B": 8, "M": 256, "N": 256, "K": 256}
    ),
    entry("mlp", mlp_rows, {"M": 4096, "K": 1024, "H": 4096, "N": 1024}, {"M": 256, "K": 256, "H": 1024, "N": 256}),
)
