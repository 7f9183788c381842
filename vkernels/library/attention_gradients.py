"""The gradients of attention: of queries by blocks of queries, of keys and values by blocks of keys; on a CPU with
memory for slopes by `attention_slopes`.

Exponentials are recomputed from the normaliser of the forward pass (Dao et al. 2022).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

import vkernels.language as vk

from .arrays import Array, empty_like, zeros
from .attention_blocks import (
    BLOCKED,
    BLOCKS_OF_QUERIES,
    CPU_HEADS,
    LARGEST,
    STEP,
    Sequences,
    block_samples,
    blocks_of,
    by_groups,
    gradient_block_on_gpu,
    has_masks,
    is_gpu,
    is_seen,
)
from .attention_slopes import ALONG_KEYS, fits, run_slopes
from .samples import Constants, Sizes, entry


@vk.function
def is_inside(row, end, masks):
    """Whether a row is before the end; without masks all are."""
    if masks:
        return row < end
    return True


@vk.function
def zero_unless(seen, value, masks):
    """A value of pairs, 0 for those that are not seen; without masks all are."""
    if masks:
        return vk.where(seen, value, 0.0)
    return value


@vk.kernel
def attention_query_gradient(
    grad: Float[vk.Tensor, "B G R E M"],
    q: Float[vk.Tensor, "B G R D M"],
    k: Float[vk.Tensor, "B G N D"],
    v: Float[vk.Tensor, "B G N E"],
    out: Float[vk.Tensor, "B G R E M"],
    normaliser: Float[vk.Tensor, "B G R M"],
    scale: vk.Scalar,
    block: Int[vk.Tensor, "P 5"],
    back: int,
    ahead: int,
    mean: Float[vk.Tensor, "B G R M"],
    dq: Float[vk.Tensor, "B G R D M"],
    windowed: vk.Constant = False,
    size: vk.Constant = 64,
    kept: vk.Constant = False,
    masks: vk.Constant = True,
):
    b = vk.tile("B")
    if kept:
        p = vk.tile("P")  # the longest blocks of all heads first
    g = vk.tile("G")
    r = vk.tile("R")
    if not kept:
        p = vk.tile("P")
    m = vk.whole(size)
    a = vk.whole(STEP)
    d = vk.whole("D")
    c, f = a, d
    if not kept:  # keys, elements again: in chunks of their own in the product that they are summed over in
        c = vk.whole(STEP)
        f = vk.whole("D")
    e = vk.whole("E")
    first, last, begin, end = block[p, 0], block[p, 1], block[p, 2], block[p, 3]
    place = first + m + block[p, 4] - begin
    low = vk.cast(vk.maximum(place - back, 0), vk.int32)
    high = vk.cast(vk.minimum(place + ahead + 1, end - begin), vk.int32)
    own = is_inside(first + m, last, masks)
    asked = vk.load(q[b, g, r, d, first + m], where=own)
    coming = vk.load(grad[b, g, r, e, first + m], where=own)
    if not kept:
        query = vk.scratch((b, g, p, d, r, m), q.dtype)
        query[b, g, p, d, r, m] = asked
        change = vk.scratch((b, g, p, e, r, m), grad.dtype)
        change[b, g, p, e, r, m] = coming
        coming = change[b, g, p, e, r, m]
    result = vk.load(out[b, g, r, e, first + m], where=own)
    of_mean = vk.sum(coming * result, axis=e)
    vk.store(mean[b, g, r, first + m], of_mean, where=own)
    log_total = vk.load(normaliser[b, g, r, first + m], where=own)
    vk.phase()
    if not kept:
        slopes = vk.scratch((b, g, p, r, a, m), k.dtype)
    total = vk.zeros((b, g, p, f, r, m), normaliser.dtype)
    for step in vk.range(0, (end - begin + STEP - 1) // STEP):
        near = begin + STEP * step
        seen = is_seen(vk.cast(STEP * step + a, vk.int32), low, high, windowed)
        if kept:
            key = vk.load(k[b, g, near + a, d], where=is_inside(near + a, end, masks))
            weight = vk.exp(vk.dot(key, asked) * scale - log_total)
            slope = weight * (vk.dot(v[b, g, near + a, e], coming) - of_mean)
            total = vk.dot(key, zero_unless(seen, slope, masks).to(k.dtype), total)
        else:
            weight = vk.exp(vk.dot(k[b, g, near + a, d], query[b, g, p, d, r, m]) * scale - log_total)
            slope = weight * (vk.dot(v[b, g, near + a, e], change[b, g, p, e, r, m]) - of_mean)
            slopes[b, g, p, r, a, m] = vk.where(seen, slope, 0.0).to(k.dtype)
            key = vk.load(k[b, g, near + c, f], where=near + c < end)
            total = vk.dot(key, slopes[b, g, p, r, c, m], total)
    vk.store(dq[b, g, r, f, first + m], total * scale, where=own)


@vk.kernel(plan=ALONG_KEYS)
def attention_key_gradients(
    grad: Float[vk.Tensor, "B G R M E"],
    q: Float[vk.Tensor, "B G R M D"],
    k: Float[vk.Tensor, "B G D N"],
    v: Float[vk.Tensor, "B G E N"],
    normaliser: Float[vk.Tensor, "B G R M"],
    mean: Float[vk.Tensor, "B G R M"],
    scale: vk.Scalar,
    block: Int[vk.Tensor, "P 5"],
    back: int,
    ahead: int,
    dk: Float[vk.Tensor, "B G D N"],
    dv: Float[vk.Tensor, "B G E N"],
    windowed: vk.Constant = False,
    size: vk.Constant = 64,
    kept: vk.Constant = False,
    masks: vk.Constant = True,
):
    b = vk.tile("B")
    if kept:
        p = vk.tile("P")  # the longest blocks of all heads first
    g = vk.tile("G")
    if not kept:
        p = vk.tile("P")
    n = vk.whole(size)
    a = vk.whole(STEP)
    d = vk.whole("D")
    e = vk.whole("E")
    c, f, h = a, d, e
    if not kept:
        c = vk.whole(STEP)
        f = vk.whole("D")
        h = vk.whole("E")
    first, last, begin, end = block[p, 0], block[p, 1], block[p, 2], block[p, 3]
    place = first + n + block[p, 4] - begin  # queries are counted from the first that sees one of the keys
    low = vk.cast(vk.maximum(place - back, 0), vk.int32)
    high = vk.cast(vk.minimum(place + ahead + 1, end - begin), vk.int32)
    own = is_inside(first + n, last, masks)
    own_key = vk.load(k[b, g, d, first + n], where=own)
    own_value = vk.load(v[b, g, e, first + n], where=own)
    if not kept:
        key = vk.scratch((b, g, p, d, n), k.dtype)
        key[b, g, p, d, n] = own_key
        value = vk.scratch((b, g, p, e, n), v.dtype)
        value[b, g, p, e, n] = own_value
    vk.phase()
    if not kept:
        weights = vk.scratch((b, g, p, a, n), v.dtype)
        slopes = vk.scratch((b, g, p, a, n), k.dtype)
    of_key = vk.zeros((b, g, p, f, n), normaliser.dtype)
    of_value = vk.zeros((b, g, p, h, n), normaliser.dtype)
    for r in vk.range("R"):
        for step in vk.range(0, (end - begin + STEP - 1) // STEP):
            near = begin + STEP * step
            seen = is_seen(vk.cast(STEP * step + a, vk.int32), low, high, windowed)
            if kept:
                inside = is_inside(near + a, end, masks)
                query = vk.load(q[b, g, r, near + a, d], where=inside)
                change = vk.load(grad[b, g, r, near + a, e], where=inside)
                weight = vk.exp(vk.dot(query, own_key) * scale - normaliser[b, g, r, near + a])
                of_value = vk.dot(change, zero_unless(seen, weight, masks).to(v.dtype), of_value)
                slope = weight * (vk.dot(change, own_value) - mean[b, g, r, near + a])
                of_key = vk.dot(query, zero_unless(seen, slope, masks).to(k.dtype), of_key)
            else:
                weight = vk.exp(
                    vk.dot(q[b, g, r, near + a, d], key[b, g, p, d, n]) * scale - normaliser[b, g, r, near + a]
                )
                weights[b, g, p, a, n] = vk.where(seen, weight, 0.0).to(v.dtype)
                slope = weight * (vk.dot(grad[b, g, r, near + a, e], value[b, g, p, e, n]) - mean[b, g, r, near + a])
                slopes[b, g, p, a, n] = vk.where(seen, slope, 0.0).to(k.dtype)
                change = vk.load(grad[b, g, r, near + c, h], where=near + c < end)
                of_value = vk.dot(change, weights[b, g, p, c, n], of_value)
                query = vk.load(q[b, g, r, near + c, f], where=near + c < end)
                of_key = vk.dot(query, slopes[b, g, p, c, n], of_key)
    vk.store(dk[b, g, f, first + n], of_key * scale, where=own)
    vk.store(dv[b, g, h, first + n], of_value, where=own)


def run_gradients(
    grad: Array, q: Array, k: Array, v: Array, out: Array, normaliser: Array, scale: float, sequences: Sequences
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v: new arrays."""
    groups, device = k.shape[1], None if isinstance(q, np.ndarray) else q.device
    if 0 in (q.shape[2], k.shape[2]):
        return zeros(q, tuple(q.shape)), zeros(k, tuple(k.shape)), zeros(v, tuple(v.shape))
    dq, dk, dv = (empty_like(each, tuple(each.shape)) for each in (q, k, v))
    grad, q, out, normaliser, of_q = (by_groups(each, groups) for each in (grad, q, out, normaliser, dq))
    if (device is None or device.type == "cpu") and fits(q, k, sequences):
        run_slopes(grad, q, k, v, out, normaliser, scale, sequences, of_q, dk, dv)
        return dq, dk, dv
    mean = empty_like(normaliser, tuple(normaliser.shape))
    kept = is_gpu(device)
    largest = gradient_block_on_gpu(q.shape[4], v.shape[3], device) if kept else LARGEST
    blocks, constants = blocks_of(sequences, device, largest=largest)
    form = kept, not kept or has_masks(sequences, largest)
    change, query, result, of_query = (each.swapaxes(3, 4) for each in (grad, q, out, of_q))
    attention_query_gradient(change, query, k, v, result, normaliser, scale, *blocks, mean, of_query, *constants, *form)
    blocks, constants = blocks_of(sequences, device, of_keys=True, largest=largest)
    key, value, of_key, of_value = (each.swapaxes(2, 3) for each in (k, v, dk, dv))
    attention_key_gradients(grad, q, key, value, normaliser, mean, scale, *blocks, of_key, of_value, *constants, *form)
    return dq, dk, dv


BLOCKS_OF_KEYS = block_samples("N", "M", {"k": "B G N D", "v": "B G N E", "dk": "B G N D", "dv": "B G N E"})


def _on_gpus(sizes: Sizes) -> Constants:
    """Constants of calls on GPUs."""
    return {"kept": True}


CATALOGUE = (
    entry(
        "attention",
        attention_query_gradient,
        BLOCKED,
        CPU_HEADS,
        computed=("normaliser", "mean"),
        samples=replace(BLOCKS_OF_QUERIES, gpu_constants=_on_gpus),
    ),
    entry(
        "attention",
        attention_key_gradients,
        BLOCKED,
        CPU_HEADS,
        computed=("normaliser", "mean"),
        samples=replace(BLOCKS_OF_KEYS, gpu_constants=_on_gpus),
    ),
)
