"""Attention by blocks of queries, each of which computes only the keys that it sees: sequences, causal, windows.

A running maximum and sum: Milakov and Gimelshein (2018); blocks of queries and keys: Dao et al. (2022).
"""

from __future__ import annotations

from jaxtyping import Float, Int

import vkernels as vk

STEP = 64
"""Keys, or queries, that a block looks at at a time."""


@vk.function
def is_seen(key, low, high, windowed):
    """Whether a key is one from low up to high; without windows there is no low."""
    if windowed:
        return (key >= low) & (key < high)
    return key < high


@vk.kernel
def attention_blocks(
    q: Float[vk.Tensor, "B G R D M"],
    k: Float[vk.Tensor, "B G N D"],
    v: Float[vk.Tensor, "B G N E"],
    scale: vk.Scalar,
    block: Int[vk.Tensor, "P 5"],
    back: int,
    ahead: int,
    out: Float[vk.Tensor, "B G R E M"],
    normaliser: Float[vk.Tensor, "B G R M"],
    windowed: vk.Constant = False,
    size: vk.Constant = 64,
):
    b = vk.tile("B")
    g = vk.tile("G")  # heads of keys, each with
    r = vk.tile("R")  # heads of queries
    p = vk.tile("P")
    m = vk.whole(size)
    a = vk.whole(STEP)
    c = vk.whole(STEP)  # keys again: in chunks of their own where they are summed over
    d = vk.whole("D")
    e = vk.whole("E")
    first, begin, end = block[p, 0], block[p, 2], block[p, 3]
    place = first + m + block[p, 4] - begin  # keys are counted from the first that the block sees
    low = vk.cast(vk.maximum(place - back, 0), vk.int32)
    high = vk.cast(vk.minimum(place + ahead + 1, end - begin), vk.int32)
    query = vk.load(q[b, g, r, d, first + m], where=first + m < block[p, 1])
    vk.phase()  # a query is read again for every key: it can be kept
    weights = vk.scratch((b, g, p, r, a, m), v.dtype)
    peak = vk.full((b, g, p, r, m), float("-inf"), normaliser.dtype)
    total = vk.zeros((b, g, p, r, m), normaliser.dtype)
    result = vk.zeros((b, g, p, e, r, m), normaliser.dtype)
    for step in vk.range(0, (end - begin + STEP - 1) // STEP):
        near = begin + STEP * step
        seen = is_seen(vk.cast(STEP * step + a, vk.int32), low, high, windowed)
        score = vk.where(seen, vk.dot(k[b, g, near + a, d], query) * scale, float("-inf"))
        largest = vk.maximum(peak, vk.max(score, axis=a))
        base = vk.where(largest == float("-inf"), 0.0, largest)  # what is nothing but -inf so far adds nothing
        less = vk.exp(peak - base)
        peak = largest
        weight = vk.exp(score - base).to(v.dtype)
        weights[b, g, p, r, a, m] = weight
        total = total * less + vk.sum(weight, axis=a)
        value = vk.load(v[b, g, near + c, e], where=near + c < end)
        result = vk.dot(value, weights[b, g, p, r, c, m], result * less)
    is_query = first + m < block[p, 1]
    vk.store(out[b, g, r, e, first + m], vk.where(low < high, result / total, 0.0), where=is_query)
    vk.store(normaliser[b, g, r, first + m], peak + vk.log(total), where=is_query)
