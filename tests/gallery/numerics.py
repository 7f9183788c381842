"""Numerical kernels: factorisations, transforms, grids, particles, normalisation."""

import math

from jaxtyping import Complex64, Float, Int, UInt4

import vkernels as vk


@vk.kernel
def cholesky(a: Float[vk.Tensor, "B N N"], out: Float[vk.Tensor, "B N N"]):
    """The lower factors of a batch of matrices."""
    b, i, j = vk.tile("B"), vk.whole("N"), vk.whole("N")
    left = a[b, i, j]
    for k in vk.range("N"):
        pivot = vk.sqrt(vk.sum(vk.sum(vk.where((i == k) & (j == k), left, 0.0), axis=j), axis=i))
        down = vk.sum(vk.where(j == k, left, 0.0), axis=j) / pivot
        across = vk.sum(vk.where(i == k, left, 0.0), axis=i) / pivot
        vk.store(out[b, i, k], down, where=vk.broadcast(i >= k, (b, i)))
        left = left - down * across


@vk.kernel
def lu(a: Float[vk.Tensor, "B N N"], out: Float[vk.Tensor, "B N N"]):
    """L below the diagonal, U on and above it; without pivoting."""
    b, i, j = vk.tile("B"), vk.whole("N"), vk.whole("N")
    left = a[b, i, j]
    for k in vk.range("N"):
        row = vk.sum(vk.where(i == k, left, 0.0), axis=i)
        pivot = vk.sum(vk.where(j == k, row, 0.0), axis=j)
        factor = vk.where(i > k, vk.sum(vk.where(j == k, left, 0.0), axis=j) / pivot, 0.0)
        left = vk.where((j == k) & (i > k), factor, left - factor * vk.where(j > k, row, 0.0))
    out[b, i, j] = left


@vk.kernel
def fft(z: Complex64[vk.Tensor, "B N"], out: Complex64[vk.Tensor, "B N"], stages: vk.Constant = 4):
    """Stockham's transform of a power of two."""
    length = 2**stages
    b, n = vk.tile("B"), vk.whole(length)
    x = vk.scratch((b, n), z.dtype)
    x[b, n] = z[b, n]
    for stage in range(stages):
        span = 2**stage
        vk.phase()
        pair = (n // (2 * span)) * span + n % span
        angle = (-math.pi / span) * (n % span).to(vk.float32)
        turned = vk.complex(vk.cos(angle), vk.sin(angle)) * x[b, pair + length // 2]
        new = x[b, pair] + vk.where((n // span) % 2 == 0, turned, -turned)
        vk.phase()
        x[b, n] = new
    out[b, n] = x[b, n]


@vk.kernel
def heat(u: Float[vk.Tensor, "B 8 8 8"], out: Float[vk.Tensor, "B 8 8 8"], steps: vk.Scalar, rate: vk.Scalar):
    """Several steps of a 3-D stencil on blocks with cold surfaces."""
    b, i, j, k = vk.tile("B"), vk.whole(8), vk.whole(8), vk.whole(8)
    t = vk.scratch((b, i, j, k), u.dtype)
    t[b, i, j, k] = u[b, i, j, k]
    for _ in vk.range(steps):
        vk.phase()
        around = t[b, i - 1, j, k] + t[b, i + 1, j, k] + t[b, i, j - 1, k] + t[b, i, j + 1, k]
        around = around + t[b, i, j, k - 1] + t[b, i, j, k + 1]
        new = t[b, i, j, k] + rate * (around - 6 * t[b, i, j, k])
        vk.phase()
        t[b, i, j, k] = new
    out[b, i, j, k] = t[b, i, j, k]


@vk.kernel
def n_body(x: Float[vk.Tensor, "N 3"], mass: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N 3"]):
    """Accelerations by gravity, softened."""
    i, j, a = vk.tile("N"), vk.whole("N"), vk.whole(3)
    apart = x[j, a] - x[i, a]
    square = vk.sum(apart * apart, axis=a) + 1e-3
    out[i, a] = vk.sum(mass[j] * apart * vk.rsqrt(square) / square, axis=j)


@vk.kernel
def ising(spin: Int[vk.Tensor, "H W"], out: Int[vk.Tensor, "H W"], colour: vk.Scalar, seed: vk.Scalar, beta: vk.Scalar):
    """Metropolis's step for one colour of a checkerboard on a torus."""
    i, j = vk.tile("H"), vk.tile("W")
    h, w = vk.size("H"), vk.size("W")
    mine = spin[i, j]
    around = spin[(i + 1) % h, j] + spin[(i + h - 1) % h, j] + spin[i, (j + 1) % w] + spin[i, (j + w - 1) % w]
    chance = vk.exp(-2.0 * beta * (mine * around).to(vk.float32))
    turns = ((i + j) % 2 == colour) & (vk.random(seed, i * w + j) < chance)
    out[i, j] = vk.where(turns, -mine, mine)


@vk.kernel
def int4_matmul(
    x: Float[vk.Tensor, "M K"],
    weight: UInt4[vk.Tensor, "N K"],
    scale: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
):
    """Weights of 4 bits, of which 8 is the zero."""
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.dot(x[i, k], weight[j, k] - 8.0) * scale[j]


@vk.kernel
def group_norm_backward(
    grad: Float[vk.Tensor, "B G C L"],
    x: Float[vk.Tensor, "B G C L"],
    gamma: Float[vk.Tensor, "G C"],
    dx: Float[vk.Tensor, "B G C L"],
    dgamma: Float[vk.Tensor, "G C"],
    dbeta: Float[vk.Tensor, "G C"],
    eps: vk.Scalar,
):
    """All three gradients in one kernel: those of gamma and beta are added up over the batch by atomics."""
    b, g, c, l = vk.tile("B"), vk.tile("G"), vk.whole("C"), vk.whole("L")
    value, given = x[b, g, c, l], grad[b, g, c, l]
    count = vk.size("C") * vk.size("L")
    mean = vk.sum(value, axis=(c, l)) / count
    apart = value - mean
    inverse = vk.rsqrt(vk.sum(apart * apart, axis=(c, l)) / count + eps)
    normal = apart * inverse
    vk.atomic_add(dgamma[g, c], given * normal)
    vk.atomic_add(dbeta[g, c], given)
    inner = given * gamma[g, c]
    first = vk.sum(inner, axis=(c, l)) / count
    second = vk.sum(inner * normal, axis=(c, l)) / count
    dx[b, g, c, l] = inverse * (inner - first - normal * second)


@vk.kernel
def mandelbrot(out: Int[vk.Tensor, "H W"], most: vk.Scalar):
    """Steps until a point escapes."""
    i, j = vk.tile("H"), vk.tile("W")
    a = 3.0 * vk.cast(j, vk.float64) / vk.size("W") - 2.0
    b = 2.0 * vk.cast(i, vk.float64) / vk.size("H") - 1.0
    x, y, steps = vk.zeros((i, j), vk.float64), vk.zeros((i, j), vk.float64), vk.zeros((i, j), vk.int64)
    for _ in vk.range(most):
        inside = x * x + y * y <= 4.0
        new = x * x - y * y + a
        y = vk.where(inside, 2.0 * x * y + b, y)
        x = vk.where(inside, new, x)
        steps = steps + vk.where(inside, 1, 0)
    out[i, j] = steps


@vk.kernel
def triangular_solve(a: Float[vk.Tensor, "B N N"], right: Float[vk.Tensor, "B N M"], out: Float[vk.Tensor, "B N M"]):
    """Forward substitution with lower triangular matrices."""
    b, i, m = vk.tile("B"), vk.whole("N"), vk.tile("M")
    left = right[b, i, m]
    for k in vk.range("N"):
        x = vk.sum(vk.where(i == k, left, 0.0), axis=i) / a[b, k, k]
        out[b, k, m] = x
        left = left - vk.where(i > k, a[b, i, k], 0.0) * x


@vk.kernel
def batch_norm(
    x: Float[vk.Tensor, "M N"],
    total: Float[vk.Tensor, "P N"],
    square: Float[vk.Tensor, "P N"],
    out: Float[vk.Tensor, "M N"],
    rows: vk.Constant = 16,
):
    """Each program sums up its rows; all wait; then each adds up what all have, and normalises its rows.

    `total`, `square`: a row for each block of `rows` rows.
    """
    p, r, j = vk.tile("P"), vk.whole(rows), vk.tile("N")
    every = vk.whole("P")
    block = x[rows * p + r, j]
    total[p, j] = vk.sum(block, axis=r)
    square[p, j] = vk.sum(block * block, axis=r)
    vk.phase(grid=True)
    mean = vk.sum(total[every, j], axis=every) / vk.size("M")
    variance = vk.sum(square[every, j], axis=every) / vk.size("M") - mean * mean
    out[rows * p + r, j] = (x[rows * p + r, j] - mean) * vk.rsqrt(variance + 1e-5)
