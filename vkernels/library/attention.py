"""Attention, forward: queries look at all keys, or, causal, at those up to their own place."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk

from .arrays import Array, check_apart, empty_like


@vk.kernel
def attention_rows(
    q: Float[vk.Tensor, "B G R D M"],
    k: Float[vk.Tensor, "B G N D"],
    v: Float[vk.Tensor, "B G N E"],
    scale: vk.Scalar,
    out: Float[vk.Tensor, "B G R E M"],
    causal: vk.Constant = False,
):
    b = vk.tile("B")
    g = vk.tile("G")  # heads of keys, each with
    r = vk.tile("R")  # heads of queries
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    query = q[b, g, r, d, i]
    vk.phase()  # a query is read again for every key: it can be kept
    score = vk.dot(k[b, g, j, d], query) * scale
    if causal:
        score = vk.where(j - vk.size("N") <= i - vk.size("M"), score, float("-inf"))
    vk.phase()
    p = vk.exp(score - vk.max(score, axis=j)).to(v.dtype)
    vk.phase()
    out[b, g, r, e, i] = vk.dot(v[b, g, j, e], p) / vk.sum(p, axis=j)


def attention(
    q: Array, k: Array, v: Array, scale: float | None = None, causal: bool = False, out: Array | None = None
) -> Array:
    """softmax(q kᵀ · scale) v for every head (Vaswani et al. 2017), the row's maximum subtracted.

    `q`: B × H × M × D, `k`: B × G × N × D, `v`: B × G × N × E, of any strides and one dtype: f64, f32, f16 or bf16, the
    latter two computed in f32, exponentials rounded to v's dtype before they meet it. H is a multiple of G: consecutive
    H / G heads of queries share one of keys and values (Ainslie et al. 2023). `scale`: 1 / sqrt(D) unless given.
    `causal`: query m sees the keys up to m + N - M, so the last sees all; there must be as many keys as queries.
    Returns `out`, or a new B × H × M × E array of q's dtype. Without keys it is 0.
    Raises `ArgumentError` for shapes or dtypes that do not go together.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 4:
            raise vk.ArgumentError(f"attention: {name} has shape {tuple(array.shape)}, expected four dimensions")
    (batch, heads, rows, depth), (groups, keys) = q.shape, k.shape[1:3]
    if heads != groups * (heads // max(1, groups)):
        raise vk.ArgumentError(f"attention: q has {heads} heads, expected a multiple of k's {groups}")
    if causal and rows > keys:
        raise vk.ArgumentError(f"attention: causal, but q has {rows} rows, expected at most k's {keys}")
    out = empty_like(q, (batch, heads, rows, v.shape[3])) if out is None else out
    if tuple(out.shape) != (batch, heads, rows, v.shape[3]):
        expected = (batch, heads, rows, v.shape[3])
        raise vk.ArgumentError(f"attention: out has shape {tuple(out.shape)}, expected {expected}")
    check_apart("attention", out, k=k, v=v)
    if keys == 0:
        out[...] = 0
        return out
    scale = 1.0 / max(1, depth) ** 0.5 if scale is None else scale
    one = rows == 1  # heads that share keys then stand in for queries
    attention_rows(_grouped(q, groups, one), k, v, scale, _grouped(out, groups, one), causal and not one)
    return out


def _grouped(array: Array, groups: int, one: bool) -> Array:
    """B × H × M × D as B × G × H / G × D × M, or where M is one as B × G × 1 × D × H / G; a view."""
    shape = array.shape
    heads = shape[1] // max(1, groups)
    parts = array.reshape(shape[0], groups, heads, *shape[2:]) if groups else array.reshape(shape[0], 0, 0, *shape[2:])
    parts = parts.swapaxes(2, 3) if one else parts
    return parts.swapaxes(3, 4)
