"""Every kernel of the gallery gives what NumPy or torch gives in float64, however it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed

from . import counts, numerics, sequences

Arrays = list[Any]


@dataclass(frozen=True)
class Entry:
    """`make`: arguments and, from the first result's place on, what results must be. `tolerance`: relative."""

    kernel: Any
    make: Callable[[np.random.Generator], tuple[Arrays, Arrays]]
    tolerance: float = 1e-4
    constants: tuple[tuple[str, Any], ...] = ()


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def poison(of: Any) -> np.ndarray:
    return np.full_like(of, -77 if of.dtype.kind == "i" else np.nan)


def selective(random):
    b, l, d, s = 2, 9, 5, 4
    u, delta = floats(random, b, l, d), np.abs(floats(random, b, l, d))
    a, bs, cs = -np.abs(floats(random, d, s)), floats(random, b, l, s), floats(random, b, l, s)
    h, out = np.zeros((b, d, s)), np.zeros((b, l, d))
    for t in range(l):
        h = np.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * u[:, t])[:, :, None] * bs[:, t, None].astype(float)
        out[:, t] = (h * cs[:, t, None]).sum(-1)
    return [u, delta, a, bs, cs, poison(u)], [out]


def alignments(random):
    first, second = random.integers(0, 3, (4, 7)), random.integers(0, 3, (4, 10))
    best = []
    for x, y in zip(first, second, strict=True):
        table = np.zeros((8, 11), int)
        for i in range(1, 8):
            for j in range(1, 11):
                match = table[i - 1, j - 1] + (2 if x[i - 1] == y[j - 1] else -1)
                table[i, j] = max(0, match, table[i - 1, j] - 1, table[i, j - 1] - 1)
        best.append(table.max())
    return [first, second, np.full(4, -7), 1], [np.array(best)]


def nucleus(random):
    logits = floats(random, 5, 23) * 3
    likely = torch.softmax(torch.from_numpy(logits), 1)
    values, order = torch.sort(likely, stable=True, dim=1, descending=True)
    kept = torch.where(values.cumsum(1) - values < 0.8, values, 0)
    expected = torch.zeros_like(likely).scatter_(1, order, kept / kept.sum(1, keepdim=True))
    return [logits, 0.8, poison(logits)], [expected.numpy()]


def middle(random):
    x = floats(random, 6, 15)
    return [x, poison(x[:, 0])], [np.median(x, 1)]


def segments(random):
    x, begins = floats(random, 3, 20), (random.random((3, 20)) < 0.3).astype(np.int64)
    expected, total = np.zeros((3, 20)), np.zeros(3)
    for j in range(20):
        total = np.where(begins[:, j] == 1, 0, total) + x[:, j]
        expected[:, j] = total
    return [x, begins, poison(x)], [expected]


def logarithms(random):
    x = floats(random, 4, 30) * 40
    return [x, poison(x[:, 0])], [torch.logsumexp(torch.from_numpy(x).double(), 1).numpy()]


def moments(random):
    x = floats(random, 4, 30) + 100
    wide = x.astype(float)
    return [x, poison(x[:, 0]), poison(x[:, 0])], [wide.mean(1), wide.var(1)]


def counted(random):
    x = random.integers(0, 11, 300)
    return [x, np.zeros(11, np.int64)], [np.bincount(x, minlength=11)]


def largest(random):
    x = floats(random, 9, 31)
    return [x, np.full(1, -np.inf, np.float32)], [x.max(keepdims=True)[0]]


def hashes(keys: np.ndarray, bits: int = 1024) -> np.ndarray:
    with np.errstate(over="ignore"):
        found = []
        for salt in range(3):
            mixed = (keys ^ (keys >> 15)) * (2654435761 + 2 * salt)
            found.append((((mixed ^ (mixed >> 13)) * 2246822519) >> 7) & (bits - 1))
    return np.stack(found)


def inserted(random):
    keys = random.integers(0, 1 << 20, 50)
    table = np.zeros(1024, np.int64)
    table[hashes(keys).ravel()] = 1
    return [keys, np.zeros(1024, np.int64)], [table]


def queried(random):
    keys, others = random.integers(0, 1 << 20, (2, 60))
    table = np.zeros(1024, np.int64)
    table[hashes(keys).ravel()] = 1
    asked = np.concatenate([keys[:30], others])
    return [asked, table, np.full(90, -7)], [table[hashes(asked)].min(0)]


def edges(random, vertices: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = random.multinomial(count, np.full(vertices, 1 / vertices))
    return np.concatenate([[0], np.cumsum(lengths)]), random.integers(0, vertices, count)


def labels(random):
    start, neighbour = edges(random, 20, 45)
    label = random.permutation(20)
    expected = [min([label[v], *label[neighbour[start[v] : start[v + 1]]]]) for v in range(20)]
    return [start, neighbour, label, np.full(20, -7)], [np.array(expected)]


def hops(random):
    start, neighbour = edges(random, 20, 45)
    labels_after = [random.permutation(20)]
    for _ in range(2):
        before = labels_after[-1]
        after = [min([before[v], *before[neighbour[start[v] : start[v + 1]]]]) for v in range(20)]
        labels_after.append(np.array(after))
    first, once, twice = labels_after
    return [start, neighbour, first, np.full(20, -7)], [twice, once]


def products(random):
    (start, column), (other_start, other_column) = edges(random, 12, 30), edges(random, 12, 30)
    value, other = floats(random, 30), floats(random, 30)
    dense = np.zeros((2, 12, 12))
    for matrix, (begins, at, of) in enumerate(((start, column, value), (other_start, other_column, other))):
        np.add.at(dense[matrix], (np.repeat(np.arange(12), np.diff(begins)), at), of)
    out = np.zeros((12, 12), np.float32)
    return [start, column, value, other_start, other_column, other, out], [dense[0] @ dense[1]]


def bags(random):
    table, (start, index) = floats(random, 15, 6), edges(random, 15, 40)
    expected = [table[index[start[b] : start[b + 1]]].astype(float).sum(0) for b in range(15)]
    return [table, start, index, poison(table)], [np.stack(expected)]


def clusters(random):
    x, centre = floats(random, 50, 4), floats(random, 5, 4)
    nearest = ((x[:, None].astype(float) - centre) ** 2).sum(-1).argmin(1)
    total, count = np.zeros((5, 4)), np.zeros(5)
    np.add.at(total, nearest, x)
    np.add.at(count, nearest, 1)
    return [x, centre, np.zeros((5, 4), np.float32), np.zeros(5, np.float32), np.full(50, -7)], [total, count, nearest]


def definite(random, count: int = 3, size: int = 7) -> np.ndarray:
    half = floats(random, count, size, size)
    return half @ half.swapaxes(1, 2) + size * np.eye(size, dtype=np.float32)


def choleskys(random):
    a = definite(random)
    return [a, np.zeros_like(a)], [np.linalg.cholesky(a.astype(float))]


def factors(random):
    a = definite(random)
    expected = a.astype(float)
    for k in range(7):
        expected[:, k + 1 :, k] /= expected[:, k, k, None]
        expected[:, k + 1 :, k + 1 :] -= expected[:, k + 1 :, k, None] * expected[:, k, None, k + 1 :]
    return [a, poison(a)], [expected]


def solved(random):
    a, right = np.tril(definite(random)), floats(random, 3, 7, 5)
    return [a, right, poison(right)], [np.linalg.solve(a.astype(float), right)]


def transformed(random):
    z = (floats(random, 5, 16) + 1j * floats(random, 5, 16)).astype(np.complex64)
    return [z, poison(z)], [np.fft.fft(z.astype(complex))]


def heated(random):
    u = floats(random, 2, 8, 8, 8)
    t = np.pad(u.astype(float), ((0, 0), (1, 1), (1, 1), (1, 1)))
    for _ in range(3):
        around = sum(np.roll(t, shift, axis) for shift in (1, -1) for axis in (1, 2, 3))
        inner = (slice(None), *[slice(1, -1)] * 3)
        new = np.zeros_like(t)
        new[inner] = (t + 0.1 * (around - 6 * t))[inner]
        t = new
    return [u, poison(u), 3, 0.1], [t[:, 1:-1, 1:-1, 1:-1]]


def gravity(random):
    x, mass = floats(random, 20, 3), np.abs(floats(random, 20))
    apart = x[None].astype(float) - x[:, None]
    square = (apart**2).sum(-1, keepdims=True) + 1e-3
    return [x, mass, poison(x)], [(mass[None, :, None] * apart / square**1.5).sum(1)]


def spins(random):
    """At zero temperature a spin turns if most neighbours differ."""
    spin = random.choice([-1, 1], (6, 8))
    around = sum(np.roll(spin, shift, axis) for shift in (1, -1) for axis in (0, 1))
    here = np.add.outer(np.arange(6), np.arange(8)) % 2 == 1
    expected = np.where(here & (spin * around <= 0), -spin, spin)
    return [spin, np.full_like(spin, -7), 1, 5, 100.0], [expected]


def quantised(random):
    x, packed, scale = floats(random, 6, 15), random.integers(0, 256, (10, 8)).astype(np.uint8), floats(random, 10)
    weights = np.stack([packed & 15, packed >> 4], 2).reshape(10, 16)[:, :15].astype(float) - 8
    return [x, packed, scale, np.full((6, 10), np.nan, np.float32)], [x @ weights.T * scale]


def normalised(random):
    x, grad, gamma = floats(random, 3, 2, 4, 10), floats(random, 3, 2, 4, 10), floats(random, 2, 4)
    wide = [torch.from_numpy(v).double().requires_grad_() for v in (x.reshape(3, 8, 10), gamma.reshape(8))]
    beta = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    out = torch.nn.functional.group_norm(wide[0], 2, wide[1], beta, 1e-5)
    out.backward(torch.from_numpy(grad.reshape(3, 8, 10)).double())
    expected = [v.grad.numpy() for v in (*wide, beta)]
    zeros = np.zeros((2, 4), np.float32)
    shapes = (x.shape, gamma.shape, gamma.shape)
    results = [each.reshape(shape) for each, shape in zip(expected, shapes, strict=True)]
    return [grad, x, gamma, poison(x), zeros, zeros.copy(), 1e-5], results


def over_a_batch(random):
    x = floats(random, 53, 9) * 3 + 1
    wide = x.astype(float)
    expected = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    sums = np.full((4, 9), np.nan, np.float32)
    return [x, sums, sums.copy(), poison(x)], [expected]


def escapes(random):
    c = (3.0 * np.arange(12) / 12 - 2)[None] + 1j * (2.0 * np.arange(9) / 9 - 1)[:, None]
    z, steps = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for _ in range(15):
        inside = z.real * z.real + z.imag * z.imag <= 4
        steps += inside
        z = np.where(inside, z * z + c, z)
    return [np.full(c.shape, -7), 15], [steps]


ENTRIES = [
    Entry(sequences.selective_scan, selective), Entry(sequences.selective_loop, selective),
    Entry(sequences.smith_waterman, alignments), Entry(sequences.top_p, nucleus), Entry(sequences.medians, middle),
    Entry(sequences.segmented_sums, segments), Entry(sequences.log_sum_exp, logarithms),
    Entry(sequences.welford, moments, 1e-3),
    Entry(counts.bincount, counted), Entry(counts.largest_of_all, largest), Entry(counts.bloom_insert, inserted),
    Entry(counts.bloom_query, queried), Entry(counts.propagate_labels, labels), Entry(counts.sparse_product, products),
    Entry(counts.two_hops, hops), Entry(counts.embedding_bags, bags), Entry(counts.kmeans_step, clusters),
    Entry(numerics.cholesky, choleskys), Entry(numerics.lu, factors), Entry(numerics.triangular_solve, solved),
    Entry(numerics.fft, transformed), Entry(numerics.heat, heated), Entry(numerics.n_body, gravity),
    Entry(numerics.ising, spins), Entry(numerics.int4_matmul, quantised),
    Entry(numerics.group_norm_backward, normalised, 1e-3), Entry(numerics.mandelbrot, escapes),
    Entry(numerics.batch_norm, over_a_batch, 1e-3),
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kernel.name)
def test_a_kernel_of_the_gallery(entry):
    seed = fresh_seed()
    given, expected = entry.make(np.random.default_rng(seed))
    kernel = entry.kernel
    names = [p.name for p in kernel.parameters if p.kind == "tensor"]
    with on_a_gpu([NVIDIA, AMD][seed % 2], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(kernel, arrays, {})):
            arguments = [each.copy() if isinstance(each, np.ndarray) else each for each in given]
            run(*arguments)
            tensors = [each for each in arguments if isinstance(each, np.ndarray)]
            results = tensors[len(names) - len(expected) :]
            for found, wanted in zip(results, expected, strict=True):
                size = float(np.abs(wanted).max())
                np.testing.assert_allclose(found, wanted, rtol=entry.tolerance, atol=entry.tolerance * size)
