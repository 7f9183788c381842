"""The k largest elements of rows and their positions, in descending order.

For small k they are found one after another, each in the block of its row whose largest element left is the largest:
so a row is read once. Otherwise a threshold is found by bisection over bit patterns, with one
pass over a row per bit; elements from the threshold on are compacted, and sorted by `vk.topk`, into columns: lanes run
along rows, so no step moves data between lanes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .arrays import Array, empty_like, integers_like
from .declared import NotNegative, checked, replayed
from .replay import refuse
from .samples import Arrays, Constants, SampleInputs, Sizes, entry, random_indices
from .transposes import count_up

__all__ = ["topk"]


@vk.function
def ordered(x):
    """Integers in the order of floats: NaN is largest, and -0 equals 0."""
    bits = vk.bits(vk.where(x == 0.0, 0.0, x))
    most = 0x7FFFFFFFFFFFFFFF if x.dtype == vk.float64 else 0x7FFFFFFF
    return vk.where(vk.isnan(x), most, vk.where(bits < 0, bits ^ most, bits))


@vk.kernel
def largest_of_blocks(x: Float[vk.Tensor, "M B L"], largest: Float[vk.Tensor, "M B"]):
    i = vk.tile("M")
    b = vk.tile("B")
    l = vk.whole("L")
    largest[i, b] = vk.max(x[i, b, l], axis=l)


@vk.kernel
def largest_in_turn(
    x: Float[vk.Tensor, "M N"],
    largest: Float[vk.Tensor, "M B"],
    value: Float[vk.Tensor, "M K"],
    index: Int[vk.Tensor, "M K"],
    length: vk.Constant = 64,
):
    i = vk.tile("M")
    b = vk.whole("B")
    l = vk.whole(length)
    left = ordered(largest[i, b])  # of each block, the largest element that was not taken
    most = 0x7FFFFFFFFFFFFFFF if x.dtype == vk.float64 else 0x7FFFFFFF
    last, place = vk.full((i,), most, left.dtype), vk.full((i,), -1, vk.int64)
    for k in vk.range("K"):
        block = vk.argmax(left, axis=b)
        first = block * length
        inside = first + l < vk.size("N")
        key = ordered(vk.load(x[i, first + l], where=inside))
        after = inside & ((key < last) | ((key == last) & (l > place - first)))
        key = vk.where(after, key, -1 - most)  # below any element's
        found = vk.argmax(key, axis=l)
        last = vk.max(key, axis=l)
        place = first + found
        rest = vk.max(vk.where(l == found, -1 - most, key), axis=l)
        left = vk.where(b == block, rest, left)
        value[i, k] = x[i, place]
        index[i, k] = place


EXACT = 1 << 24
"""The largest count that float32 can hold."""


@vk.function
def as_count(condition, many: vk.Constant):
    """Summands that count where a condition holds: float32 is fastest, int64 counts beyond `EXACT`."""
    if many:
        return vk.where(condition, 1, 0)
    return vk.where(condition, 1.0, 0.0)


@vk.kernel
def select_largest(
    x: Float[vk.Tensor, "M N"],
    value: Float[vk.Tensor, "M K"],
    index: Int[vk.Tensor, "M K"],
    many: vk.Constant = False,
):
    i = vk.tile("M")
    j = vk.whole("N")
    key = ordered(x[i, j])
    most = 0x7FFFFFFFFFFFFFFF if x.dtype == vk.float64 else 0x7FFFFFFF
    low, high = vk.full((i,), -1 - most, key.dtype), vk.full((i,), most, key.dtype)
    for _ in vk.range(64 if x.dtype == vk.float64 else 32):
        middle = (low | high) - ((low ^ high) >> 1)
        enough = vk.sum(as_count(key >= middle, many), axis=j) >= vk.size("K")
        low = vk.where(enough, middle, low)
        high = vk.where(enough, high, middle - 1)
    above = vk.sum(as_count(key > low, many), axis=j)
    number = vk.cumulative_sum(as_count(key == low, many), axis=j)
    taken = (key > low) | ((key == low) & (number <= vk.size("K") - above))
    place = vk.cumulative_sum(as_count(taken, many), axis=j).to(vk.int64) - 1
    vk.store(value[i, place], x[i, j], where=taken)
    vk.store(index[i, place], j, where=taken)


@vk.kernel
def sort_rows(
    x: Float[vk.Tensor, "M N"],
    origin: Int[vk.Tensor, "M N"],
    value: Float[vk.Tensor, "M K"],
    index: Int[vk.Tensor, "M K"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    place = vk.argsort(x[i, j], axis=j, descending=True)
    vk.store(value[i, j], x[i, place], where=j < vk.size("K"))
    vk.store(index[i, j], origin[i, place], where=j < vk.size("K"))


FEW = 8
"""The largest k for which elements are found one after another."""
LENGTH = 64
"""Elements of the blocks whose largest are found first; then each of the k is searched in one block."""


@replayed
@checked
def topk(x: Float[Array, "M N"], k: NotNegative) -> tuple[Array, Array]:
    """The k largest elements of each row in descending order, and their positions, int64; ties in order of position.

    `x`: M × N, of any strides; f64, f32, f16 or bf16; N below 2³¹. `k`: 0 to N. NaN is largest, as in torch
    (which leaves the order of ties open). New arrays.
    Raises `ArgumentError` for other shapes, dtypes or numbers.
    """
    if not k <= x.shape[1] < 1 << 31:
        raise ArgumentError(f"topk: x has shape {tuple(x.shape)} and k is {k}, expected rows of at least k elements")
    value, index = empty_like(x, (x.shape[0], k)), integers_like(x, (x.shape[0], k))
    if k <= FEW:
        largest_in_turn(x, _largest_of_blocks(x), value, index, LENGTH)
        return value, index
    is_selected = _room(k) < _room(x.shape[1])
    x, origin = _selected(x, k) if is_selected else (x, _for_every_row(count_up(index, x.shape[1]), x.shape[0]))
    by_place = empty_like(x, (k, x.shape[0])), integers_like(x, (k, x.shape[0]))  # rows are adjacent, as lanes
    sort_rows(x, origin, by_place[0].T, by_place[1].T)
    refuse()
    value[...], index[...] = by_place[0].T, by_place[1].T
    return value, index


def _largest_of_blocks(x: Array) -> Array:
    """The largest element of each block of `LENGTH` columns; the last block may be shorter."""
    whole, rest = divmod(x.shape[1], LENGTH)
    largest = empty_like(x, (x.shape[0], whole + (rest > 0)))
    for columns, length in ((x[:, : whole * LENGTH], LENGTH), (x[:, whole * LENGTH :], rest)):
        if columns.shape[1]:
            blocks = columns.reshape((x.shape[0], columns.shape[1] // length, length))
            largest_of_blocks(blocks, largest[:, :whole] if length == LENGTH else largest[:, whole:])
    return largest


def _selected(x: Array, k: int) -> tuple[Array, Array]:
    value, index = empty_like(x, (x.shape[0], k)), integers_like(x, (x.shape[0], k))
    select_largest(x, value, index, x.shape[1] > EXACT)
    return value, index


def _for_every_row(row: Array, rows: int) -> Array:
    return np.broadcast_to(row, (rows, row.shape[0])) if isinstance(row, np.ndarray) else row.expand(rows, -1)


def _room(length: int) -> int:
    return 1 << max(0, length - 1).bit_length()


def _largest_given(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    """Random rows, and the largest elements of their blocks."""
    x = random.standard_normal((sizes["M"], sizes["N"]))
    blocks = np.pad(x, ((0, 0), (0, -sizes["N"] % LENGTH)), constant_values=-np.inf)
    return {"x": x, "largest": blocks.reshape((sizes["M"], -1, LENGTH)).max(axis=2)}


CATALOGUE = (
    entry("topk", largest_of_blocks, {"M": 4096, "B": 16, "L": 64}, {"M": 1024, "B": 16, "L": 64}),
    entry(
        "topk",
        largest_in_turn,
        {"M": 4096, "N": 1024, "K": 8},
        {"M": 1024, "N": 1024, "K": 4},
        samples=SampleInputs({"B": lambda sizes, constants: -(-sizes["N"] // LENGTH)}, arrays=_largest_given),
    ),
    entry("topk", select_largest, {"M": 4096, "N": 32768, "K": 64}, {"M": 256, "N": 4096, "K": 64}),
    entry(
        "topk",
        sort_rows,
        {"M": 4096, "N": 1024, "K": 1024},
        {"M": 256, "N": 256, "K": 256},
        samples=SampleInputs(
            arrays=lambda sizes, constants, random: {
                "origin": random_indices(1 << 15, (sizes["M"], sizes["N"]), random)
            }
        ),
    ),
)
