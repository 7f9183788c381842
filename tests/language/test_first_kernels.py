"""The code in docs/first-kernels.md and docs/debugging.md does what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

DOCS = Path(__file__).parents[2] / "docs"
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def block(page: str, marker: str) -> str:
    """The fenced block after a marker."""
    return re.search(rf"<!-- {marker} -->\n```\w*\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)[1]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("docs") / "first_kernels.py"
    path.write_text(block("first-kernels.md", "kernels") + block("first-kernels.md", "call"))
    names: dict[str, object] = {"__name__": "first_kernels"}
    exec(compile(path.read_text(), path, "exec"), names)
    np.testing.assert_allclose(names["out"], names["x"][:, ::-3].sum(1, dtype=np.float64), rtol=1e-4, atol=1e-4)
    return names


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


def normal(*shape, dtype):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def poisoned(*shape, dtype):
    return torch.full(shape, torch.nan, dtype=dtype)


def assert_close(found, expected, scale=1.0):
    tolerance = DTYPES[found.dtype]
    torch.testing.assert_close(found.double() / scale, expected / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [0, 1, 7, 10007])
def test_vectors(kernels, dtype, n):
    a, b, out = normal(n, dtype=dtype), normal(n, dtype=dtype).flip(0), poisoned(n, dtype=dtype)
    kernels["add"](a, b, out)
    assert_close(out, a.double() + b.double())
    kernels["smooth"](a, out)
    padded = torch.nn.functional.pad(a.double(), (1, 1))
    assert_close(out, 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])


@pytest.mark.sample(5)
@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (1, 1), (129, 1001)])
def test_rows(kernels, dtype, m, n):
    x, out, sums = normal(m, n, dtype=dtype), poisoned(m, n, dtype=dtype), poisoned(m, dtype=dtype)
    kernels["row_sums"](x, sums)
    assert_close(sums, x.double().sum(1), scale=max(1.0, n**0.5))
    kernels["running_maximum"](x, out)
    assert_close(out, x.double().cummax(1).values if n else x.double())


@pytest.mark.sample(4)
@pytest.mark.parametrize("n", [0, 1, 5, 127])
def test_causal_softmax(kernels, dtype, n):
    x, out = normal(n, n, dtype=dtype), poisoned(n, n, dtype=dtype)
    kernels["causal_softmax"](x, out)
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    assert_close(out, torch.softmax(x.double().masked_fill(~allowed, -torch.inf), 1))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (37, 50), (500, 800)])
def test_csr_times_vector(kernels, shape):
    matrix = sparse.random(*shape, 0.1, "csr", dtype=np.float32, rng=3)
    x, out = normal(shape[1], dtype=torch.float32).numpy(), np.full(shape[0], np.nan, np.float32)
    kernels["csr_times_vector"](matrix.indptr, matrix.indices, matrix.data, x, out)
    np.testing.assert_allclose(out, matrix.astype(np.float64) @ x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("integer", [np.int8, np.int16, np.int32, np.int64])
def test_histogram(kernels, integer):
    bins, count = np.random.default_rng(0).integers(0, 100, 9999).astype(integer), np.zeros(100, np.int64)
    kernels["histogram"](bins, count)
    assert count.tolist() == np.bincount(bins, minlength=100).tolist()


@pytest.mark.sample(3)
@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (3, 0, 4, 5), (3, 4, 0, 5), (1, 1, 1, 1), (17, 33, 65, 9)])
def test_two_layers(kernels, dtype, sizes):
    m, k, h, n = sizes
    x, first, second = normal(m, k, dtype=dtype), normal(k, h, dtype=dtype), normal(h, n, dtype=dtype)
    out = poisoned(m, n, dtype=dtype)
    kernels["two_layers"](x, first, second, out)
    expected = torch.relu(x.double() @ first.double()) @ second.double()
    assert_close(out, expected, scale=max(1.0, expected.abs().max().item() if expected.numel() else 1.0))


def test_what_checked_kernels_say(tmp_path):
    (tmp_path / "rows.py").write_text(block("debugging.md", "checked"))
    done = subprocess.run([sys.executable, "rows.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    message = done.stderr.partition("CheckError: ")[2].replace(f"{tmp_path}/", "")
    assert done.stdout + message == block("debugging.md", "checked output")


@pytest.mark.slow
def test_the_debugger_stops_at_the_authors_lines(tmp_path):
    text = block("debugging.md", "checked").replace("(checked=True)", "").rsplit("rows_of(", 2)[0]
    text += "rows_of.interpret(np.ones(4), np.array([0, 3]), np.empty(2), trace=True)\n"
    (tmp_path / "rows.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pdb", "rows.py"],
        input="b rows.py:10\nc\np row\np row.max()\nq\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "rows.py(10)rows_of()\n-> vk.print(" in done.stdout
    assert "(Pdb) array([1., 1.])\n(Pdb) np.float64(1.0)\n" in done.stdout
