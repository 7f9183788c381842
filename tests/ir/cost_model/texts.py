"""Kernels that the library lacks, for models of their time."""

from __future__ import annotations

from functools import cache
from typing import Any

from jaxtyping import Float, Int, Int8, Int32
from xdsl.dialects.builtin import ModuleOp

import vkernels as vk
from vkernels.compiler.protocols import Signature


@vk.kernel
def turned_pairs(x: Float[vk.Tensor, "M H D"], cos: Float[vk.Tensor, "M P"], out: Float[vk.Tensor, "M H D"]):
    """Pairs side by side."""
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.tile("P")
    a, b = x[m, h, 2 * p], x[m, h, 2 * p + 1]
    out[m, h, 2 * p] = a * cos[m, p] - b
    out[m, h, 2 * p + 1] = a + b * cos[m, p]


@vk.kernel
def turned_halves(x: Float[vk.Tensor, "M H D"], cos: Float[vk.Tensor, "M P"], out: Float[vk.Tensor, "M H D"]):
    """Pairs of which one half of a row has the first, the other half the second."""
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.tile("P")
    a, b = x[m, h, p], x[m, h, p + vk.size("P")]
    out[m, h, p] = a * cos[m, p] - b
    out[m, h, p + vk.size("P")] = a + b * cos[m, p]


@vk.kernel
def every_other(x: Float[vk.Tensor, "M D"], out: Float[vk.Tensor, "M P"]):
    m = vk.tile("M")
    p = vk.tile("P")
    out[m, p] = x[m, 2 * p]


@vk.kernel
def chosen_rows(x: Float[vk.Tensor, "V D"], row: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M D"]):
    m = vk.tile("M")
    d = vk.tile("D")
    out[m, d] = x[row[m], d]


@vk.kernel
def counts(x: Int[vk.Tensor, "N"], out: Int[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[x[i]], 1)


@vk.kernel
def lower_times(x: Float[vk.Tensor, "N N"], y: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "N K"]):
    """A lower triangular matrix times another."""
    i = vk.tile("N")
    j = vk.whole("N")
    k = vk.tile("K")
    out[i, k] = vk.sum(vk.where(j <= i, x[i, j] * y[j, k], 0.0), axis=j)


@vk.kernel
def recurrence(x: Float[vk.Tensor, "L D"], decay: Float[vk.Tensor, "D"], out: Float[vk.Tensor, "L D"]):
    d = vk.tile("D")
    state = vk.zeros((d,), vk.float32)
    for t in vk.range("L"):
        state = state * decay[d] + x[t, d]
        out[t, d] = state


@vk.kernel
def dot_of_bytes(x: Int8[vk.Tensor, "M K"], y: Int8[vk.Tensor, "K N"], out: Int32[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j])


TEXTS = {
    "turned_pairs": turned_pairs, "turned_halves": turned_halves, "every_other": every_other,
    "chosen_rows": chosen_rows, "counts": counts, "lower_times": lower_times, "recurrence": recurrence,
    "dot_of_bytes": dot_of_bytes,
}  # fmt: skip


@cache
def text(name: str) -> tuple[Any, ModuleOp]:
    """A kernel, and its IR for float32, int64, or the only dtype that a tensor takes."""
    kernel = TEXTS[name]
    usual = ("float32", "int64")
    tensors = tuple((p.name, next((d for d in usual if d in p.dtypes), p.dtypes[0])) for p in kernel.parameters)
    return kernel, kernel.build(Signature(tensors, (), ()))
