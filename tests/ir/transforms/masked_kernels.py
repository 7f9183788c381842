"""Kernels with masks on positions, written in many ways, and the masks in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import vkernels.language as vk
from vkernels.ir.text import parse_module, print_module
from vkernels.language.kernel import Kernel

FORMS = (
    "causal", "moved", "turned", "negated", "window", "two sides", "length", "rows", "blocks", "narrow", "minimum",
    "maximum", "chosen", "product", "either", "scaled", "equal", "apart", "number", "truth", "shifted",
)  # fmt: skip


@vk.function
def is_seen(form, i, j, low, high, w):
    """A truth value for rows i and columns j. `low`, `high`: integers of a row; `w`: of the call."""
    if form == "causal":
        return j <= i
    if form == "moved":
        return j - vk.size("N") <= i - vk.size("M")
    if form == "turned":
        return i + w > j - 2
    if form == "negated":
        return ~(j > i)
    if form == "window":
        return vk.abs(i - j) <= w
    if form == "two sides":
        return (j >= i - w) & (j <= i + w)
    if form == "length":
        return j < high
    if form == "rows":
        return (low <= j) & (j < high)
    if form == "blocks":
        return j // 4 <= (i + w) // 4
    if form == "narrow":
        return vk.cast(j, vk.int32) + 1 <= vk.cast(i + w, vk.int32)
    if form == "minimum":
        return j < vk.minimum(i + 3, high)
    if form == "maximum":
        return j >= vk.maximum(i - w, low)
    if form == "chosen":
        return vk.where(i < 4, j < 3, j >= i - 2)
    if form == "product":
        return (j <= i).to(vk.int32) * (j >= low) != 0
    if form == "either":
        return ((j >= 3) & (j < 6)) | ((j >= i) & (j < i + w))
    if form == "scaled":
        return 2 * j + 1 >= 3 * i - w
    if form == "equal":
        return j // 8 == i // 8
    if form == "apart":
        return (j != i) & (j <= i + 1)
    if form == "number":
        return j >= 9
    if form == "truth":
        return (j < i) ^ (j < 4)
    return (j << 1) <= (i >> 1) + w


def seen(
    form: str, rows: int, columns: int, low: NDArray[np.int32], high: NDArray[np.int32], w: int
) -> NDArray[np.bool_]:
    """The same in NumPy."""
    i, j = np.mgrid[:rows, :columns]
    low, high = low[:, None], high[:, None]
    masks = {
        "causal": j <= i, "moved": j - columns <= i - rows, "turned": i + w > j - 2, "negated": j <= i,
        "window": abs(i - j) <= w, "two sides": abs(i - j) <= w, "length": j < high, "rows": (low <= j) & (j < high),
        "blocks": j // 4 <= (i + w) // 4, "narrow": j + 1 <= i + w, "minimum": j < np.minimum(i + 3, high),
        "maximum": j >= np.maximum(i - w, low), "chosen": np.where(i < 4, j < 3, j >= i - 2),
        "product": (j <= i) & (j >= low), "either": ((j >= 3) & (j < 6)) | ((j >= i) & (j < i + w)),
        "scaled": 2 * j + 1 >= 3 * i - w, "equal": j // 8 == i // 8, "apart": (j != i) & (j <= i + 1), "number": j >= 9,
        "truth": (j < i) ^ (j < 4), "shifted": 2 * j <= i // 2 + w,
    }  # fmt: skip
    return np.broadcast_to(masks[form], (rows, columns))


@vk.kernel
def reductions(
    x: Float[vk.Tensor, "M N"],
    low: Int[vk.Tensor, "M"],
    high: Int[vk.Tensor, "M"],
    w: int,
    total: Float[vk.Tensor, "M"],
    most: Float[vk.Tensor, "M"],
    least: Float[vk.Tensor, "M"],
    some: Bool[vk.Tensor, "M"],
    every: Bool[vk.Tensor, "M"],
    copy: Float[vk.Tensor, "M N"],
    form: vk.Constant = "causal",
):
    i = vk.tile("M")
    j = vk.whole("N")
    mask = is_seen(form, i, j, low[i], high[i], w)
    row = x[i, j]
    total[i] = vk.sum(vk.where(mask, row, 0), axis=j)
    most[i] = vk.max(vk.where(mask, row, float("-inf")), axis=j)
    least[i] = vk.min(vk.where(mask, row, float("inf")), axis=j)
    some[i] = vk.any(mask & (row > 1), axis=j)
    every[i] = vk.all((row > -1) | ~mask, axis=j)
    vk.store(copy[i, j], row, where=mask)


@vk.kernel
def attention(
    q: Float[vk.Tensor, "M D"],
    k: Float[vk.Tensor, "N D"],
    v: Float[vk.Tensor, "N E"],
    low: Int[vk.Tensor, "M"],
    high: Int[vk.Tensor, "M"],
    w: int,
    out: Float[vk.Tensor, "M E"],
    total: Float[vk.Tensor, "M"],
    form: vk.Constant = "causal",
    kind: vk.Constant = "select",
):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[i, d], k[j, d])
    mask = is_seen(form, i, j, low[i], high[i], w)
    if kind == "select":
        score = vk.where(mask, score, float("-inf"))
        p = vk.exp(score - vk.max(score, axis=j))
    elif kind == "sum":
        score = score + vk.where(mask, 0, float("-inf"))
        p = vk.exp2((score - vk.max(score, axis=j)) * 1.5)
    else:
        p = score * mask
    vk.phase()
    out[i, e] = vk.dot(p, v[j, e])
    total[i] = vk.sum(p, axis=j)


@vk.kernel
def attention_by_tensors(
    q: Float[vk.Tensor, "M D"],
    k: Float[vk.Tensor, "N D"],
    v: Float[vk.Tensor, "N E"],
    block: Int[vk.Tensor, "P Q"],
    mine: Int[vk.Tensor, "M"],
    theirs: Int[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M E"],
    total: Float[vk.Tensor, "M"],
    form: vk.Constant = "blocks",
):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[i, d], k[j, d])
    if form == "blocks":
        mask = block[i // 4, j // 4] != 0
    elif form == "segments":
        mask = mine[i] == theirs[j]
    elif form == "causal segments":
        mask = (mine[i] == theirs[j]) & (j <= i)
    else:
        mask = ~((block[i // 4, j // 4] == 0) | (mine[i] < theirs[j]))
    score = vk.where(mask, score, float("-inf"))
    p = vk.exp(score - vk.max(score, axis=j))
    vk.phase()
    out[i, e] = vk.dot(p, v[j, e])
    total[i] = vk.sum(p, axis=j)


def module_of(kernel: Kernel, **given: Any) -> ModuleOp:
    """A kernel as written, of float32."""
    types = {p.name: "float32" for p in kernel.parameters if p.kind == "tensor"}
    types |= {p.name: "i64" for p in kernel.parameters if p.kind == "scalar"}
    types |= {name: dtype for name, dtype in INTEGERS.items() if name in types}
    return parse_module(print_module(kernel.build(kernel.signature(**types, **given))))


INTEGERS = {
    "low": "int32", "high": "int32", "block": "int32", "mine": "int32", "theirs": "int32",
    "some": "bool", "every": "bool",
}  # fmt: skip
