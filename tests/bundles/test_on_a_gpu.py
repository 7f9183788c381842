"""On a GPU: calls of a bundle equal those in higher precision, run no compiler, and are captured and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import vkernels as vk
from tests.bundles import kernels
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.bundles.build import bundled
from vkernels.bundles.build_request import BuildOptions, BuildRequest
from vkernels.bundles.bundle import write_bundle
from vkernels.compiler.session import CompilerSession
from vkernels.library.dense import matmul_bias
from vkernels.runtime.present_target import present_target

ON = "cuda"
ROWS = (64, 1024), (33, 257)
PRODUCTS = (256, 512, 128), (1000, 999, 513)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for this GPU: rows of one size and another, products of f16, and plain code for other sizes."""
    sizes = tuple({"M": m, "N": n, "K": k} for m, n, k in PRODUCTS)
    half = dict.fromkeys(("a", "b", "bias", "out"), "float16")
    requests = [
        BuildRequest(
            kernels.softmax, kernels.softmax.signature(x="float32", out="float32"),
            tuple({"M": m, "N": n} for m, n in ROWS), reference="kernels:softmax",
        ),
        BuildRequest(matmul_bias, matmul_bias.signature(**half, activation="none"), sizes, reference="library:matmul"),
    ]  # fmt: skip
    session = CompilerSession(patience=600.0)
    made = tmp_path_factory.mktemp("bundle") / "gpu.vkb"
    options = BuildOptions((present_target("cuda:0").slice,), plain=True)
    write_bundle(made, *bundled(requests, options, session))
    session.close()
    return made


@pytest.mark.parametrize("shape", [*ROWS, (5, 39), (7, 3000), (2, 100_000)])
@pytest.mark.parametrize("offset", [0, 1])
def test_rows_are_right(path: Path, shape: tuple[int, int], offset: int) -> None:
    net = vk.load(path, trust="unsigned", fallback="plain")
    x = normal((shape[0] * shape[1] + offset,), torch.float32, fresh_seed()).to(ON)[offset:].view(shape)
    out = poisoned(shape, torch.float32).to(ON)
    net.softmax(x, out)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])


@pytest.mark.parametrize("size", [*PRODUCTS, (77, 130, 50), (1, 1, 1)])
def test_products_are_right(path: Path, size: tuple[int, int, int]) -> None:
    net = vk.load(path, trust="unsigned", fallback="plain")
    seed, (m, n, k) = fresh_seed(), size
    a, b = normal((m, k), torch.float16, seed).to(ON), normal((k, n), torch.float16, seed + 1).to(ON)
    bias, out = normal((n,), torch.float16, seed + 2).to(ON), poisoned((m, n), torch.float16).to(ON)
    net.matmul_bias(a, b, bias, out, activation="none")
    assert_close(out, a.double() @ b.double() + bias.double(), k, scale=8)


def test_calls_are_captured_and_replayed(path: Path) -> None:
    net = vk.load(path, trust="unsigned")
    x, out = normal(ROWS[0], torch.float32, fresh_seed()).to(ON), poisoned(ROWS[0], torch.float32).to(ON)
    net.softmax(x, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net.softmax(x, out)
    x.copy_(normal(ROWS[0], torch.float32, fresh_seed()))
    out.fill_(float("nan"))
    graph.replay()
    assert_close(out, torch.softmax(x.double(), -1), ROWS[0][1])
