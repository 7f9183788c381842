"""Attention by blocks of queries; a block computes only keys that it sees: sequences, causal attention, windows.

A running maximum and sum: Milakov and Gimelshein (2018); blocks of queries and keys: Dao et al. (2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError
from vkernels.runtime.present_target import present_target

from .annotations import NotNegative
from .arrays import Array, empty_like, is_captured, read_on_this_stream
from .gpu_arrays import made_to_keep
from .replay import constant
from .rules import MismatchError, rules_of
from .samples import Arrays, Constants, Numbers, SampleInputs, Sizes, entry

STEP = 64
"""Keys, or queries, per step of a block."""


@vk.function
def is_seen(key, low, high, windowed):
    """Whether a key is from low to high - 1; without a window there is no low."""
    if windowed:
        return (key >= low) & (key < high)
    return key < high


@vk.function
def with_scores(score, scale, peak, a, dtype):
    """The maximum so far with more scores, what sums so far shrink by, and the scores' exponentials, rounded to a
    dtype. Scores and their maximum are not scaled yet; the scale is positive."""
    largest = vk.maximum(peak, vk.max(score, axis=a))
    base = vk.where(largest == float("-inf"), 0.0, largest)  # what is nothing but -inf so far adds nothing
    less = vk.exp((peak - base) * scale)
    weight = vk.exp((score - base) * scale).to(dtype)
    return largest, less, weight


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
    kept: vk.Constant = False,
    keys: vk.Constant = STEP,
):
    b = vk.tile("B")
    if kept:
        p = vk.tile("P")  # the longest blocks of all heads first, so that no program starts a long one last
    g = vk.tile("G")  # heads of keys, each with
    r = vk.tile("R")  # heads of queries
    if not kept:
        p = vk.tile("P")  # of one head after another: a core's cache holds its keys
    m = vk.whole(size)
    a = vk.whole(keys)
    c = a
    if not kept:
        c = vk.whole(keys)  # keys again: in chunks of their own where they are summed over
    d = vk.whole("D")
    e = vk.whole("E")
    first, begin, end = block[p, 0], block[p, 2], block[p, 3]
    place = first + m + block[p, 4] - begin  # keys are counted from the first that the block sees
    low = vk.cast(vk.maximum(place - back, 0), vk.int32)
    high = vk.cast(vk.minimum(place + ahead + 1, end - begin), vk.int32)
    steps = (end - begin + keys - 1) // keys
    is_query = first + m < block[p, 1]
    query = vk.load(q[b, g, r, d, first + m], where=is_query)
    vk.phase()  # a query is read again for every key: it can be kept
    if not kept:
        weights = vk.scratch((b, g, p, r, a, m), v.dtype)
    peak = vk.full((b, g, p, r, m), float("-inf"), normaliser.dtype)
    total = vk.zeros((b, g, p, r, m), normaliser.dtype)
    result = vk.zeros((b, g, p, e, r, m), normaliser.dtype)
    masked = 0  # the first step of keys that not all queries see
    if kept and not windowed:
        masked = vk.maximum(vk.minimum(first + block[p, 4] + ahead + 1, end) - begin, 0) // keys
        for step in vk.range(0, masked):
            near = begin + keys * step
            # All queries see these keys, so the keys exist.
            score = vk.dot(vk.load(k[b, g, near + a, d], inside=True), query)
            peak, less, weight = with_scores(score, scale, peak, a, v.dtype)
            total = total * less + vk.sum(weight, axis=a)
            result = vk.dot(vk.load(v[b, g, near + a, e], inside=True), weight, result * less)
        # Read again: what goes into products of several loops is kept in AMD's shared memory all the time.
        query = vk.load(q[b, g, r, d, first + m], where=is_query & (masked < steps))
    for step in vk.range(masked, steps):
        near = begin + keys * step
        seen = is_seen(vk.cast(keys * step + a, vk.int32), low, high, windowed)
        key = vk.load(k[b, g, near + a, d], where=near + a < end, inside=True) if kept else k[b, g, near + a, d]
        score = vk.where(seen, vk.dot(key, query), float("-inf"))
        peak, less, weight = with_scores(score, scale, peak, a, v.dtype)
        if kept:
            total = total * less + vk.sum(weight, axis=a)
            value = vk.load(v[b, g, near + a, e], where=near + a < end, inside=True)
        else:
            weights[b, g, p, r, a, m] = weight
            total = total * less + vk.sum(weights[b, g, p, r, c, m], axis=c)
            weight = weights[b, g, p, r, c, m]
            value = vk.load(v[b, g, near + c, e], where=near + c < end)
        result = vk.dot(value, weight, result * less)
    vk.store(out[b, g, r, e, first + m], vk.where(low < high, result / total, 0.0), where=is_query)
    vk.store(normaliser[b, g, r, first + m], peak * scale + vk.log(total), where=is_query)


Window = NotNegative | tuple[NotNegative | None, NotNegative | None] | None
"""Distances before and after a query within which it sees keys; None: no bound."""

UNLIMITED = 1 << 62
"""A distance beyond any length."""

LARGEST, SMALLEST = 64, 16
"""The largest and smallest number of queries, or keys, of a block."""

LARGE_ON_GPU, LARGE_WIDTH, STEP_OF_WIDE = 128, 128, 32
"""The most queries of a block on a GPU; the most elements of a head for which; and keys per step of wider heads. Only
GPUs whose groups of warps multiply what is in shared memory have room for so many results of wider heads, and those
with `MANY_REGISTERS`."""

MANY_REGISTERS = 512
"""Registers of a thread on AMD's CDNA, accumulators included."""

MUCH_SHARED = 128 << 10
"""Bytes of shared memory that hold two operands of `LARGE_ON_GPU` rows, 32 KiB each in 16 bits, and as much of others:
CDNA 4 has them, 3 does not."""


@dataclass(frozen=True)
class Band:
    """The distances before and after a query within which it sees keys."""

    back: int = UNLIMITED
    ahead: int = UNLIMITED

    @property
    def turned(self) -> Band:
        """The distances before and after a key within which queries see it."""
        return Band(self.ahead, self.back)

    def within(self, rows: int, keys: int) -> Band:
        """The band without bounds that have no effect for these numbers of queries and keys."""
        back = UNLIMITED if self.back >= keys - 1 else self.back
        return Band(back, UNLIMITED if self.ahead >= rows - 1 else self.ahead)


def bounds_of(function: str, window: Window) -> tuple[int | None, int | None]:
    """A window's distances before and after a query; raises `ArgumentError` for other values."""
    try:
        found = None if window is None else _WINDOW.accept(window)
    except MismatchError:
        raise ArgumentError(f"{function}: window is {window!r}, expected {_WINDOW.expected}") from None
    return found if isinstance(found, tuple) else (found, found)


_WINDOW = rules_of(Window)


def band_of(causal: bool, window: Window) -> Band:
    """The band of keys that queries see."""
    pair = (window, window) if window is None or isinstance(window, int) else window
    back, ahead = (UNLIMITED if each is None else min(each, UNLIMITED) for each in pair)
    return Band(back, 0 if causal else ahead)


@dataclass(frozen=True)
class Sequences:
    """The starts of sequences of queries and keys, with the end of the last, and the band of keys that queries see."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    band: Band


def blocks_of(
    sequences: Sequences, device: Any, of_keys: bool = False, largest: int = LARGEST
) -> tuple[tuple[Array, int, int], tuple[bool, int]]:
    """Blocks of queries, each with the keys that it sees; or of keys, each with the queries that see it: the kernels'
    arguments for the blocks (table and band), and their constants (whether there is a window, and the blocks' size).
    `largest`: the most rows of a block.

    `device`: a torch device, or None for NumPy. Raises `ArgumentError` if the table does not exist yet while a CUDA
    graph is captured; tables that graphs read are kept.
    """
    table, band, size = _blocks_of(sequences, device, of_keys, largest)
    if is_captured(device):
        _captured[id(table)] = table
    else:
        read_on_this_stream(table)
    return (constant(table), band.back, band.ahead), (band.back < UNLIMITED, size)


_captured: dict[int, Array] = {}
"""Tables that captured graphs read."""


@lru_cache(maxsize=256)
def _blocks_of(sequences: Sequences, device: Any, of_keys: bool, largest: int) -> tuple[Array, Band, int]:
    if is_captured(device):
        raise ArgumentError(
            "attention: a first call of these sizes tells the GPU which keys a block of queries sees, which cannot be "
            "done while a CUDA graph is captured: make a call like it before"
        )
    start, other = (np.array(each, np.int64) for each in (sequences.queries, sequences.keys))
    start, other, band = (other, start, sequences.band.turned) if of_keys else (start, other, sequences.band)
    size = size_of_blocks(start, largest)
    table = table_of_blocks(start, other, band, size)
    if device is None:
        return table, band, size
    import torch

    return made_to_keep(device, lambda: torch.from_numpy(table).to(device)), band, size


def size_of_blocks(start: np.ndarray, largest: int = LARGEST) -> int:
    """Rows of a block: those of the longest sequence, as a power of two, within limits."""
    longest = int(np.diff(start).max(initial=0))
    return min(largest, max(SMALLEST, 1 << max(0, longest - 1).bit_length()))


def table_of_blocks(start: np.ndarray, other: np.ndarray, band: Band, size: int) -> np.ndarray:
    """For each block: its first row and end; the first of the other rows that it reads and their end; and the offset
    from its rows to their positions among the other rows: the last row of a sequence is at the last of the others.
    Blocks that read the most come first: programs start in this order, and those that start last take the least time.
    """
    counts = -(-np.diff(start) // size)
    sequence = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = start[sequence] + size * number
    last = np.minimum(first + size, start[sequence + 1])
    shift = other[sequence + 1] - start[sequence + 1]
    least, most = other[sequence], other[sequence + 1]
    begin = np.clip(first + shift - band.back, least, most)
    end = np.clip(last + shift + band.ahead, begin, most)
    longest_first = np.argsort(begin - end, kind="stable")
    return np.stack([first, last, begin, end, shift], 1)[longest_first]


def sizes_on_gpu(depth: int, width: int, device: Any = None, item: int = 2) -> tuple[int, int]:
    """The most queries of a block on a GPU, and keys per step, for so many elements of a key and of a value, each of
    `item` bytes. `device`: a torch device; None for any GPU.

    Where results of products lie in tensor memory, and both products are large, threads have registers for the scores
    of twice as many keys, which halves how often they wait for each other.
    """
    if max(depth, width) <= LARGE_WIDTH:
        twice = min(depth, width) > STEP and item <= 2 and device is not None and _has_tensor_memory(device)
        return LARGE_ON_GPU, 2 * STEP if twice else STEP
    return (LARGE_ON_GPU, STEP_OF_WIDE) if device is not None and _has_room(device) else (LARGEST, STEP)


def _has_room(device: Any) -> bool:
    """Whether a GPU's groups of warps multiply what is in shared memory, or its threads have registers for results of
    wide heads."""
    return present_target(str(device)).limits.dots_from_shared or _has_many_registers(device)


def _has_tensor_memory(device: Any) -> bool:
    """Whether a GPU has memory of its own for the results of dots, so that threads have registers for more scores."""
    return bool(present_target(str(device)).limits.tensor_memory)


def _has_many_registers(device: Any) -> bool:
    """Whether threads of a GPU have registers for large results, as those of AMD's CDNA do."""
    from vkernels.ir.analysis.needs import NeedsDevice  # takes long, and frozen kernels do without

    return NeedsDevice.of(present_target(str(device)).limits).registers >= MANY_REGISTERS


def gradient_block_on_gpu(depth: int, width: int, device: Any) -> int:
    """The most rows of a block of gradients on a GPU, a torch device.

    Sums of more have room in tensor memory, and where threads have many registers, if shared memory also holds the
    operands, which several loops read.
    """
    if max(depth, width) > LARGE_WIDTH:
        return LARGEST
    shared = present_target(str(device)).limits.shared
    has_room = _has_tensor_memory(device) or (shared >= MUCH_SHARED and _has_many_registers(device))
    return LARGE_ON_GPU if has_room else LARGEST


def has_masks(sequences: Sequences, size: int) -> bool:
    """Whether a block of so many rows has pairs that are not seen, or rows beyond its sequence."""
    lengths = (np.diff(each) for each in (sequences.queries, sequences.keys))
    return sequences.band != Band() or any((each % max(size, STEP)).any() for each in lengths)


def check_heads(function: str, heads: int, groups: int) -> None:
    """Raise `ArgumentError` unless the heads of queries are a multiple of those of keys."""
    if heads != groups * (heads // max(1, groups)):
        raise ArgumentError(f"{function}: q has {heads} heads, expected a multiple of k's {groups}")


def scale_of(scale: float | None, q: Array) -> float:
    return 1.0 / max(1, q.shape[3]) ** 0.5 if scale is None else scale


def with_positive_scale(q: Array, scale: float) -> tuple[Array, float]:
    """Queries and a positive scale that give the same scores. A copy is made only for a scale that is not positive."""
    if scale > 0 or scale != scale:
        return q, scale
    return (-q, -scale) if scale < 0 else (q * 0, 1.0)


def is_gpu(device: Any) -> bool:
    """Whether a torch device is a GPU; None, for NumPy, is none."""
    return device is not None and device.type == "cuda"


def by_groups(array: Array, groups: int) -> Array:
    """B × H × … as B × G × H / G × …; a view."""
    shape = tuple(array.shape)
    return array.reshape((shape[0], groups, shape[1] // max(1, groups), *shape[2:]))


def run_blocks(q: Array, k: Array, v: Array, scale: float, sequences: Sequences, out: Array) -> Array:
    """Writes `out` and returns the normaliser, B × H × M."""
    q, scale = with_positive_scale(q, scale)
    groups = k.shape[1]
    normaliser = empty_like(q, tuple(q.shape[:3]), computed=True)
    if k.shape[2] == 0:
        out[...], normaliser[...] = 0, -float("inf")
        return normaliser
    device = None if isinstance(q, np.ndarray) else q.device
    # A GPU keeps the weights in registers; a CPU writes them, and adds them up in chunks of other sizes.
    kept = is_gpu(device)
    largest, step = sizes_on_gpu(q.shape[3], v.shape[3], device, q.dtype.itemsize) if kept else (LARGEST, STEP)
    blocks, constants = blocks_of(sequences, device, largest=largest)
    step = min(step, max(STEP, constants[1]))
    query, result = (by_groups(each, groups).swapaxes(3, 4) for each in (q, out))
    sums = by_groups(normaliser, groups)
    attention_blocks(query, k, v, scale, *blocks, result, sums, *constants, kept, step)
    return normaliser


def scale_number(sizes: Sizes) -> Numbers:
    """The usual scale of scores."""
    return {"scale": 1 / max(1, sizes["D"]) ** 0.5}


def block_samples(along: str, across: str, layout: Mapping[str, str]) -> SampleInputs:
    """Blocks along queries or keys that see all of the others, and a plausible normaliser."""

    def count(sizes: Sizes, constants: Constants) -> int:
        return -(-sizes[along] // int(constants["size"]))

    def bounds(sizes: Sizes) -> Numbers:
        return {**scale_number(sizes), "back": UNLIMITED, "ahead": UNLIMITED}

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        start, other = (np.array([0, sizes[name]], np.int64) for name in (along, across))
        table = table_of_blocks(start, other, Band(), int(constants["size"]))
        heads = tuple(sizes[name] for name in "BGRM")
        normaliser = math.log(max(1, sizes["N"])) + 0.5 + 0.1 * random.standard_normal(heads)
        return {"block": table, "normaliser": normaliser}

    return SampleInputs({"P": count}, numbers=bounds, arrays=arrays, layout=layout)


BY_HEADS = {name: f"B G R M {depth}" for name, depth in (("q", "D"), ("out", "E"), ("grad", "E"), ("dq", "D"))}
BLOCKS_OF_QUERIES = block_samples("M", "N", BY_HEADS)
BLOCKED = {"B": 4, "G": 8, "R": 4, "M": 2048, "N": 2048, "D": 64, "E": 64, "P": 32}
CPU_HEADS = {"B": 1, "G": 8, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64}


def _on_gpus(sizes: Sizes) -> Constants:
    """Constants of calls on GPUs."""
    size, step = sizes_on_gpu(sizes["D"], sizes["E"])
    return {"kept": True, "size": size, "keys": step}


CATALOGUE = (
    entry(
        "attention",
        attention_blocks,
        BLOCKED,
        CPU_HEADS,
        computed=("normaliser",),
        samples=replace(BLOCKS_OF_QUERIES, gpu_constants=_on_gpus),
    ),
)
