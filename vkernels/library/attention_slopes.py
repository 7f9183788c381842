"""The gradients of attention on a CPU: scores are computed once, and their gradients, the slopes, are kept in memory.

Blocks of keys compute the gradients of keys and values, and the slopes; blocks of queries multiply the slopes by keys.
That is five products, not seven as where blocks of queries compute scores again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

import vkernels.language as vk
from vkernels.ir.pin import Pin

from .arrays import Array, empty_like
from .attention_blocks import (
    BLOCKED,
    CPU_HEADS,
    LARGEST,
    STEP,
    UNLIMITED,
    Sequences,
    block_samples,
    is_seen,
    size_of_blocks,
    table_of_blocks,
)
from .gpu_arrays import made_to_keep
from .replay import constant
from .samples import Arrays, Constants, Numbers, SampleInputs, Sizes, ceil_div, entry

ALONG_KEYS = Pin(lanes="n")
"""All products have the axis of keys, and none sums along it. Planning tries only three axes, which it ranks higher but
which are twenty times slower on a CPU."""

SLOPES_BYTES = 16 << 20
"""Memory limit of slopes: heads take turns, and where one head has more, blocks of queries compute scores again."""


@vk.kernel
def attention_means(
    grad: Float[vk.Tensor, "B G R M E"], out: Float[vk.Tensor, "B G R M E"], mean: Float[vk.Tensor, "B G R M"]
):
    b = vk.tile("B")
    g = vk.tile("G")
    r = vk.tile("R")
    m = vk.tile("M")
    e = vk.whole("E")
    mean[b, g, r, m] = vk.sum(grad[b, g, r, m, e] * out[b, g, r, m, e], axis=e)


@vk.kernel(plan=ALONG_KEYS)
def attention_slopes(
    grad: Float[vk.Tensor, "B G R M E"],
    q: Float[vk.Tensor, "B G R M D"],
    k: Float[vk.Tensor, "B G D N"],
    v: Float[vk.Tensor, "B G E N"],
    normaliser: Float[vk.Tensor, "B G R M"],
    mean: Float[vk.Tensor, "B G R M"],
    scale: vk.Scalar,
    block: Int[vk.Tensor, "P 6"],
    back: int,
    ahead: int,
    dk: Float[vk.Tensor, "B G D N"],
    dv: Float[vk.Tensor, "B G E N"],
    slopes: Float[vk.Tensor, "B G R M S"],
    windowed: vk.Constant = False,
    size: vk.Constant = 64,
):
    b = vk.tile("B")
    g = vk.tile("G")
    p = vk.tile("P")
    n = vk.whole(size)
    a = vk.whole(STEP)
    c = vk.whole(STEP)
    d = vk.whole("D")
    f = vk.whole("D")
    e = vk.whole("E")
    h = vk.whole("E")
    first, last, begin, end = block[p, 0], block[p, 1], block[p, 2], block[p, 3]
    column = first - block[p, 5]
    place = first + n + block[p, 4] - begin  # queries are counted from the first that sees one of the keys
    low = vk.cast(vk.maximum(place - back, 0), vk.int32)
    high = vk.where(first + n < last, vk.cast(vk.minimum(place + ahead + 1, end - begin), vk.int32), 0)
    key = vk.scratch((b, g, p, d, n), k.dtype)
    key[b, g, p, d, n] = vk.load(k[b, g, d, first + n], where=first + n < last)
    value = vk.scratch((b, g, p, e, n), v.dtype)
    value[b, g, p, e, n] = vk.load(v[b, g, e, first + n], where=first + n < last)
    vk.phase()
    weights = vk.scratch((b, g, p, a, n), v.dtype)
    slope = vk.scratch((b, g, p, a, n), k.dtype)
    of_key = vk.zeros((b, g, p, f, n), normaliser.dtype)
    of_value = vk.zeros((b, g, p, h, n), normaliser.dtype)
    for r in vk.range("R"):
        for step in vk.range(0, (end - begin + STEP - 1) // STEP):
            near = begin + STEP * step
            seen = is_seen(vk.cast(STEP * step + a, vk.int32), low, high, windowed)
            weight = vk.exp(vk.dot(q[b, g, r, near + a, d], key[b, g, p, d, n]) * scale - normaliser[b, g, r, near + a])
            weights[b, g, p, a, n] = vk.where(seen, weight, 0.0).to(v.dtype)
            change = weight * (vk.dot(grad[b, g, r, near + a, e], value[b, g, p, e, n]) - mean[b, g, r, near + a])
            kept = vk.where(seen, change, 0.0).to(k.dtype)
            slope[b, g, p, a, n] = kept
            vk.store(slopes[b, g, r, near + a, column + n], kept, where=near + a < end)
            of_result = vk.load(grad[b, g, r, near + c, h], where=near + c < end)
            of_value = vk.dot(of_result, weights[b, g, p, c, n], of_value)
            query = vk.load(q[b, g, r, near + c, f], where=near + c < end)
            of_key = vk.dot(query, slope[b, g, p, c, n], of_key)
    vk.store(dk[b, g, f, first + n], of_key * scale, where=first + n < last)
    vk.store(dv[b, g, h, first + n], of_value, where=first + n < last)


@vk.kernel
def attention_slopes_times_keys(
    slopes: Float[vk.Tensor, "B G R M S"],
    k: Float[vk.Tensor, "B G N D"],
    scale: vk.Scalar,
    block: Int[vk.Tensor, "P 6"],
    dq: Float[vk.Tensor, "B G R M D"],
    size: vk.Constant = 64,
    step: vk.Constant = 64,
):
    b = vk.tile("B")
    g = vk.tile("G")
    r = vk.tile("R")
    p = vk.tile("P")
    m = vk.whole(size)
    c = vk.whole(step)
    d = vk.whole("D")
    first, last, begin, end, start = block[p, 0], block[p, 1], block[p, 2], block[p, 3], block[p, 5]
    total = vk.zeros((b, g, r, p, m, d), vk.float64 if k.dtype == vk.float64 else vk.float32)
    for number in vk.range(0, (end - begin + step - 1) // step):
        near = begin + step * number
        key = vk.load(k[b, g, near + c, d], where=near + c < end)
        total = vk.dot(slopes[b, g, r, first + m, near - start + c], key, total)
    vk.store(dq[b, g, r, first + m, d], total * scale, where=first + m < last)


def fits(q: Array, k: Array, sequences: Sequences) -> bool:
    """Whether the slopes of the heads that share keys fit into their memory. `q`: B × G × R × M × D."""
    return _bytes_of_group(q, k, sequences) <= SLOPES_BYTES


def run_slopes(
    grad: Array, q: Array, k: Array, v: Array, out: Array, normaliser: Array, scale: float, sequences: Sequences,
    dq: Array, dk: Array, dv: Array,
) -> None:  # fmt: skip
    """Write the gradients of q, k and v to `dq`, `dk` and `dv`, for as many heads at a time as slopes fit for.

    `q`, `dq`: B × G × R × M × D; `grad`, `out`: B × G × R × M × E; `k`, `dk`: B × G × N × D; `v`, `dv`: B × G × N × E;
    `normaliser`: B × G × R × M.
    """
    of_queries, of_keys, size, step = _blocks_of(sequences, None if isinstance(q, np.ndarray) else q.device)
    band = sequences.band.turned
    mean = empty_like(normaliser, tuple(normaliser.shape))
    attention_means(grad, out, mean)
    for some in _parts(q.shape[0], q.shape[1], SLOPES_BYTES // max(1, _bytes_of_group(q, k, sequences))):
        slopes = empty_like(k, (*q[some].shape[:4], _columns(sequences)))
        key, value, of_key, of_value = (each[some].swapaxes(2, 3) for each in (k, v, dk, dv))
        attention_slopes(
            grad[some], q[some], key, value, normaliser[some], mean[some], scale, constant(of_keys), band.back,
            band.ahead, of_key, of_value, slopes, band.back < UNLIMITED, step,
        )  # fmt: skip
        attention_slopes_times_keys(slopes, k[some], scale, constant(of_queries), dq[some], size, step)


def _parts(batches: int, groups: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Parts of at most `most` groups of heads, but at least one: whole batches, or groups of one batch."""
    whole = min(batches, max(1, most // max(1, groups)))
    each = min(groups, max(1, most))
    for batch in range(0, batches, max(1, whole)):
        for group in range(0, groups, max(1, each)):
            yield slice(batch, batch + whole), slice(group, group + each)


def _bytes_of_group(q: Array, k: Array, sequences: Sequences) -> int:
    return int(q.shape[2] * q.shape[3] * _columns(sequences) * k.dtype.itemsize)


def _columns(sequences: Sequences) -> int:
    """Columns of slopes: the keys of the longest sequence, in whole blocks."""
    step = size_of_blocks(np.array(sequences.keys))
    return ceil_div(int(np.diff(sequences.keys).max(initial=0)), step) * step


@lru_cache(maxsize=256)
def _blocks_of(sequences: Sequences, device: Any) -> tuple[Array, Array, int, int]:
    """Tables of blocks of queries and of keys, and the sizes of both kinds. A table has the columns of
    `table_of_blocks`, with the others widened to whole blocks, so that each slope that is read was written; and the
    first key of the sequence."""
    start, other = (np.array(each, np.int64) for each in (sequences.queries, sequences.keys))
    size, step = size_of_blocks(start), size_of_blocks(other)
    queries = table_of_blocks(start, other, sequences.band, size)
    keys = table_of_blocks(other, start, sequences.band.turned, step)
    of_query, of_key = (np.searchsorted(s, t[:, 0], "right") - 1 for s, t in ((start, queries), (other, keys)))
    queries[:, 2] -= (queries[:, 3] > queries[:, 2]) * ((queries[:, 2] - other[of_query]) % step)
    origin, end = start[of_key], start[of_key + 1]
    sees = keys[:, 3] > keys[:, 2]
    keys[:, 2] -= sees * ((keys[:, 2] - origin) % size)
    keys[:, 3] += sees * np.minimum(end - keys[:, 3], -(keys[:, 3] - origin) % size)
    tables: list[Array] = [np.column_stack([queries, other[of_query]]), np.column_stack([keys, other[of_key]])]
    if device is not None:
        import torch

        tables = made_to_keep(device, lambda: [torch.from_numpy(table).to(device) for table in tables])
    return tables[0], tables[1], size, step


def _samples(along: str, across: str, others: tuple[str, ...], layout: Mapping[str, str]) -> SampleInputs:
    """The samples of `block_samples`, of one sequence, which begins at 0: the table, and other arguments by name."""
    blocks = block_samples(along, across, layout)

    def numbers(sizes: Sizes) -> Numbers:
        return {name: number for name, number in blocks.numbers(sizes).items() if name in others}

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        found = blocks.arrays(sizes, constants, random)
        given = {name: array for name, array in found.items() if name in others}
        return {**given, "block": np.pad(found["block"], ((0, 0), (0, 1)))}

    room = {"S": lambda sizes, _: ceil_div(sizes["N"], LARGEST) * LARGEST}
    return replace(blocks, sizes={**blocks.sizes, **room}, numbers=numbers, arrays=arrays)


_LAYOUT = {name: f"B G N {depth}" for name, depth in (("k", "D"), ("v", "E"), ("dk", "D"), ("dv", "E"))}

_SIZES = {**BLOCKED, "S": BLOCKED["N"]}


def _without(sizes: Sizes, names: str) -> Sizes:
    return {name: size for name, size in sizes.items() if name not in names}


CATALOGUE = (
    entry("attention", attention_means, _without(BLOCKED, "NDP"), _without(CPU_HEADS, "ND"), computed=("mean",)),
    entry(
        "attention", attention_slopes, _SIZES, CPU_HEADS, computed=("normaliser", "mean"),
        samples=_samples("N", "M", ("scale", "back", "ahead", "normaliser"), _LAYOUT),
    ),
    entry(
        "attention", attention_slopes_times_keys, _without(_SIZES, "E"), _without(CPU_HEADS, "E"),
        samples=_samples("M", "N", ("scale",), {}),
    ),
)  # fmt: skip
