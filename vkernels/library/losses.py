"""The logarithm of softmax, and the cross entropy of classes, each with its gradient."""

from __future__ import annotations

import math
import operator
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int, Integer

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .arrays import Array, as_int64, as_rows, check_shape, empty_like, fill, integers_like, is_unsigned
from .declared import OneOf, Result, Share, checked, replayed
from .indices import is_read_here
from .replay import computed, expect
from .samples import CPU_ROWS, SHORT_ROWS, Arrays, Constants, SampleInputs, Sizes, entry, numbers, random_indices

__all__ = ["cross_entropy", "log_softmax"]

IGNORED = -100
"""The class of ignored rows, as in torch."""

Reduction = Annotated[str, OneOf(("mean", "sum", "none"))]


@vk.kernel
def log_softmax_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    shifted = row - vk.max(row, axis=j)
    out[i, j] = shifted - vk.log(vk.sum(vk.exp(shifted), axis=j))


@vk.kernel
def log_softmax_gradient(grad: Float[vk.Tensor, "M N"], result: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = grad[i, j] - vk.exp(result[i, j]) * vk.sum(grad[i, j], axis=j)


@vk.kernel
def cross_entropy_rows(
    x: Float[vk.Tensor, "M V"],
    target: Integer[vk.Tensor, "M"],
    smoothing: vk.Scalar,
    ignored: int,
    loss: Float[vk.Tensor, "M"],
    normaliser: Float[vk.Tensor, "M"],
):
    i = vk.tile("M")
    v = vk.whole("V")
    row = x[i, v]
    peak = vk.max(row, axis=v)
    log_sum = peak + vk.log(vk.sum(vk.exp(row - peak), axis=v))
    counts = target[i].to(vk.int64) != ignored  # `ignored` need not fit into the target's dtype
    hit = vk.load(x[i, target[i]], where=counts)
    smooth = vk.where(smoothing == 0.0, 0.0, vk.mean(row, axis=v) * smoothing)  # -inf * 0 is no number
    loss[i] = vk.where(counts, log_sum - (1.0 - smoothing) * hit - smooth, 0.0)
    normaliser[i] = log_sum


@vk.kernel
def cross_entropy_gradient(
    grad: Float[vk.Tensor, "M"],
    x: Float[vk.Tensor, "M V"],
    target: Integer[vk.Tensor, "M"],
    normaliser: Float[vk.Tensor, "M"],
    smoothing: vk.Scalar,
    ignored: int,
    out: Float[vk.Tensor, "M V"],
):
    i = vk.tile("M")
    v = vk.tile("V")
    share = vk.exp(x[i, v] - normaliser[i]) - smoothing / vk.size("V")
    change = vk.where(v == target[i].to(vk.int64), share - (1.0 - smoothing), share)
    out[i, v] = vk.where(target[i].to(vk.int64) != ignored, change * grad[i], 0.0)


@vk.kernel
def add_up(
    loss: Float[vk.Tensor, "M"],
    target: Integer[vk.Tensor, "M"],
    ignored: int,
    total: Float[vk.Tensor, "1"],
    count: Float[vk.Tensor, "1"],
    mean: vk.Constant = True,
):
    i = vk.tile(1)
    j = vk.whole("M")
    number = vk.sum(vk.where(target[j].to(vk.int64) != ignored, 1, 0), axis=j)  # floats count no further than 2^24
    sum_ = vk.sum(loss[j], axis=j)
    total[i] = sum_ / number if mean else sum_
    count[i] = number


@vk.kernel
def find_classes(target: Integer[vk.Tensor, "M"], ignored: int, least: Int[vk.Tensor, "1"], most: Int[vk.Tensor, "1"]):
    one = vk.tile(1)
    i = vk.whole("M")
    class_ = target[i].to(vk.int64)
    number = vk.where(class_ == ignored, 0, class_)
    least[one] = vk.min(number, axis=i)
    most[one] = vk.max(number, axis=i)


@replayed
@checked
def log_softmax(x: Float[Array, "*B N"], out: Result[Array, "*B N", "x"] | None = None) -> Array:
    """x - log(sum(exp(x))) along the last dimension, computed with the row's maximum subtracted.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. Returns `out`, or a new array of
    x's shape and dtype. NaN or +inf anywhere in a row gives a row of NaN, as in torch.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    return fill(out, x, lambda results: log_softmax_rows(as_rows(x), results))


@replayed
@checked
def log_softmax_backward(
    grad: Float[Array, "*B N"], result: Float[Array, "*B N"], out: Result[Array, "*B N", "grad"] | None = None
) -> Array:
    """The gradient of x, given the gradient of `log_softmax(x)` and that result: grad - exp(result) * sum(grad).

    All of one shape and dtype. Returns `out`, or a new array like them. Raises `ArgumentError` where they are not.
    """
    return fill(out, grad, lambda results: log_softmax_gradient(as_rows(grad), as_rows(result), results))


@replayed
@checked
def cross_entropy(
    x: Float[Array, "M V"],
    target: Integer[Array, "M"],
    ignored: int = IGNORED,
    smoothing: Share = 0.0,
    reduction: Reduction = "mean",
    checked: bool = True,
) -> Array:
    """-log softmax(x)[target] for each row, averaged over rows, added up, or as they are.

    `x`: M rows of V scores; f64, f32, f16 or bf16, the latter two computed in f32. `target`: M integers from 0 up to V,
    or `ignored`, whose rows are 0 and do not count. `smoothing`: the share of the loss that is the mean over all
    classes (label smoothing, Szegedy et al. 2016). `reduction`: mean, sum or none. Nothing of x's size is kept.
    Returns a new array of x's dtype: of no dimensions, or M losses. The mean of no rows is NaN, as in torch.
    `checked`: read `target` first; otherwise it must be right.
    Raises `ArgumentError` for other shapes, dtypes or reductions, and for targets out of range.
    """
    return cross_entropy_parts(x, target, ignored, smoothing, reduction, checked)[0]


@replayed
@checked
def cross_entropy_parts(
    x: Float[Array, "M V"],
    target: Integer[Array, "M"],
    ignored: int,
    smoothing: Share,
    reduction: Reduction,
    checked: bool,
) -> tuple[Array, Array, Array]:
    """The loss as `cross_entropy` returns it, and the data for its gradient, in the dtype of the computation:
    log(sum(exp(x))) of each of the M rows, and the number of rows that count. Raises `ArgumentError` as it does."""
    if checked:
        _check_classes(x, target, ignored)
    normaliser, count = (empty_like(x, shape, computed=True) for shape in ((x.shape[0],), (1,)))
    loss = empty_like(x, (x.shape[0],), computed=reduction != "none")
    total = empty_like(x, (1,))
    cross_entropy_rows(x, target, smoothing, ignored, loss, normaliser)
    add_up(loss, target, ignored, total, count, reduction == "mean")
    return (loss if reduction == "none" else total.reshape(())), normaliser, count


@replayed
@checked
def cross_entropy_backward(
    grad: Float[Array, ""] | Float[Array, "M"],
    x: Float[Array, "M V"],
    target: Integer[Array, "M"],
    normaliser: Float[Array, "M"],
    count: Float[Array, "1"],
    ignored: int = IGNORED,
    smoothing: Share = 0.0,
    reduction: Reduction = "mean",
    out: Result[Array, "M V", "x"] | None = None,
) -> Array:
    """The gradient of x: grad times the difference of softmax(x) and the target distribution.

    `grad`: as the loss. `normaliser`, `count`: from `cross_entropy_parts`. Other arguments: as for `cross_entropy`.
    Returns `out`, or a new array like x. Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    check_shape("cross_entropy_backward", "grad", grad, (x.shape[0],) if reduction == "none" else ())
    out = empty_like(x, tuple(x.shape)) if out is None else out
    each = computed(operator.truediv, grad, count) if reduction == "mean" else grad
    each = each if reduction == "none" else _repeated(each.reshape((1,)), x.shape[0])
    cross_entropy_gradient(each, x, target, normaliser, smoothing, ignored, out)
    return out


def _repeated(one: Array, times: int) -> Array:
    if hasattr(one, "expand"):
        return one.expand(times)
    return np.broadcast_to(one, (times,))


def _check_classes(x: Array, target: Array, ignored: int) -> None:
    """Raise `ArgumentError` for targets out of range.

    Large uint64 targets look negative as int64, but are no negative class.
    """
    is_found = ignored >= 0 or not is_unsigned(target)
    if 0 not in target.shape and is_read_here(target):
        classes = x.shape[1]  # the recorded check must not keep tensors alive
        found = integers_like(target, (2,))
        find_classes(target, ignored if is_found else 0, found[0:1], found[1:2])
        if expect(found, lambda numbers: numbers[0] >= 0 and numbers[1] < classes):
            return
    wide = as_int64(target)  # `ignored` may not fit into other dtypes
    outside = (wide < 0) | (wide >= x.shape[1])
    if is_found:
        outside &= wide != ignored
    if bool(outside.any()):
        wrong = int(wide[outside][0])
        raise ArgumentError(f"cross_entropy: target holds {wrong}, expected 0 to {x.shape[1] - 1} or {ignored}")


def _random_classes(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    normaliser = math.log(max(1, sizes.get("V", 1))) + 0.5 + 0.1 * random.standard_normal(sizes["M"])
    return {"target": random_indices(sizes.get("V", 10), sizes["M"], random), "normaliser": normaliser}


_CLASSES = SampleInputs(numbers=numbers(ignored=IGNORED), arrays=_random_classes)
_ROWS_OF_CLASSES = SampleInputs(numbers=numbers(smoothing=0.0, ignored=IGNORED), arrays=_random_classes)


CATALOGUE = (
    entry("log_softmax", log_softmax_rows, SHORT_ROWS, CPU_ROWS),
    entry("log_softmax", log_softmax_gradient, SHORT_ROWS, CPU_ROWS),
    entry(
        "cross_entropy",
        cross_entropy_rows,
        {"M": 8192, "V": 32768},
        {"M": 512, "V": 8192},
        computed=("loss", "normaliser"),
        samples=_ROWS_OF_CLASSES,
    ),
    entry(
        "cross_entropy",
        cross_entropy_gradient,
        {"M": 8192, "V": 32768},
        {"M": 512, "V": 8192},
        computed=("grad", "normaliser"),
        samples=_ROWS_OF_CLASSES,
    ),
    entry("cross_entropy", add_up, {"M": 8192}, {"M": 65536}, "float32", samples=_CLASSES),
    entry("indices", find_classes, {"M": 8192}, {"M": 65536}, "int64", samples=_CLASSES),
)
