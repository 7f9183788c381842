"""Matrix products, one or many, with bias and activation in the same pass; gradients stand in `dense_gradients`."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Float

import vkernels as vk

from .activations import activated
from .annotations import Activation, OneOf, Result
from .arrays import Array, as_rows, check_apart, constant_like, empty_like, empty_of, give_back, is_of_eight_bits
from .declared import checked
from .replay import replayed

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
    Raises `ArgumentError` for shapes or dtypes that do not go together, and for an unknown activation or precision.
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

    `a`: B × M × K, `b`: B × K × N or K × N; the rest is as of `matmul`. Returns `out`, or a new B × M × N array.
    """
    out = _room("batched_matmul", a, (*a.shape[:2], b.shape[-1]), dtype, out)
    if b.ndim == 2:
        results = as_rows(out)
        matmul(as_rows(a), b, bias, activation, precision, results)
        give_back(results, out)
        return out
    bias = _no_bias(out, b.shape[2]) if bias is None else bias
    check_apart("batched_matmul", out, a=a, b=b)
    matmul_batches(a, b, bias, out, activation or "none", precision or "ieee")
    return out


def _room(function: str, a: Array, shape: tuple[int, ...], dtype: str | None, out: Array | None) -> Array:
    """`out`, or a new array for products, of a dtype by its name or else of a's, float32 for f8."""
    if out is None:
        dtype = "float32" if dtype is None and is_of_eight_bits(a) else dtype
        return empty_like(a, shape) if dtype is None else empty_of(a, shape, dtype, function)
    found = str(out.dtype).removeprefix("torch.")
    if dtype not in (None, found):
        raise vk.ArgumentError(f"{function}: out has dtype {found}, expected {dtype}, as dtype says")
    return out


def _no_bias(out: Array, columns: int) -> Array:
    """A bias of zeros; f8 meets no other dtype."""
    like = empty_of(out, (0,), "float32") if is_of_eight_bits(out) else out
    return constant_like(like, 0.0, (columns,))
