"""Kernels that between them use every construct of the language; test_constructs.py runs them and keeps their IR."""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Int, Shaped, UInt8, UInt16, UInt32, UInt64

import vkernels as vk

TAPS = (0.25, 0.5, 0.25)


@vk.kernel
def stencil(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], far: Float[vk.Tensor, "H"]):
    """Affine indices with offsets: what lies outside reads 0."""
    i = vk.tile("N")
    out[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]
    h = vk.tile("H")
    far[h] = x[2 * h + 1] - x[h]


@vk.kernel
def unrolled_stencil(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    """A Python loop over what is known when building is unrolled."""
    i = vk.tile("N")
    total = vk.zeros(i)
    for offset, tap in ((-1, TAPS[0]), (0, TAPS[1]), (1, TAPS[2])):
        total += tap * x[i + offset]
    for _ in range(0):
        total = total * math.pi
    out[i] = total


@vk.kernel
def csr(
    start: Int[vk.Tensor, "R1"],
    column: Int[vk.Tensor, "Z"],
    value: Float[vk.Tensor, "Z"],
    x: Float[vk.Tensor, "C"],
    out: Float[vk.Tensor, "R"],
):
    """A ragged range: each row makes its own number of steps."""
    r = vk.tile("R")
    total = 0.0
    for e in vk.range(start[r], start[r + 1]):
        total += value[e] * x[column[e]]
    out[r] = total


@vk.kernel
def ragged_rows(start: Int[vk.Tensor, "R"], x: Float[vk.Tensor, "Z"], out: Float[vk.Tensor, "R 4"]):
    """An index tile plus an axis."""
    r = vk.tile("R")
    j = vk.whole(4)
    out[r, j] = x[start[r] + j] + x[j + (start[r] + 1)]


@vk.kernel
def control(x: Float[vk.Tensor, "N"], n: vk.Scalar, out: Float[vk.Tensor, "N"], steps: Int[vk.Tensor, "2"]):
    """`if` and `while` on scalars."""
    i = vk.tile("N")
    y = x[i]
    count = 0
    while n > 1 and count < 100:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
            local = n // 2
            n = n + 0 * local
        count += 1
    if count > 5:
        y = y * 2
        label = 1
    elif not count > 2:
        label = 2.0
    else:
        label = count
    out[i] = y + label
    steps[0] = count
    steps[1] = 7 if count > 5 or n > 3 else x[0].to(vk.int64)


@vk.kernel
def loops(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], total: Float[vk.Tensor, "1"], last: vk.Scalar):
    """Carried variables that grow axes, that swap, and bounds of several kinds."""
    i = vk.tile("M")
    a, b = 0, 1
    row = 0
    for k in vk.range("N"):
        a, b = b, a + b
        for q in vk.range(1, 3):
            row += x[i, k] * q
    for k in vk.range(vk.size("N")):
        row = row + x[i, k]
    for k in vk.range(2, last):
        row -= x[i, k]
    out[i] = row + (a * 0)
    total[0] = b


@vk.function
def scaled(x, factor=2.0, *, shift=0.0):
    """Helpers are built in place, may return early where that is decided, and take anything."""
    if shift == 0.0:
        return x * factor
    return x * factor + shift


@vk.function
def row_sum(x, i):
    j = vk.whole("N")
    return vk.sum(x[i, j])


@vk.function
def put(target, i, value):
    target[i] = value


@vk.kernel
def helpers(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], mode: vk.Constant = "twice"):
    i = vk.tile("M")
    j = vk.whole("N")
    y = vk.sum(x[i, j], axis=j)
    if mode == "twice" and mode is not None:
        y = scaled(y)
    elif mode in ("shifted", "moved"):
        y = scaled(y, shift=1.0)
    else:
        y = scaled(*(y, 3.0))
    put(out, i, y + row_sum(x, i) - row_sum(x, i))


@vk.kernel
def scratchpad(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    """A scratchpad read at other whole positions, after a phase."""
    i = vk.tile("M")
    j = vk.whole("N")
    row = vk.scratch((i, j), x.dtype)
    row[i, j] = x[i, j]
    vk.phase("shift")
    shifted = row[i, j + 1]
    vk.phase()
    row[i, j] += shifted
    out[i, j] = row[i, j]


@vk.kernel
def reshaped(x: Float[vk.Tensor, "M 6"], out: Float[vk.Tensor, "M 2 3"], y: Float[vk.Tensor, "M A B"]):
    i = vk.tile("M")
    j = vk.whole(6)
    a, b = vk.whole(2), vk.whole(3)
    grouped = vk.reshape(x[i, j], j, (a, b))
    out[i, a, b] = grouped
    c = vk.whole("A")
    d = vk.whole("B")
    y[i, c, d] = vk.reshape(grouped, (a, b), (c, d))


@vk.kernel
def products(
    a: Float[vk.Tensor, "B M K"],
    b: Float[vk.Tensor, "B K N"],
    out: Float[vk.Tensor, "B M N"],
    inner: Float[vk.Tensor, "B"],
    whole: Int[vk.Tensor, "M N"],
):
    """A batch stays; an accumulator is carried; short integers are added in int32."""
    batch = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    total = vk.dot(a[batch, i, k], b[batch, k, j])
    total = vk.dot(a[batch, i, k], b[batch, k, j], acc=total, axis=k, precision="tf32")
    out[batch, i, j] = vk.dot(a[batch, i, k], b[batch, k, j], 1) + total - 1
    inner[batch] = vk.dot(a[batch, 0, k], a[batch, 0, k], acc=vk.full(batch, 0.5))
    left = vk.cast(a[0, i, k], vk.int8)
    right = vk.cast(b[0, k, j], vk.int16)
    product = vk.dot(left, right)
    assert product.dtype == vk.int32
    whole[i, j] = product


@vk.kernel
def histogram(
    group: Int[vk.Tensor, "N"],
    x: Float[vk.Tensor, "N"],
    total: Float[vk.Tensor, "G"],
    high: Int[vk.Tensor, "G"],
    low: Int[vk.Tensor, "G"],
):
    i = vk.tile("N")
    vk.atomic_add(total[group[i]], x[i])
    vk.atomic_max(high[group[i]], i)
    vk.atomic_min(low[group[i]], i)


@vk.kernel
def masked(
    x: Float[vk.Tensor, "N"], keep: Bool[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], any_: Bool[vk.Tensor, "1"]
):
    i = vk.tile("N")
    value = vk.load(x[i], where=keep[i])
    vk.store(out[i], value + 1, where=~keep[i] | (x[i] > 2))
    j = vk.whole("N")
    any_[0] = vk.any(keep[j]) and vk.all(x[j] > 0) and True


@vk.kernel
def triangle(x: Float[vk.Tensor, "N N"], out: Float[vk.Tensor, "N N"], means: Float[vk.Tensor, "3"]):
    """Axes as values, broadcast by name, layout by hand."""
    i = vk.tile("N")
    j = vk.whole("N")
    value = vk.where(i < j, x[i, j], 0.0)
    turned = vk.transpose(value, (j, i))
    out[i, j] = turned + vk.broadcast(x[i, i], (j, i)) * (i == j) - (i - j) * 0 + (-i + i + 2 * (j - j))
    p, q = vk.whole("N"), vk.whole("N")
    means[0] = vk.mean(x[p, q], axis=(p, q))
    means[1] = vk.sum(vk.max(x[p, q], axis=p))
    means[2] = vk.size("N") + x.shape[0] + j.size + x.ndim + (i is j) + len(x.shape)


@vk.kernel
def formats(
    x: Float[vk.Tensor, "N"],
    out: Shaped[vk.Tensor, "N"],
    scalar: Float[vk.Tensor, ""],
    seen: Float[vk.Tensor, ""],
    number: vk.Scalar = 2,
):
    """f16, bf16 and f8 are memory formats; a cast rounds."""
    i = vk.tile("N")
    half = x[i].to(vk.float16)
    pinned: float = 1.0
    out[i] = half * number + scalar[()] * pinned
    seen[()] = 3


@vk.kernel
def shown(x: Float[vk.Tensor, "N"], count: Int[vk.Tensor, "1"]):
    i = vk.tile("N")
    vk.print("x is", x[i], "of", count[0], 3)
    vk.device_assert(x[i] > 0, "x must be positive")
    vk.device_assert(count[0] > 0)
    pass


@vk.kernel
def unsigned(
    x: UInt8[vk.Tensor, "M N"],
    index: UInt16[vk.Tensor, "M"],
    far: UInt64[vk.Tensor, "M"],
    scale: Float[vk.Tensor, "M"],
    out: UInt8[vk.Tensor, "M N"],
    best: UInt8[vk.Tensor, "M"],
    total: UInt32[vk.Tensor, "4"],
    row: UInt8[vk.Tensor, "M N"],
):
    """Unsigned integers: the IR's have no sign, so operations have."""
    i, j = vk.tile("M"), vk.whole("N")
    value = x[i, j]
    part = (value // 3 + value % 200 >> 1) ^ ~value
    bright = vk.where(value > 128, 255 - value, part)
    out[i, j] = (bright.to(vk.float32) * scale[i]).to(vk.uint8)
    best[i] = vk.max(vk.minimum(value, bright), axis=j)
    vk.atomic_max(total[index[i]], best[i].to(vk.uint32) * 2)
    row[i, j] = x[far[i], j] + vk.cumulative_min(value, axis=j)


@vk.kernel
def positions(halves: Float[vk.Tensor, "M N"], place: Int[vk.Tensor, "M N"]):
    """An axis, and a sum of axes, is the tile of its positions: it has a dtype and is converted as one."""
    i, j = vk.tile("M"), vk.whole("N")
    halves[i, j] = vk.zeros((i, j), j.dtype) + (i + 2 * j).to(vk.float32) / 2
    place[i, j] = j.to(vk.int8) + vk.zeros((i, j), (2 * i + 1).dtype)
