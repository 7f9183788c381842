"""Complex tensors, `Complex64`: arithmetic, products and memory against complex128, however run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Complex64, Float, Int

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, SMALL, on_a_gpu
from tests.library.reference import fresh_seed

SHAPES = [(3, 8), (5, 7), (0, 3), (2, 0), (1, 1)]


def numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(np.complex64)


def agree(kernel: Any, given: list[Any], expected: list[Any], seed: int, tolerance: float = 1e-5) -> None:
    """Whether the interpreter, the CPU and a GPU's code give what is expected of the last arguments."""
    with on_a_gpu([NVIDIA, AMD, SMALL][seed % 3], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(kernel, arrays, {})):
            arguments = [each.copy(order="K") if isinstance(each, np.ndarray) else each for each in given]
            run(*arguments)
            for found, exact in zip(arguments[-len(expected) :], expected, strict=True):
                np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@vk.kernel
def arithmetic(
    x: Complex64[vk.Tensor, "M N"],
    y: Complex64[vk.Tensor, "M N"],
    r: Float[vk.Tensor, "M N"],
    out: Complex64[vk.Tensor, "5 M N"],
    size: Float[vk.Tensor, "M N"],
    same: Int[vk.Tensor, "M N"],
):
    i, j = vk.tile("M"), vk.tile("N")
    a, b = x[i, j], y[i, j]
    out[0, i, j] = a * b + 2 - 1j * a
    out[1, i, j] = a / b
    out[2, i, j] = vk.conj(a) * r[i, j] - b**3 + a.real
    out[3, i, j] = vk.where(a == b, a, r[i, j] / b) if a.dtype == vk.complex64 else 0.0
    out[4, i, j] = vk.complex(r[i, j], -vk.imag(a)) / 2 + 1j / (b + 3) + j
    size[i, j] = vk.abs(a)
    same[i, j] = vk.where(a != b, 0, 1)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_arithmetic(m, n):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, y, r = numbers(random, m, n), numbers(random, m, n) * 2, random.normal(size=(m, n)).astype(np.float32)
    y[:1] = x[:1]
    a, b = x.astype(complex), y.astype(complex)
    expected = [
        a * b + 2 - 1j * a, a / b, a.conj() * r - b**3 + a.real, np.where(a == b, a, r / b),
        (r - 1j * a.imag) / 2 + 1j / (b + 3) + np.arange(n),
    ]  # fmt: skip
    poison = np.full((5, m, n), np.nan, np.complex64)
    given = [x, y, r, poison, np.full((m, n), np.nan, np.float32), np.full((m, n), -7)]
    agree(arithmetic, given, [np.array(expected), np.abs(a), a == b], seed, 2e-4)


@vk.kernel
def extremes(x: Complex64[vk.Tensor, "N"], out: Complex64[vk.Tensor, "N"], size: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 1 / x[i]
    size[i] = vk.abs(x[i])


def test_no_part_overflows_where_the_result_does_not():
    x = np.array([3e30 + 4e30j, 3e-30 - 4e-30j, 2e30, -5e-30j, 1e30 + 1e-30j], np.complex64)
    out = np.empty(5, np.complex64)
    extremes(x, out, size := np.empty(5, np.float32))
    np.testing.assert_allclose(out, 1 / x.astype(complex), rtol=1e-6)
    np.testing.assert_allclose(size, np.abs(x.astype(complex)), rtol=1e-6)
    extremes(np.zeros(1, np.complex64), out[:1], size[:1])
    assert size[0] == 0
    assert np.isinf(out[0].real)


@vk.kernel
def products(
    x: Complex64[vk.Tensor, "M K"],
    y: Complex64[vk.Tensor, "K N"],
    r: Float[vk.Tensor, "K N"],
    out: Complex64[vk.Tensor, "2 M N"],
    sums: Complex64[vk.Tensor, "3 M"],
    running: Complex64[vk.Tensor, "M K"],
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[0, i, j] = vk.dot(x[i, k], y[k, j])
    out[1, i, j] = vk.dot(x[i, k], r[k, j], vk.full((i, j), 1 - 2j))
    sums[0, i] = vk.sum(x[i, k], axis=k)
    sums[1, i] = vk.mean(x[i, k], axis=k)
    total = vk.zeros((i,), vk.complex64)
    for step in vk.range("K"):
        if step != 1:
            total = total * 0.5j + x[i, step]
    sums[2, i] = total
    running[i, k] = vk.cumulative_sum(vk.conj(x[i, k]), axis=k)


@pytest.mark.parametrize(("m", "k", "n"), [(7, 9, 5), (3, 33, 1), (2, 1, 4)])
def test_sums_and_products(m, k, n):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, y, r = numbers(random, m, k), numbers(random, k, n), random.normal(size=(k, n)).astype(np.float32)
    a, total = x.astype(complex), np.zeros(m, complex)
    for step in range(k):
        total = total if step == 1 else total * 0.5j + a[:, step]
    results = [np.full(shape, np.nan, np.complex64) for shape in ((2, m, n), (3, m), (m, k))]
    expected = [np.stack([a @ y, a @ r + 1 - 2j]), np.stack([a.sum(1), a.mean(1), total]), a.conj().cumsum(1)]
    agree(products, [x, y, r, *results], expected, seed, 1e-4)


@vk.kernel
def moved(
    x: Complex64[vk.Tensor, "M N"],
    place: Int[vk.Tensor, "N"],
    out: Complex64[vk.Tensor, "M N"],
    counted: Complex64[vk.Tensor, ""],
    turned: Complex64[vk.Tensor, "N M"],
):
    i, j = vk.tile("M"), vk.whole("N")
    kept = vk.scratch((i, j), x.dtype)
    kept[i, j] = vk.load(x[i, j], where=x[i, j].real > 0)
    vk.phase()
    vk.store(out[i, j], kept[i, place[j]], where=place[j] != 1)
    vk.atomic_add(counted[()], x[i, j])
    turned[j, i] = vk.transpose(x[i, j], (j, i)) + (1j if x.shape[1] is None else 2)


@pytest.mark.parametrize("layout", ["rows", "columns", "steps"])
def test_memory(layout):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, place = numbers(random, 4, 11), random.permutation(11)
    x = {"rows": x, "columns": np.asfortranarray(x), "steps": np.repeat(x, 2, 1)[:, ::-2][:, ::-1]}[layout]
    out = np.full((4, 11), 7j, np.complex64)
    expected = np.where(x.real > 0, x, 0)[:, place]
    expected = np.where(place == 1, out, expected)
    given = [x, place, out, np.array(1j, np.complex64), np.full((11, 4), np.nan, np.complex64)]
    with on_a_gpu(NVIDIA, seed) as gpu:
        for run in (moved.interpret, moved._launcher, lambda *arrays: gpu.run(moved, arrays, {})):
            arguments = [x, place, *(each.copy() for each in given[2:])]
            run(*arguments)
            np.testing.assert_array_equal(arguments[2], expected)
            np.testing.assert_allclose(arguments[3], x.astype(complex).sum() + 1j, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(arguments[4], x.T + 2)


@vk.kernel
def squared(z: Complex[vk.Tensor, "N"], out: Complex[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = z[i] * z[i]


def test_calls_with_torch_tensors():
    z = torch.randn(6, dtype=torch.complex64)
    out = torch.empty_like(z)
    squared(z, out)
    torch.testing.assert_close(out, z * z)
    for _ in range(4):  # also by calls that are told by torch's own guards
        squared(z, out)
    with pytest.raises(vk.ArgumentError, match=r"conjugated view; \.resolve_conj\(\)"):
        squared(z.conj(), out)
    with pytest.raises(vk.ArgumentError, match="complex64"):
        squared(z.real, out)
    longer = torch.cat([z, z]).to(torch.complex128)
    squared(longer[6:], found := torch.empty(6, dtype=torch.complex128))
    torch.testing.assert_close(found, longer[6:] ** 2)
    squared(torch.view_as_real(z), out)
    squared(z, z)
    torch.testing.assert_close(out, z)


def test_in_torch_compile_and_with_gradients():
    operation = vk.torch_op(
        squared, "vkcomplex::squared", backward=lambda grad, z: grad * 2 * z.conj(), dtypes={"out": "z"}
    )
    z = torch.randn(5, dtype=torch.complex64, requires_grad=True)
    compiled = torch.compile(lambda z: operation(z.conj()) * 2, fullgraph=True, backend="aot_eager")
    compiled(z).abs().sum().backward()
    other = z.detach().clone().requires_grad_()
    (other.conj() ** 2 * 2).abs().sum().backward()
    torch.testing.assert_close(z.grad, other.grad)
