"""Kernels along sequences: scans, recurrences, dynamic programming, sorting."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.function
def then(before, after):
    a, b = before
    c, d = after
    return a * c, b * c + d


@vk.kernel
def selective_scan(
    u: Float[vk.Tensor, "B L D"],
    delta: Float[vk.Tensor, "B L D"],
    a: Float[vk.Tensor, "D S"],
    b: Float[vk.Tensor, "B L S"],
    c: Float[vk.Tensor, "B L S"],
    out: Float[vk.Tensor, "B L D"],
):
    """Mamba's: h = exp(delta a) h + delta b u, and c h summed over the state."""
    n, t, d, s = vk.tile("B"), vk.whole("L"), vk.tile("D"), vk.whole("S")
    decay = vk.exp(delta[n, t, d] * a[d, s])
    _, state = vk.scan(then, (decay, delta[n, t, d] * u[n, t, d] * b[n, t, s]), axis=t)
    out[n, t, d] = vk.sum(state * c[n, t, s], axis=s)


@vk.kernel
def selective_loop(
    u: Float[vk.Tensor, "B L D"],
    delta: Float[vk.Tensor, "B L D"],
    a: Float[vk.Tensor, "D S"],
    b: Float[vk.Tensor, "B L S"],
    c: Float[vk.Tensor, "B L S"],
    out: Float[vk.Tensor, "B L D"],
):
    """The same as a loop over the steps."""
    n, d, s = vk.tile("B"), vk.tile("D"), vk.whole("S")
    state = vk.zeros((n, d, s), like=u)
    for t in vk.range("L"):
        state = vk.exp(delta[n, t, d] * a[d, s]) * state + delta[n, t, d] * u[n, t, d] * b[n, t, s]
        out[n, t, d] = vk.sum(state * c[n, t, s], axis=s)


@vk.kernel
def smith_waterman(
    first: Int[vk.Tensor, "P N"],
    second: Int[vk.Tensor, "P M"],
    best: Int[vk.Tensor, "P"],
    gap: vk.Scalar,
):
    """The best local alignment of each pair, by anti-diagonals; a match counts 2, a mismatch -1."""
    p, i = vk.tile("P"), vk.whole("N")
    last, older = vk.zeros((p, i), vk.int64), vk.zeros((p, i), vk.int64)
    most = vk.zeros((p, i), vk.int64)
    kept, oldest = vk.scratch((p, i), vk.int64), vk.scratch((p, i), vk.int64)
    for wave in vk.range(vk.size("N") + vk.size("M") - 1):
        kept[p, i] = last
        oldest[p, i] = older
        vk.phase()
        above = vk.where(i > 0, kept[p, vk.maximum(i - 1, 0)], 0)
        corner = vk.where(i > 0, oldest[p, vk.maximum(i - 1, 0)], 0)
        j = wave - i
        inside = (j >= 0) & (j < vk.size("M"))
        letter = vk.load(second[p, vk.clamp(j, 0, vk.size("M") - 1)], where=vk.broadcast(inside, (p, i)))
        match = vk.where(first[p, i] == letter, 2, -1)
        score = vk.maximum(vk.maximum(corner + match, 0), vk.maximum(above, last) - gap)
        score = vk.where(inside, score, 0)
        vk.phase()
        older = last
        last = score
        most = vk.maximum(most, score)
    best[p] = vk.max(most, axis=i)


@vk.kernel
def top_p(logits: Float[vk.Tensor, "M N"], p: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    """Probabilities of the likeliest tokens that make up p together, the others 0."""
    i, j = vk.tile("M"), vk.whole("N")
    row = logits[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    probability = e / vk.sum(e, axis=j)
    order = vk.argsort(probability, axis=j, descending=True)
    likely = vk.sort(probability, axis=j, descending=True)
    before = vk.cumulative_sum(likely, axis=j) - likely
    kept = vk.where(before < p, likely, 0.0)
    out[i, order] = kept / vk.sum(kept, axis=j)


@vk.kernel
def medians(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    ordered = vk.sort(x[i, j], axis=j)
    out[i] = vk.sum(vk.where(j == (vk.size("N") - 1) // 2, ordered, 0.0), axis=j)


@vk.function
def restarting(before, after):
    total, starts = before
    value, begins = after
    return vk.where(begins != 0, value, total + value), starts | begins


@vk.kernel
def segmented_sums(x: Float[vk.Tensor, "M N"], begins: Int[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    """Running sums that begin anew where `begins` is 1."""
    i, j = vk.tile("M"), vk.whole("N")
    total, _ = vk.scan(restarting, (x[i, j], begins[i, j]), axis=j)
    out[i, j] = total


@vk.function
def joined_logs(left, right):
    most, total = left
    other, more = right
    peak = vk.maximum(most, other)
    return peak, total * vk.exp(most - peak) + more * vk.exp(other - peak)


@vk.kernel
def log_sum_exp(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    row = x[i, j]
    most, total = vk.reduce(joined_logs, (row, vk.full_like(row, 1)), axis=j)
    out[i] = most + vk.log(total)


@vk.function
def joined_moments(left, right):
    n, mean, squares = left
    m, other, more = right
    total, apart = n + m, other - mean
    return total, mean + apart * m / total, squares + more + apart * apart * n * m / total


@vk.kernel
def welford(x: Float[vk.Tensor, "M N"], mean: Float[vk.Tensor, "M"], variance: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    row = x[i, j]
    n, middle, squares = vk.reduce(joined_moments, (vk.full_like(row, 1), row, vk.zeros_like(row)), axis=j)
    mean[i] = middle
    variance[i] = squares / n
