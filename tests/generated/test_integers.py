"""Integers of every dtype, unsigned ones too, compute the same numbers interpreted, on the CPU and as on a GPU."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from jaxtyping import Float, Integer, Num, UInt8, UInt32, UInt64

import vkernels as vk
from vkernels.ir.lowering.ttir import dots

from ..library.on_a_gpu import AMD, NVIDIA, SMALL, Gpu, on_a_gpu
from ..library.reference import fresh_seed
from .integers.generate import Case, make_case
from .integers.numbers import DTYPES, UNSIGNED, at_the_edges, promote, wrap


def kernel_of(case: Case, folder) -> vk.Kernel:
    file = folder / "integers.py"
    file.write_text(case.text)
    names: dict[str, object] = {}
    exec(compile(case.text, file, "exec"), names)
    return names["integers"]


def check(case: Case, run, how: str) -> None:
    arguments = {name: array.copy() for name, array in case.arguments.items()}
    run(**arguments)
    for name, expected in case.expected.items():
        wrong = np.argwhere(arguments[name] != expected)
        if len(wrong):
            at = tuple(wrong[0])
            found = f"{name}{list(map(int, at))} is {arguments[name][at]}, expected {expected[at]}"
            pytest.fail(f"{how}: {found}\n{case.text}")


def ways(kernel: vk.Kernel, gpu: Gpu):
    """To run a kernel: interpreted, on the CPU, and as on a GPU."""
    return kernel.interpret, kernel._launcher, lambda *given: gpu.run(kernel, given, {})


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", range(12))
def test_random_kernels_of_integers(number, tmp_path):
    seed = fresh_seed()
    case = make_case(seed)
    kernel = kernel_of(case, tmp_path)
    check(case, kernel.interpret, "interpreted")
    check(case, kernel, "on the CPU")
    with on_a_gpu([NVIDIA, AMD, SMALL][seed % 3], seed):
        check(case, kernel, "as on a GPU")


@vk.kernel
def products(a: Integer[vk.Tensor, "M K"], b: Integer[vk.Tensor, "K N"], out: Integer[vk.Tensor, "M N"]):
    m, n, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[m, n] = vk.dot(a[m, k], b[k, n], axis=k)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("left", "right"), [*product(["int8", "uint8"], repeat=2)])
@pytest.mark.parametrize("shape", [(33, 70, 40), (3, 5, 7)])
def test_products_of_bytes(left, right, shape):
    """In int32."""
    seed = fresh_seed()
    random, (m, k, n) = np.random.default_rng(seed), shape
    a, b = at_the_edges(left, (m, k), random), at_the_edges(right, (k, n), random)
    expected, arrays = (a @ b).astype(np.int32), (a.astype(left), b.astype(right))
    with on_a_gpu(NVIDIA, seed) as gpu:
        for run in ways(products, gpu):
            out = np.full((m, n), -7, np.int32)
            run(*arrays, out)
            np.testing.assert_array_equal(out, expected)


@vk.kernel(plan=vk.Pin(tiles={"b": 2, "m": 16, "n": 32}, chunks={"k": 32}))
def batched(x: Integer[vk.Tensor, "B M K"], y: Integer[vk.Tensor, "B K N"], out: Integer[vk.Tensor, "B N M"]):
    b, m, n, k = vk.tile("B"), vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[b, n, m] = vk.dot(x[b, m, k], y[b, k, n], axis=k)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("left", "right"), [*product(["int8", "uint8"], repeat=2)])
def test_the_dot_of_a_gpu_multiplies_bytes(left, right, monkeypatch):
    """Triton's own dot, of signed bytes, with a tail and a batch; the interpreter takes it at its word."""
    used = []
    made = dots.tt.DotOp.__init__
    monkeypatch.setattr(dots.tt.DotOp, "__init__", lambda op, *given: used.append(op) or made(op, *given))
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, y = at_the_edges(left, (3, 33, 70), random), at_the_edges(right, (3, 70, 40), random)
    out = np.full((3, 40, 33), -7, np.int32)
    with on_a_gpu(NVIDIA, seed) as gpu:
        gpu.run(batched, (x.astype(left), y.astype(right), out), {})
    assert used
    np.testing.assert_array_equal(out, np.matmul(x, y).transpose(0, 2, 1).astype(np.int32))


@pytest.mark.parametrize(("left", "right"), [*product(DTYPES, repeat=2)])
def test_the_dtype_that_products_are_added_in(left, right):
    """The dtype in which both meet, but 32 bits at least: two of 16 bits fit."""
    if promote(left, right) is None:
        with pytest.raises(vk.TypeMismatchError, match="do not promote"):
            products.build(products.signature(a=left, b=right, out="int64"))
        return
    random = np.random.default_rng(fresh_seed())
    a, b = at_the_edges(left, (3, 9), random), at_the_edges(right, (9, 4), random)
    common = promote(left, right)
    added = common if common.endswith(("32", "64")) else "uint32" if common == "uint16" else "int32"
    out = np.zeros((3, 4), "uint64")
    products.interpret(a.astype(left), b.astype(right), out)
    np.testing.assert_array_equal(out, wrap(wrap(a @ b, added), "uint64").astype("uint64"))


@vk.kernel
def read_twice(x: UInt64[vk.Tensor, "1"], out: Float[vk.Tensor, "2"]):
    number = x[0]
    out[0] = number.to(vk.float64)
    out[1] = number.to(vk.int64).to(vk.float64)


def test_the_same_bits_convert_as_what_they_are_read_as():
    """A conversion of a scalar is made once: for each dtype that its bits are read as."""
    for run in (read_twice, read_twice.interpret):
        out = np.zeros(2)
        run(np.array([2**64 - 1], np.uint64), out)
        assert out.tolist() == [2.0**64, -1.0]


@vk.kernel
def shown(x: Integer[vk.Tensor, "N"], y: Integer[vk.Tensor, "N"]):
    i = vk.tile("N")
    vk.print("numbers", x[i], y[i], x[0])


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_prints_show_unsigned_numbers(dtype):
    most, lines = np.iinfo(dtype).max, []
    shown.interpret(np.array([most, 1], dtype), np.array([-1, 1], np.int8), on_print=lines.append)
    assert " ".join(lines[0].replace("[", " ").replace("]", " ").split()) == f"numbers {most} 1 -1 1 {most}"


@vk.kernel
def small(x: UInt8[vk.Tensor, "N"]):
    i = vk.tile("N")
    value = x[i]
    vk.device_assert(value < 200, "too bright")


def test_assertions_show_unsigned_numbers():
    with pytest.raises(vk.CheckError, match=r"too bright[\s\S]*`value` is 255"):
        small.interpret(np.array([3, 255], np.uint8))


@vk.kernel
def taken(x: Num[vk.Tensor, "E"], start: Integer[vk.Tensor, "M"], out: Num[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = x[start[i] + j]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_index_tiles_are_their_numbers(dtype):
    """Large ones of few bits too, and with an axis beside."""
    x, start = np.arange(300, dtype=np.float32), np.array([200, 0, 250, 255, 7]).astype(dtype)
    expected = x[start.astype(int)[:, None] + np.arange(5)]
    with on_a_gpu(SMALL, 0) as gpu:
        for run in ways(taken, gpu):
            out = np.full((5, 5), np.nan, np.float32)
            run(x, start, out)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("start", [2**63 - 2, 2**63, 2**64 - 1, 2**64 - 4])
def test_no_index_of_uint64_wraps_back_into_a_tensor(start):
    """Elements outside of a guarded dimension are 0, and nothing below is read as if the sum had wrapped."""
    x, out = np.arange(1.0, 9.0, dtype=np.float32), np.full((1, 5), np.nan, np.float32)
    for run in (taken, taken.interpret):
        run(x, np.array([start], np.uint64), out)
        assert out.tolist() == [[0.0] * 5]


@vk.kernel
def brightened(
    x: UInt8[vk.Tensor, "H W"], factor: vk.Scalar, count: UInt32[vk.Tensor, "256"], out: UInt8[vk.Tensor, "H W"]
):
    i, j = vk.tile("H"), vk.tile("W")
    vk.atomic_add(count[x[i, j]], 1)
    out[i, j] = (x[i, j].to(vk.float32) * factor).to(vk.uint8)


@pytest.mark.parametrize("module", [np, torch])
def test_an_image_of_any_strides(module):
    image = np.random.default_rng(fresh_seed()).integers(0, 256, (40, 66), np.uint8)
    given, out, count = (
        module.asarray(each) for each in (image, np.zeros((66, 40), np.uint8), np.zeros(256, np.uint32))
    )
    brightened(given[::2, ::-1] if module is np else given[::2], 1.5, count, (out.T)[::2])
    half = image[::2, ::-1] if module is np else image[::2]
    assert np.asarray(out).T[::2].tolist() == np.minimum(np.floor(half * 1.5), 255).tolist()
    assert np.asarray(count).tolist() == np.bincount(half.reshape(-1), minlength=256).tolist()
