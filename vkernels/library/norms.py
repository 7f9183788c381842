"""Normalisation to unit length, by root mean square and by groups, with gradients, also of layer normalisation."""

from __future__ import annotations

import math

from jaxtyping import Float

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError
from vkernels.language.kernel import Kernel

from .arrays import Array, as_rows, constant_like, empty_like, fill
from .declared import AtLeastOne, Result, checked, replayed
from .reductions import reduce_middle
from .samples import CPU_ROWS, SHORT_ROWS, SampleInputs, ceil_div, entry, numbers

__all__ = ["group_norm", "l2_normalize", "rms_norm"]


@vk.kernel
def rms_norm_rows(
    x: Float[vk.Tensor, "M N"], weight: Float[vk.Tensor, "N"], eps: vk.Scalar, out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i, j] = row * vk.rsqrt(vk.mean(row * row, axis=j) + eps) * weight[j]


@vk.kernel
def l2_normalize_rows(x: Float[vk.Tensor, "M N"], eps: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i, j] = row / vk.maximum(vk.sqrt(vk.sum(row * row, axis=j)), eps)


@vk.kernel
def l2_normalize_gradient(
    grad: Float[vk.Tensor, "M N"], x: Float[vk.Tensor, "M N"], eps: vk.Scalar, out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.whole("N")
    row, change = x[i, j], grad[i, j]
    norm = vk.sqrt(vk.sum(row * row, axis=j))
    length = vk.maximum(norm, eps)
    normal = row / length
    along = vk.where(norm < eps, 0.0, vk.sum(change * normal, axis=j))  # below eps the length is constant
    out[i, j] = (change - normal * along) / length


@vk.kernel
def rms_norm_gradient(
    grad: Float[vk.Tensor, "M N"],
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    eps: vk.Scalar,
    each: int,
    out: Float[vk.Tensor, "M N"],
    of_weight: Float[vk.Tensor, "P N"],
):
    p = vk.tile("P")
    j = vk.whole("N")
    slopes = vk.zeros((p, j), vk.float64 if x.dtype == vk.float64 else vk.float32)
    for i in vk.range(p * each, vk.minimum((p + 1) * each, vk.size("M"))):
        row = x[i, j]
        change = grad[i, j]
        factor = vk.rsqrt(vk.mean(row * row, axis=j) + eps)
        normal = row * factor
        weighed = change * weight[j]
        out[i, j] = factor * (weighed - normal * vk.mean(weighed * normal, axis=j))
        slopes += change * normal
    of_weight[p, j] = slopes


@vk.kernel
def layer_norm_gradient(
    grad: Float[vk.Tensor, "M N"],
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    eps: vk.Scalar,
    each: int,
    out: Float[vk.Tensor, "M N"],
    of_weight: Float[vk.Tensor, "P N"],
    of_bias: Float[vk.Tensor, "P N"],
):
    p = vk.tile("P")
    j = vk.whole("N")
    slopes = vk.zeros((p, j), vk.float64 if x.dtype == vk.float64 else vk.float32)
    total = vk.zeros((p, j), vk.float64 if x.dtype == vk.float64 else vk.float32)
    for i in vk.range(p * each, vk.minimum((p + 1) * each, vk.size("M"))):
        row = x[i, j]
        change = grad[i, j]
        centred = row - vk.mean(row, axis=j)
        factor = vk.rsqrt(vk.mean(centred * centred, axis=j) + eps)
        normal = centred * factor
        weighed = change * weight[j]
        out[i, j] = factor * (weighed - vk.mean(weighed, axis=j) - normal * vk.mean(weighed * normal, axis=j))
        slopes += change * normal
        total += change
    of_weight[p, j] = slopes
    of_bias[p, j] = total


@vk.kernel
def group_norm_groups(
    x: Float[vk.Tensor, "B G C S"],
    weight: Float[vk.Tensor, "G C"],
    bias: Float[vk.Tensor, "G C"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "B G C S"],
):
    b = vk.tile("B")
    g = vk.tile("G")
    c = vk.whole("C")
    s = vk.whole("S")
    group = x[b, g, c, s]
    centred = group - vk.mean(group, axis=(c, s))
    variance = vk.mean(centred * centred, axis=(c, s))
    out[b, g, c, s] = centred * vk.rsqrt(variance + eps) * weight[g, c] + bias[g, c]


@vk.kernel
def group_norm_gradient(
    grad: Float[vk.Tensor, "B G C S"],
    x: Float[vk.Tensor, "B G C S"],
    weight: Float[vk.Tensor, "G C"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "B G C S"],
    of_weight: Float[vk.Tensor, "B G C"],
    of_bias: Float[vk.Tensor, "B G C"],
):
    b = vk.tile("B")
    g = vk.tile("G")
    c = vk.whole("C")
    s = vk.whole("S")
    group, change, scale = x[b, g, c, s], grad[b, g, c, s], weight[g, c]
    elements = vk.size("C") * vk.size("S")
    # The sums of the group follow from those of its channels: each tensor is read three times, once for the result.
    total = vk.sum(change, axis=s)
    centred = group - vk.sum(vk.sum(group, axis=s), axis=c) / elements
    along = vk.sum(change * centred, axis=s)
    factor = vk.rsqrt(vk.sum(vk.sum(centred * centred, axis=s), axis=c) / elements + eps)
    level = vk.sum(scale * total, axis=c) / elements
    slope = factor * factor * vk.sum(scale * along, axis=c) / elements
    out[b, g, c, s] = factor * (change * scale - level - centred * slope)
    of_weight[b, g, c] = factor * along
    of_bias[b, g, c] = total


@replayed
@checked
def rms_norm(
    x: Float[Array, "*B N"],
    weight: Float[Array, "N"] | None = None,
    eps: float = 1e-5,
    out: Result[Array, "*B N", "x"] | None = None,
) -> Array:
    """x / sqrt(mean(x²) + eps) * weight along the last dimension (Zhang, Sennrich 2019).

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. `weight`: one element a
    column, or none. Returns `out`, or a new array like x.
    Raises `ArgumentError` for other dtypes or shapes that do not match.
    """
    weight = _ones(x) if weight is None else weight
    return fill(out, x, lambda results: rms_norm_rows(as_rows(x), weight, eps, results))


@replayed
@checked
def rms_norm_backward(
    grad: Float[Array, "*B N"], x: Float[Array, "*B N"], weight: Float[Array, "N"] | None = None, eps: float = 1e-5
) -> tuple[Array, Array]:
    """The gradients of x and weight, given the gradient of `rms_norm(x, weight, eps)`: new arrays.

    `grad`: of x's shape and dtype. Raises `ArgumentError` as `rms_norm` does.
    """
    out, (of_weight,) = _gradients(rms_norm_gradient, 1, grad, x, weight, eps)
    return out, of_weight


@replayed
@checked
def l2_normalize(x: Float[Array, "*B N"], eps: float = 1e-12, out: Result[Array, "*B N", "x"] | None = None) -> Array:
    """x / max(sqrt(sum(x²)), eps) along the last dimension: rows of length 1.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. `eps`: the divisor of
    shorter rows. Returns `out`, or a new array of x's shape and dtype. NaN anywhere in a row gives a row of NaN.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    return fill(out, x, lambda results: l2_normalize_rows(as_rows(x), eps, results))


@replayed
@checked
def l2_normalize_backward(
    grad: Float[Array, "*B N"],
    x: Float[Array, "*B N"],
    eps: float = 1e-12,
    out: Result[Array, "*B N", "grad"] | None = None,
) -> Array:
    """The gradient of x, given the gradient of `l2_normalize(x, eps)`.

    `grad`, `x`: of one shape and dtype. Rows shorter than `eps` are only divided by it. Returns `out`, or a new array
    like `grad`. Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    return fill(out, grad, lambda results: l2_normalize_gradient(as_rows(grad), as_rows(x), eps, results))


@replayed
@checked
def layer_norm_backward(
    grad: Float[Array, "*B N"], x: Float[Array, "*B N"], weight: Float[Array, "N"] | None = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias, given the gradient of `layer_norm(x, weight, bias, eps)`: new arrays.

    `grad`: of x's shape and dtype. Raises `ArgumentError` as `layer_norm` does.
    """
    out, (of_weight, of_bias) = _gradients(layer_norm_gradient, 2, grad, x, weight, eps)
    return out, of_weight, of_bias


ROWS = 32
"""Rows per program that sums gradients of parameters, at least."""
PARTS = 256
"""Partial sums of these gradients, at most."""


def _gradients(
    kernel: Kernel, count: int, grad: Array, x: Array, weight: Array | None, eps: float
) -> tuple[Array, list[Array]]:
    """The gradient of x, and those of `count` parameters, as partial sums, so that rows are read once."""
    grad, rows, weight = as_rows(grad), as_rows(x), _ones(x) if weight is None else weight
    each = max(ROWS, -(-rows.shape[0] // PARTS))
    parts = max(1, -(-rows.shape[0] // each))
    out, columns = empty_like(x, tuple(x.shape)), tuple(weight.shape)
    results = [empty_like(x, columns) for _ in range(count)]
    if parts == 1:
        kernel(grad, rows, weight, eps, each, as_rows(out), *(result[None] for result in results))
        return out, results
    partial = [empty_like(x, (parts, *columns), computed=True) for _ in range(count)]
    kernel(grad, rows, weight, eps, each, as_rows(out), *partial)
    for one, result in zip(partial, results, strict=True):
        reduce_middle(one[None], result[None], "sum")
    return out, results


@replayed
@checked
def group_norm(
    x: Float[Array, "B C *S"],
    groups: AtLeastOne,
    weight: Float[Array, "C"] | None = None,
    bias: Float[Array, "C"] | None = None,
    eps: float = 1e-5,
    out: Result[Array, "B C *S", "x"] | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over each group of consecutive channels (Wu, He 2018).

    `x`: B × C × any more, of any strides; f64, f32, f16 or bf16, the latter two computed in f32. `groups`: divides C.
    `weight` and `bias`: one element a channel, or none. The variance is that of the centred group, divided by its
    number of elements. Returns `out`, or a new array like x.
    Raises `ArgumentError` for other dtypes, groups or shapes that do not match.
    """
    _check_groups("group_norm", x, groups)
    cut, parameters = _as_groups(x, groups), (_of_channels(x, 1.0, weight, groups), _of_channels(x, 0.0, bias, groups))
    return fill(
        out, x, lambda results: group_norm_groups(cut, *parameters, eps, results), lambda out: _as_groups(out, groups)
    )


@replayed
@checked
def group_norm_backward(
    grad: Float[Array, "B C *S"],
    x: Float[Array, "B C *S"],
    groups: AtLeastOne,
    weight: Float[Array, "C"] | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias, given the gradient of `group_norm(x, groups, weight, bias, eps)`: new
    arrays.

    `grad`: of x's shape and dtype. Raises `ArgumentError` as `group_norm` does.
    """
    _check_groups("group_norm_backward", x, groups)
    grad, cut = _as_groups(grad, groups), _as_groups(x, groups)
    weight = _of_channels(x, 1.0, weight, groups)
    out = empty_like(x, tuple(cut.shape))
    results = [empty_like(x, (x.shape[1],)) for _ in range(2)]
    if cut.shape[3] == 0:  # groups have no mean, but channels no element that their gradients depend on
        results[0][...], results[1][...] = 0, 0
        return out.reshape(x.shape), results[0], results[1]
    partial = [empty_like(x, tuple(cut.shape[:3]), computed=True) for _ in range(2)]
    group_norm_gradient(grad, cut, weight, eps, out, *partial)
    for one, result in zip(partial, results, strict=True):
        reduce_middle(one.reshape((1, x.shape[0], x.shape[1])), result[None], "sum")
    return out.reshape(x.shape), results[0], results[1]


def _ones(x: Array) -> Array:
    return constant_like(x, 1.0, (x.shape[-1],))


def _of_channels(x: Array, value: float, given: Array | None, groups: int) -> Array:
    shape = (groups, x.shape[1] // groups)
    return constant_like(x, value, shape) if given is None else given.reshape(shape)


def _check_groups(function: str, x: Array, groups: int) -> None:
    if x.shape[1] % groups:
        raise ArgumentError(
            f"{function}: x has shape {tuple(x.shape)} for {groups} groups, expected "
            "batches of channels that the groups divide"
        )


def _as_groups(x: Array, groups: int) -> Array:
    """B × C × … as B × groups × C / groups × the rest; a view if strides allow one."""
    return x.reshape((x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:])))


_EPS = SampleInputs(numbers=numbers(eps=1e-5))
_PARTS_OF_ROWS = SampleInputs(numbers=lambda sizes: {"eps": 1e-5, "each": ceil_div(sizes["M"], sizes["P"])})
_CHANNELS, _CPU_CHANNELS = {"B": 32, "G": 32, "C": 8, "S": 3136}, {"B": 8, "G": 32, "C": 2, "S": 1024}


CATALOGUE = (
    entry(
        "layer_norm",
        layer_norm_gradient,
        {**SHORT_ROWS, "P": 128},
        {**CPU_ROWS, "P": 32},
        computed=("of_weight", "of_bias"),
        samples=_PARTS_OF_ROWS,
    ),
    entry(
        "rms_norm",
        rms_norm_gradient,
        {**SHORT_ROWS, "P": 128},
        {**CPU_ROWS, "P": 32},
        computed=("of_weight",),
        samples=_PARTS_OF_ROWS,
    ),
    entry("rms_norm", rms_norm_rows, SHORT_ROWS, CPU_ROWS, samples=_EPS),
    entry("l2_normalize", l2_normalize_rows, SHORT_ROWS, CPU_ROWS, samples=_EPS),
    entry("l2_normalize", l2_normalize_gradient, SHORT_ROWS, CPU_ROWS, samples=_EPS),
    entry("group_norm", group_norm_groups, _CHANNELS, _CPU_CHANNELS, samples=_EPS),
    entry("group_norm", group_norm_gradient, _CHANNELS, _CPU_CHANNELS, computed=("of_weight", "of_bias"), samples=_EPS),
)
