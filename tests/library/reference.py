"""What the library's tests share: random inputs, poisoned outputs, and tolerances that follow from the dtype."""

from __future__ import annotations

import math
import random

import torch

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]

EPSILON = {dtype: torch.finfo(dtype).eps for dtype in DTYPES}


def fresh_seed() -> int:
    """A new seed at every run, printed so that a failure can be repeated."""
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed = {seed}")
    return seed


def every_dtype(shapes: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Every shape in float32, and every other dtype in the third and every third shape after it."""
    others = [dtype for dtype in DTYPES if dtype != torch.float32]
    return [(shape, torch.float32) for shape in shapes] + [(shape, dtype) for dtype in others for shape in shapes[2::3]]


def normal(shape, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def poisoned(shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.full(tuple(shape), float("nan"), dtype=dtype)


def strided(shape: tuple[int, int], dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    """The same shape laid out in several ways: transposed, every other row and column, padded rows."""
    rows, columns = shape
    return [
        normal((columns, rows), dtype, seed).t(),
        normal((2 * rows, 2 * columns), dtype, seed)[::2, ::2],
        normal((rows, columns + 5), dtype, seed)[:, 2:-3],
        normal((rows, 1), dtype, seed).expand(rows, columns).clone(),
    ]


def assert_close(
    actual: torch.Tensor, expected: torch.Tensor, terms: int = 1, scale: float = 1.0, added: float = 0.0
) -> None:
    """Equal up to the rounding of the result's dtype and of `terms` additions in the dtype of computation.

    16-bit results are computed in f32 and rounded once. A sum of n terms in any order of blocks errs by at most
    about log2(n) + a few units; `scale` bounds the magnitude that rounding happens at, relative to the results';
    `added` is the largest of what is added up, where results are but what is left of it.
    """
    computed = EPSILON[torch.float32] if EPSILON[actual.dtype] > EPSILON[torch.float32] else EPSILON[actual.dtype]
    relative = EPSILON[actual.dtype] + (16 + 4 * math.log2(max(2, terms))) * computed * scale
    magnitude = float(expected.nan_to_num(0, 0, 0).abs().max()) if expected.numel() else 0.0
    magnitude = max(magnitude, added)
    tiny = torch.finfo(actual.dtype).tiny
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=relative, atol=relative * magnitude + tiny, equal_nan=True
    )
