"""Kernels on single elements or pairs of elements: dropout, rotary embedding, the AdamW step."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from jaxtyping import Float

import vkernels.language as vk

from .arrays import Array, as_rows, empty_like, fill, give_back
from .call_arguments import DynamicScalar, LiveInt
from .declared import AtLeastOne, NumberRange, Result, Share, Updated, checked, numbers_checked, replayed
from .samples import CPU_ROWS, SHORT_ROWS, SampleInputs, entry, numbers

__all__ = ["adamw", "dropout", "rotary_embedding"]


@vk.kernel
def drop_elements(
    x: Float[vk.Tensor, "M N"], probability: vk.Scalar, scale: vk.Scalar, seed: int, out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.tile("N")
    kept = vk.random(seed, i * vk.size("N") + j) >= probability
    out[i, j] = vk.where(kept, x[i, j] * scale, 0.0)


@vk.kernel
def rotate_pairs(
    x: Float[vk.Tensor, "B M H 2 P"],
    cosine: Float[vk.Tensor, "M P"],
    sine: Float[vk.Tensor, "M P"],
    direction: vk.Scalar,
    out: Float[vk.Tensor, "B M H 2 P"],
):
    b = vk.tile("B")
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.tile("P")
    one = x[b, m, h, 0, p]
    other = x[b, m, h, 1, p]
    turned = sine[m, p] * direction
    out[b, m, h, 0, p] = one * cosine[m, p] - other * turned
    out[b, m, h, 1, p] = other * cosine[m, p] + one * turned


@vk.kernel
def adamw_elements(
    parameter: Float[vk.Tensor, "M N"],
    grad: Float[vk.Tensor, "M N"],
    mean: Float[vk.Tensor, "M N"],
    square: Float[vk.Tensor, "M N"],
    keep: vk.Scalar,
    rate: vk.Scalar,
    beta1: vk.Scalar,
    beta2: vk.Scalar,
    correction: vk.Scalar,
    eps: vk.Scalar,
):
    i = vk.tile("M")
    j = vk.tile("N")
    slope_ = grad[i, j]
    m = beta1 * mean[i, j] + (1.0 - beta1) * slope_
    v = beta2 * square[i, j] + (1.0 - beta2) * slope_ * slope_
    mean[i, j] = m
    square[i, j] = v
    parameter[i, j] = keep * parameter[i, j] - rate * m / (vk.sqrt(v) * correction + eps)


Decay = Annotated[float, NumberRange(0.0, 1.0, below=True)]
"""The share of a running mean that is kept."""


@numbers_checked
def dropout(x: Float[Array, "*S"], probability: Share, seed: int, out: Result[Array, "*S", "x"] | None = None) -> Array:
    """Set each element to 0 with a probability, and scale the others by 1 / (1 - probability) (Srivastava et al. 2014).

    The choice depends only on `seed` and the element's position (Philox4x32-10, Salmon et al. 2011), so the gradient
    of x is `dropout(grad, probability, seed)`, and no mask is kept. `x`: any shape and strides; f64, f32, f16
    or bf16. `probability`: 0 to 1. Returns `out`, which may be x, or a new array like x.
    Raises `ArgumentError` for other dtypes or probabilities, and for an `out` of another shape or dtype.
    """
    scale = 1.0 / (1.0 - probability) if probability < 1.0 else 0.0
    return _dropout(x, float(probability), scale, LiveInt(seed), out)


@replayed
@checked
def _dropout(
    x: Float[Array, "*S"], probability: float, scale: float, seed: int, out: Result[Array, "*S", "x"] | None
) -> Array:
    return fill(out, x, lambda results: drop_elements(as_rows(x), probability, scale, seed, results))


@replayed
@checked
def rotary_embedding(
    x: Float[Array, "B M H 2*P"],
    cosine: Float[Array, "M P"],
    sine: Float[Array, "M P"],
    interleaved: bool = False,
    backward: bool = False,
    out: Result[Array, "B M H 2*P", "x"] | None = None,
) -> Array:
    """Rotate pairs of elements of each head by an angle that depends on the position (RoPE, Su et al. 2021).

    `x`: B × M × H × D, of any strides; f64, f32, f16 or bf16. `cosine`, `sine`: M × D / 2, of x's dtype or float32. A
    pair is elements p and p + D / 2, or, `interleaved`, 2p and 2p + 1. `backward` turns back: the gradient of x.
    Returns `out`, or a new array like x. Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    out = empty_like(x, tuple(x.shape)) if out is None else out
    rotate_pairs(_pairs(x, interleaved), cosine, sine, -1.0 if backward else 1.0, _pairs(out, interleaved))
    return out


def _pairs(x: Array, interleaved: bool) -> Array:
    """The last dimension as the first and second elements of its pairs; always a view."""
    half = x.shape[-1] // 2
    if interleaved:
        return x.reshape((*x.shape[:-1], half, 2)).swapaxes(-1, -2)
    return x.reshape((*x.shape[:-1], 2, half))


@numbers_checked
def adamw(
    parameter: Updated[Array, "*S"],
    grad: Float[Array, "*S"],
    mean: Updated[Array, "*S"],
    square: Updated[Array, "*S"],
    step: AtLeastOne,
    rate: float = 1e-3,
    betas: tuple[Decay, Decay] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 1e-2,
) -> None:
    """One step of AdamW (Loshchilov, Hutter 2019) in one pass, in place, as `torch.optim.AdamW` takes it.

    `parameter`, `grad`, and the running `mean` and `square` of the gradient: of one shape, and any strides; f64, f32,
    f16 or bf16, each its own; all but `grad` in memory of their own. `step`: from 1 on. `rate`: learning rate. `betas`:
    the shares of the running mean and square that are kept, from 0 to below 1. `eps` is added to the root of the
    square. `decay`: weight decay. Raises `ArgumentError` for other dtypes or numbers, shapes that do not match, and
    states that share memory.
    """
    beta1, beta2 = betas
    correction = 1.0 / math.sqrt(1.0 - beta2**step)
    keep, rate = 1.0 - rate * decay, rate / (1.0 - beta1**step)
    _adamw(
        parameter, grad, mean, square, DynamicScalar(keep), DynamicScalar(rate), float(beta1), float(beta2),
        DynamicScalar(correction), eps,
    )  # fmt: skip


@replayed
@checked
def _adamw(
    parameter: Updated[Array, "*S"], grad: Float[Array, "*S"], mean: Updated[Array, "*S"], square: Updated[Array, "*S"],
    keep: float, rate: float, beta1: float, beta2: float, correction: float, eps: float,
) -> None:  # fmt: skip
    states = (parameter, mean, square)
    rows = [as_rows(array) for array in states]
    adamw_elements(rows[0], as_rows(grad), rows[1], rows[2], keep, rate, beta1, beta2, correction, eps)
    for row, state in zip(rows, states, strict=True):
        give_back(row, state)


_ADAMW = SampleInputs(
    numbers=numbers(keep=0.99999, rate=0.003, beta1=0.9, beta2=0.999, correction=18.27, eps=1e-8),
    arrays=lambda sizes, constants, random: {"square": 0.01 + np.abs(random.standard_normal((sizes["M"], sizes["N"])))},
)


CATALOGUE = (
    entry(
        "dropout",
        drop_elements,
        SHORT_ROWS,
        CPU_ROWS,
        samples=SampleInputs(numbers=numbers(probability=0.25, scale=4 / 3, seed=7)),
    ),
    entry(
        "rotary_embedding",
        rotate_pairs,
        {"B": 4, "M": 2048, "H": 32, "P": 64},
        {"B": 1, "M": 512, "H": 16, "P": 32},
        samples=SampleInputs(numbers=numbers(direction=1.0)),
    ),
    entry("adamw", adamw_elements, SHORT_ROWS, CPU_ROWS, "float32", samples=_ADAMW),
)
