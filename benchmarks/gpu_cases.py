"""What benchmarks/gpu_day.py checks and times at large sizes: library kernels on tensors of the GPU, beside torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from vkernels.library import layer_norm, matmul, softmax
from vkernels.library.spdnn import spdnn

ON = "cuda"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INPUTS = 32
"""Connections of a neuron, as in the sparse DNN challenge."""

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One kernel on one shape. `work`: bytes that must be moved, or operations (`computes`); `terms`: longest sum.

    `ours` writes the tensor that it returns; `theirs` is torch's way, None where a case is only checked.
    """

    kernel: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    ours: Run
    exact: Run
    theirs: Run | None = None
    work: int = 0
    computes: bool = False
    terms: int = 1
    scale: float = 1.0


def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device=ON).to(dtype)


def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.full(shape, float("nan"), device=ON, dtype=dtype)


def softmax_case(rows: int, columns: int, dtype: torch.dtype) -> Case:
    x, out, other = normal(rows, columns, dtype=dtype), *(empty(rows, columns, dtype=dtype) for _ in range(2))
    return Case(
        "softmax", (rows, columns), dtype,
        lambda: softmax(x, out=out),
        lambda: torch.softmax(x.double(), -1),
        lambda: torch.softmax(x, -1, out=other),
        2 * x.nbytes, terms=columns,
    )  # fmt: skip


def layer_norm_case(rows: int, columns: int, dtype: torch.dtype) -> Case:
    x, out = normal(rows, columns, dtype=dtype), empty(rows, columns, dtype=dtype)
    weight, bias = normal(columns, dtype=dtype), normal(columns, dtype=dtype)
    norm = torch.nn.functional.layer_norm
    return Case(
        "layer_norm", (rows, columns), dtype,
        lambda: layer_norm(x, weight, bias, out=out),
        lambda: norm(x.double(), (columns,), weight.double(), bias.double()),
        lambda: norm(x, (columns,), weight, bias),
        2 * x.nbytes + 2 * weight.nbytes, terms=columns, scale=8,
    )  # fmt: skip


def matmul_case(m: int, n: int, k: int, dtype: torch.dtype) -> Case:
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    out, other = (empty(m, n, dtype=dtype) for _ in range(2))
    return Case(
        "matmul", (m, n, k), dtype,
        lambda: matmul(a, b, out=out),
        lambda: a.double() @ b.double(),
        lambda: torch.mm(a, b, out=other),
        2 * m * n * k, True, terms=k, scale=8,
    )  # fmt: skip


def spdnn_case(neurons: int, layers: int, images: int, dtype: torch.dtype) -> Case:
    y = normal(neurons, images, dtype=dtype).abs()
    column = torch.randint(0, neurons, (layers, neurons, INPUTS), device=ON, dtype=torch.int32)
    weight = (torch.rand(layers, neurons, INPUTS, device=ON) * (2 / INPUTS)).to(dtype)
    out, peak = empty(neurons, images, dtype=dtype), empty(images, dtype=torch.float32)
    matrices = [_sparse(c, w.float(), neurons) for c, w in zip(column, weight, strict=True)]

    def ours() -> torch.Tensor:
        spdnn(y, column, weight, -0.05, out, peak)
        return out

    def exact() -> torch.Tensor:
        values = y.double()
        for c, w in zip(column.long(), weight.double(), strict=True):
            total = sum(w[:, k, None] * values[c[:, k]] for k in range(INPUTS))
            values = (total - 0.05).clamp(0, 32)
        return values

    def theirs() -> torch.Tensor:
        values = y.float()
        for matrix in matrices:
            values = torch.sparse.mm(matrix, values).sub_(0.05).clamp_(0, 32)
        return values

    return Case(
        "spdnn", (neurons, layers, images), dtype, ours, exact, theirs,
        2 * layers * neurons * INPUTS * images, True, terms=INPUTS * layers, scale=4 * layers,
    )  # fmt: skip


def _sparse(column: torch.Tensor, weight: torch.Tensor, neurons: int) -> torch.Tensor:
    starts = torch.arange(0, neurons * INPUTS + 1, INPUTS, device=ON)
    return torch.sparse_csr_tensor(starts, column.flatten().long(), weight.flatten(), (neurons, neurons))


CHECKED: Mapping[str, tuple[Callable[..., Case], tuple[tuple[int, ...], ...]]] = {
    "softmax": (softmax_case, ((1, 1), (3, 37), (257, 1001), (4096, 4096), (65, 9001), (33, 100_000), (4, 1 << 21))),
    "layer_norm": (layer_norm_case, ((1, 1), (3, 37), (257, 1001), (4096, 4096), (65, 9001), (4, 1 << 21))),
    "matmul": (matmul_case, ((1, 1, 1), (17, 31, 65), (128, 128, 128), (1000, 1001, 999), (2048, 2048, 4096))),
    "spdnn": (spdnn_case, ((1, 1, 1), (33, 4, 129), (1024, 12, 1000))),
}

TIMED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "softmax": ((1 << 16, 256), (1 << 14, 1024), (1 << 12, 4096), (1 << 12, 1 << 14), (1 << 9, 1 << 17), (8, 1 << 20)),
    "layer_norm": ((1 << 16, 256), (1 << 14, 1024), (1 << 12, 4096), (1 << 12, 1 << 14), (1 << 9, 1 << 17)),
    "matmul": ((512, 512, 512), (1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192), (64, 8192, 8192)),
    "spdnn": ((1024, 12, 4096), (1024, 120, 4096)),
}


@dataclass(frozen=True)
class Check:
    """How far from exact a result is, as a part of what rounding allows; None, and the `problem`, where that is no
    number."""

    kernel: str
    shape: tuple[int, ...]
    dtype: str
    of_allowed: float | None
    problem: str = ""

    @property
    def right(self) -> bool:
        return self.of_allowed is not None and self.of_allowed <= 1


def check(case: Case) -> Check:
    """Run once and compare; whatever goes wrong is the result."""
    name, dtype = case.kernel, str(case.dtype).removeprefix("torch.")
    try:
        error = of_allowed(case)
    except Exception as problem:
        return Check(name, case.shape, dtype, None, f"{type(problem).__name__}: {problem}")
    if not math.isfinite(error):
        return Check(name, case.shape, dtype, None, "elements that are not written, or not finite")
    return Check(name, case.shape, dtype, error)


def of_allowed(case: Case) -> float:
    """The greatest error over what rounding to the dtype and `terms` additions in f32 may give."""
    exact, result = case.exact(), case.ours().double()
    if exact.numel() == 0:
        return 0.0
    relative = torch.finfo(case.dtype).eps
    relative += (16 + 4 * math.log2(max(2, case.terms))) * torch.finfo(torch.float32).eps * case.scale
    allowed = relative * (exact.abs() + exact.abs().max()) + torch.finfo(case.dtype).tiny
    return float(((result - exact).abs() / allowed).nan_to_num(nan=math.inf).max())
