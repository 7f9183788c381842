"""Conjugate gradients with the inverse diagonal as preconditioner (Jacobi)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .kernels import advance, inner_product, norms, turn
from .mesh import Floats
from .operators import Operator


@dataclass(frozen=True)
class Solution:
    """`u`: components × unknowns; `residual`: the last one's norm relative to the first's; `converged`: whether that is
    within the tolerance."""

    u: Floats
    iterations: int
    residual: float
    converged: bool


def solve(operator: Operator, right: Floats, tolerance: float = 1e-10, most: int = 1000) -> Solution:
    """Solve A u = right from u = 0, up to a residual of `tolerance` times the right side's, in at most `most` steps."""
    size = math.prod(operator.shape)
    u, residual, direction = np.zeros(size, operator.dtype), right.ravel().copy(), np.zeros(size, operator.dtype)
    inverse = (1.0 / operator.diagonal).ravel()
    image = np.empty(operator.shape, operator.dtype)
    sums, product = np.zeros(2, operator.dtype), np.zeros(1, operator.dtype)
    norms(residual, inverse, sums)
    first, rho, part = math.sqrt(sums[1]), float(sums[0]), 0.0
    steps = 0
    while steps < most and math.sqrt(sums[1]) > tolerance * first:
        turn(direction, residual, inverse, part)
        operator.apply(direction.reshape(operator.shape), image)
        inner_product(direction, image.ravel(), product)
        advance(u, residual, direction, image.ravel(), rho / float(product[0]))
        norms(residual, inverse, sums)
        rho, part = float(sums[0]), float(sums[0]) / rho
        steps += 1
    last = math.sqrt(sums[1]) / first if first else 0.0
    return Solution(u.reshape(operator.shape), steps, last, last <= tolerance)
