"""The five kernels of benchmarks/lines_*.py against float64: `python -m tests.docs.beside_triton SEED` runs Triton's.

Triton's interpreter is chosen by the environment before Triton is imported, so that a process of its own runs them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..library.reference import assert_close, normal, poisoned

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

LONG = 5000
"""Columns of rows that Triton's kernels take in more than one block, the last of them not full."""


def cases(dtype: torch.dtype, seed: int) -> Iterator[tuple[str, tuple[Any, ...], torch.Tensor, dict[str, Any]]]:
    """Name, arguments before the result, what is right in float64, and what `assert_close` is told."""
    for n in (0, 1, 1025):
        a, b = normal((n,), dtype, seed), normal((n, 3), dtype, seed + 1)[:, 1]
        yield "add", (a, b), a.double() + b.double(), {}
    for m, n in ((3, 1), (5, 17), (2, LONG)):
        x = normal((n, m), dtype, seed).t()
        yield "softmax", (x,), torch.softmax(x.double(), 1), {"terms": n}
        weight, bias = normal((n,), dtype, seed + 1), normal((n,), dtype, seed + 2)
        right = torch.nn.functional.layer_norm(x.double(), (n,), weight.double(), bias.double(), 1e-5)
        yield "layer_norm", (x, weight, bias, 1e-5), right, {"terms": n, "scale": 4.0}
    for m, n, k in ((1, 1, 1), (130, 131, 33)):
        a, b, bias = normal((m, k), dtype, seed), normal((n, k), dtype, seed + 1).t(), normal((n,), dtype, seed + 2)
        right = torch.relu(a.double() @ b.double() + bias.double())
        yield "matmul", (a, b, bias), right, {"terms": k, "scale": 4.0, "added": 1.0}
    for m, n, d, e in ((1, 1, 1, 1), (70, 70, 20, 9), (65, 130, 16, 16)):
        q, k = normal((2, m, 3, d), dtype, seed).transpose(1, 2), normal((2, 3, n, d), dtype, seed + 1)
        v, scale = normal((2, 3, n, e), dtype, seed + 2), d**-0.5
        score = q.double() @ k.double().transpose(2, 3) * scale
        seen = torch.ones(m, n, dtype=torch.bool).tril()
        right = torch.softmax(score.masked_fill(~seen, -torch.inf), 3) @ v.double()
        rounded = torch.finfo(v.dtype).eps / torch.finfo(torch.float32).eps  # probabilities meet v in its dtype
        yield "attention", (q, k, v, scale), right, {"terms": n, "scale": 4.0 * max(1.0, rounded / 16)}


def compare(kernels: ModuleType, seed: int) -> None:
    """Run all cases by a module's functions. Raises `AssertionError` where a result is wrong."""
    for dtype, every in ((torch.float32, 1), (torch.float16, 3)):
        for name, given, right, told in islice(cases(dtype, seed), every - 1, None, every):
            out = poisoned(right.shape, dtype)
            getattr(kernels, name)(*given, out)
            assert_close(out, right, **told)


if __name__ == "__main__":
    compare(importlib.import_module("lines_triton"), int(sys.argv[1]))
