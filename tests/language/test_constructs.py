"""Every construct builds IR that verifies, is as in golden/, prints and parses, and does what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from xdsl.parser import Parser

import vkernels as vk
from vkernels.ir.dialect import context
from vkernels.library import dense, rows, spdnn

from . import constructs
from .signatures import plain_signature
from .test_errors import FOLDER

GOLDEN = FOLDER.parent / "golden"

KERNELS = {kernel.name: kernel for kernel in vars(constructs).values() if isinstance(kernel, vk.Kernel)}

CASES = {
    **{name: (kernel, {}) for name, kernel in KERNELS.items()},
    "control": (constructs.control, {"n": int}),
    "loops": (constructs.loops, {"last": int}),
    "formats": (
        constructs.formats,
        {"x": "bfloat16", "out": "float16", "scalar": "float8_e5m2", "seen": "float8_e5m2", "number": int},
    ),
    "products": (constructs.products, {"a": vk.float16, "b": vk.bfloat16}),
    "softmax": (rows.softmax_rows, {"out": "float16"}),
    "layer_norm": (rows.layer_norm_rows, {"x": "bfloat16"}),
    "matmul": (dense.matmul_bias, {"activation": "relu"}),
    "spdnn": (spdnn.spdnn, {"column": "int16"}),
}


@pytest.mark.parametrize("name", CASES)
def test_ir(name, golden):
    kernel, given = CASES[name]
    module = kernel.build(plain_signature(kernel, **given))
    module.verify()
    text = str(module) + "\n"
    parsed = Parser(context(), text).parse_module()
    parsed.verify()
    assert str(parsed) + "\n" == text
    golden(GOLDEN / f"{name}.mlir", text)


@pytest.mark.parametrize("name", CASES)
def test_every_operation_has_the_authors_line(name):
    kernel, given = CASES[name]
    lines = kernel.source.definition
    for op in kernel.build(plain_signature(kernel, **given)).walk():
        if op.name not in ("builtin.module",):
            assert op.location.filename.data.endswith(".py"), op
    (kernel_op,) = kernel.build(plain_signature(kernel, **given)).ops
    assert kernel_op.location.line.data == lines.lineno


def poisoned(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.full(shape, math.nan if dtype.is_floating_point else 77, dtype=dtype)


def test_stencil():
    x = torch.arange(1.0, 8.0)
    padded = torch.nn.functional.pad(x, (1, 1))
    expected = 0.25 * padded[:-2] + 0.5 * x + 0.25 * padded[2:]
    out, far = poisoned(7), poisoned(4)
    constructs.stencil.interpret(x, out, far)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(far, torch.tensor([1.0, 2.0, 3.0, -4.0]))
    out = poisoned(7)
    constructs.unrolled_stencil.interpret(x, out)
    torch.testing.assert_close(out, expected)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_ragged():
    dense_ = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 4.0]])
    matrix = dense_.to_sparse_csr()
    x, out = torch.tensor([1.0, 10.0, 100.0]), poisoned(3)
    start, column = matrix.crow_indices(), matrix.col_indices().to(torch.int16)
    constructs.csr.interpret(start, column, matrix.values(), x, out)
    torch.testing.assert_close(out, dense_ @ x)
    rows_ = poisoned(2, 4)
    constructs.ragged_rows.interpret(torch.tensor([3, 0]), torch.arange(9.0), rows_)
    torch.testing.assert_close(rows_, torch.tensor([[7.0, 9, 11, 13], [1, 3, 5, 7]]))


@pytest.mark.parametrize("n", [1, 8, 3, 27])
def test_control(n):
    count, m = 0, n
    while m > 1 and count < 100:
        m, count = (m // 2 if m % 2 == 0 else 3 * m + 1), count + 1
    x = torch.tensor([1.0, 2.0])
    out, steps = poisoned(2), poisoned(2, dtype=torch.int64)
    constructs.control.interpret(x, n, out, steps)
    torch.testing.assert_close(out, x * 2 + 1 if count > 5 else x + (count if count > 2 else 2))
    assert steps.tolist() == [count, 7 if count > 5 or m > 3 else 1]


def test_loops():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    out, total = poisoned(3), poisoned(1)
    constructs.loops.interpret(x, out, total, 4)
    torch.testing.assert_close(out, 4 * x.sum(1) - x[:, 2:4].sum(1))
    assert total.item() == 8  # the Fibonacci number after five steps


@pytest.mark.parametrize(("mode", "factor", "shift"), [("twice", 2, 0), ("shifted", 2, 1), ("other", 3, 0)])
def test_helpers(mode, factor, shift):
    x, out = torch.arange(6.0).reshape(2, 3), poisoned(2)
    constructs.helpers.interpret(x, out, mode)
    torch.testing.assert_close(out, x.sum(1) * factor + shift)


def test_scratchpad():
    x, out = torch.arange(8.0).reshape(2, 4), poisoned(2, 4)
    constructs.scratchpad.interpret(x, out)
    torch.testing.assert_close(out, x + torch.nn.functional.pad(x[:, 1:], (0, 1)))


def test_reshaped():
    x, out, y = torch.arange(12.0).reshape(2, 6), poisoned(2, 2, 3), poisoned(2, 3, 2)
    constructs.reshaped.interpret(x, out, y)
    torch.testing.assert_close(out, x.reshape(2, 2, 3))
    torch.testing.assert_close(y, x.reshape(2, 3, 2))


def test_products():
    generator = torch.Generator().manual_seed(2)
    a, b = (3 * torch.randn(s, generator=generator) for s in ((2, 3, 4), (2, 4, 5)))
    out, inner, whole = poisoned(2, 3, 5), poisoned(2), poisoned(3, 5, dtype=torch.int64)
    constructs.products.interpret(a, b, out, inner, whole)
    torch.testing.assert_close(out, 3 * (a @ b), rtol=3e-3, atol=3e-2)  # tf32 has 10 bits
    torch.testing.assert_close(inner, (a[:, 0] ** 2).sum(-1) + 0.5)
    assert torch.equal(whole, a[0].long() @ b[0].long())


def test_histogram():
    group, x = torch.tensor([1, 0, 1, 1]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    total = torch.zeros(2)
    high, low = torch.zeros(2, dtype=torch.int32), torch.full((2,), 9, dtype=torch.int32)
    constructs.histogram.interpret(group, x, total, high, low)
    assert (total.tolist(), high.tolist(), low.tolist()) == ([2, 8], [1, 3], [1, 0])


def test_masked():
    x, keep = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True])
    out, any_ = torch.full((3,), 9.0), torch.zeros(1, dtype=torch.bool)
    constructs.masked.interpret(x, keep, out, any_)
    assert out.tolist() == [9, 1, 4]
    assert any_.item() is True


def unsigned_arguments() -> dict[str, np.ndarray]:
    x = np.array([[0, 3, 255, 130], [129, 200, 128, 7], [1, 254, 77, 9]], np.uint8)
    index, far = np.array([3, 0, 3], np.uint16), np.array([2, 0, 1], np.uint64)
    scale = np.array([1.0, -1.0, 3.5], np.float32)
    outputs = {"out": np.full_like(x, 7), "best": np.full(3, 7, np.uint8), "row": np.full_like(x, 7)}
    total = np.array([5, 6, 7, 2**31], np.uint32)
    return {"x": x, "index": index, "far": far, "scale": scale, "total": total, **outputs}


@pytest.mark.parametrize("run", ["__call__", "interpret"])
def test_unsigned(run):
    given = unsigned_arguments()
    getattr(constructs.unsigned, run)(**given)
    x = given["x"].astype(int)
    part = (x // 3 + x % 200 >> 1) ^ (255 - x)
    bright = np.where(x > 128, 255 - x, part)
    out = np.clip(np.trunc(bright * given["scale"][:, None].astype(float)), 0, 255)
    assert given["out"].tolist() == out.tolist()
    best = np.minimum(x, bright).max(1)
    assert given["best"].tolist() == best.tolist()
    assert given["total"].tolist() == [max(5, 2 * int(best[1])), 6, 7, 2**31]
    assert given["row"].tolist() == ((x[given["far"].astype(int)] + np.minimum.accumulate(x, 1)) % 256).tolist()


@pytest.mark.parametrize("wrong", [3, 2**63, 2**64 - 1])
def test_indices_of_uint64_that_are_outside_are_found(wrong):
    given = unsigned_arguments()
    given["far"][1] = wrong
    with pytest.raises(vk.CheckError, match=r"index \d+ is outside dimension 0 of `x`, which has 3 elements"):
        constructs.unsigned.interpret(**given)


def test_triangle():
    x = torch.arange(9.0).reshape(3, 3)
    out, means = poisoned(3, 3), poisoned(3)
    constructs.triangle.interpret(x, out, means)
    torch.testing.assert_close(out, torch.triu(x, 1) + torch.diag(x.diagonal()))
    torch.testing.assert_close(means, torch.tensor([4.0, 6 + 7 + 8, 3 + 3 + 3 + 2 + 0 + 2]))


@pytest.mark.parametrize("run", [constructs.positions, constructs.positions.interpret], ids=["compiled", "interpreted"])
def test_positions_are_tiles_of_integers(run):
    """`to` of an axis keeps the low bits of its positions, as that of a tile does."""
    halves, place = np.full((3, 300), np.nan, np.float32), np.full((3, 300), -1, np.int64)
    run(halves, place)
    np.testing.assert_array_equal(halves, (np.arange(3)[:, None] + 2 * np.arange(300)) / 2)
    np.testing.assert_array_equal(place, np.broadcast_to(np.arange(300).astype(np.int8), (3, 300)))


def test_formats():
    x = torch.tensor([1.0, 3.14159, -2.71828]).to(torch.bfloat16)
    out, scalar, seen = poisoned(3, dtype=torch.float64), torch.tensor(0.25), torch.tensor(0.0)
    constructs.formats.interpret(x, out, scalar, seen)
    torch.testing.assert_close(out, x.to(torch.float16).double() * 2 + 0.25)
    assert seen.item() == 3


def test_prints_and_assertions():
    lines = []
    x, count = np.array([1.0, 2.0]), np.array([1])
    constructs.shown.interpret(x, count, on_print=lines.append)
    assert len(lines) == 1
    assert lines[0].startswith("x is of")
    with pytest.raises(vk.CheckError, match="x must be positive"):
        constructs.shown.interpret(-x, count, on_print=lines.append)
