"""What each function's results may err by: the one table, which docs/numerics.md shows.

u is the unit roundoff of the dtype that is computed in: 2⁻²⁴ for float32 and all smaller floats, 2⁻⁵³ for float64.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MATHS = Path(__file__).parents[2] / "docs" / "maths.md"


def sum_units(terms: int) -> float:
    """A sum of so many terms errs by at most this many u, relative to the sum of their magnitudes."""
    return 16.0 + 4.0 * math.log2(max(1, terms))


@cache
def function_ulps() -> dict[str, dict[str, float]]:
    """The largest errors of elementary functions in units in the last place, as docs/maths.md states them."""
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", MATHS.read_text(), re.MULTILINE)
    return {name: {"float32": float(single), "float64": float(double)} for name, single, double in rows}


@dataclass(frozen=True)
class Bound:
    """`formula`: what is computed, whose steps the error is followed through. `error`: what that comes to."""

    formula: str
    error: str


_EXACT = "none: exact"
_ONE = "a few u·\\|result\\|"
_PRODUCT = "S(n)·u·Σ\\|products\\|, then the activation's slope and own error"
_EACH = "S(n)·u·Σ\\|products\\| for each gradient"

BOUNDS: dict[str, Bound] = {
    "activate": Bound("the activation of x, step by step", "that of each step, through the steps after it"),
    "activate_backward": Bound("grad · slope(x)", "that of the slope's steps, times \\|grad\\|, plus u"),
    "adamw": Bound("β₁m + (1 − β₁)g; β₂v + (1 − β₂)g²; keep·p − rate·m / (√v·c + ε)", "3u of each term, through the quotient"),
    "apply_mass": Bound("Bᵀ W B x, six products of small matrices one after another", "Σ of S(n)·u over the six, times \\|B\\|ᵀ\\|W\\|\\|B\\|\\|x\\|"),
    "apply_stiffness": Bound("Gᵀ D G x, small matrices one after another", "as of apply_mass, with \\|G\\|ᵀ\\|D\\|\\|G\\|\\|x\\|"),
    "apply_stiffness_at_nodes": Bound("Gᵀ D G x with the nodes as points", "as of apply_stiffness"),
    "argmax": Bound("the first place of the largest element, or of the first NaN", _EXACT),
    "argmin": Bound("the first place of the smallest element, or of the first NaN", _EXACT),
    "attention": Bound("p = exp(s·scale − max), rounded to v's dtype; Σ p·v / Σ p", "(S(D)·u·Σ\\|q·k\\|·scale + u·\\|s − max\\| + 2 roundings of p + S(N)·u) · Σ p\\|v\\| / Σ p; 4u more for every 64 keys where blocks of keys are gone through"),
    "attention_backward": Bound("p = exp(s·scale − normaliser); slopes p·(grad·v − mean), both rounded to 16 bits where k has 16", "that of p and of each product, through the next"),
    "attention_of_sequences": Bound("attention of each sequence", "as of attention"),
    "attention_of_sequences_backward": Bound("attention_backward of each sequence", "as of attention_backward"),
    "batched_matmul": Bound("activation(Σ a·b + bias)", _PRODUCT),
    "batched_matmul_backward": Bound("Σ grad·b, Σ a·grad, Σ grad", _EACH),
    "block_matmul": Bound("activation(Σ block·dense + bias)", _PRODUCT),
    "block_matmul_backward": Bound("Σ grad·dense, Σ block·grad, Σ grad", _EACH),
    "conv2d": Bound("activation(Σ weight·image + bias)", _PRODUCT),
    "conv2d_backward": Bound("Σ weight·grad, Σ grad·image, Σ grad", _EACH),
    "cross_entropy": Bound("log Σ exp(x − max) + max − x[target], averaged", "S(V)·u + u·\\|x − max\\| + that of log, exp and of each step"),
    "cross_entropy_backward": Bound("grad·(exp(x − normaliser) − wanted)", "(u·\\|x − normaliser\\| + that of exp)·exp + 3u, times \\|grad\\|"),
    "csr_matmul": Bound("activation(Σ value·dense + bias)", _PRODUCT),
    "csr_matmul_backward": Bound("Σ grad·dense, Σ value·grad, Σ grad", _EACH),
    "cumulative_sum": Bound("Σ of each element and all before it", "S(n)·u·Σ\\|x\\| up to the element; n is its place"),
    "cumulative_sum_backward": Bound("Σ of each element and all after it", "S(n)·u·Σ\\|grad\\| from the element on"),
    "dropout": Bound("x·scale, or 0", "u·\\|x·scale\\|"),
    "ell_matmul": Bound("activation(Σ value·dense + bias)", _PRODUCT),
    "ell_matmul_backward": Bound("Σ grad·dense, Σ value·grad, Σ grad", _EACH),
    "embedding_bag": Bound("Σ, mean or max of rows", "S(n)·u·Σ\\|rows\\|; mean u more; max exact"),
    "embedding_bag_backward": Bound("Σ of shares of grad", "S(n)·u·Σ\\|grad\\|"),
    "group_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", "that of both means, S(n)·u, through each step"),
    "group_norm_backward": Bound("as layer_norm_backward, over groups", "as of layer_norm_backward"),
    "grouped_matmul": Bound("activation(Σ x·weight + bias)", _PRODUCT),
    "grouped_matmul_backward": Bound("Σ grad·weight, Σ x·grad, Σ grad", _EACH),
    "histogram": Bound("how many lie in each bin", "none but of which bin: (x − low) / (high − low)·bins errs by 3u"),
    "layer_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", "that of both means, S(n)·u, through each step"),
    "layer_norm_backward": Bound("f·(g − mean(g) − x̂·mean(g·x̂)); Σ grad·x̂; Σ grad", "that of x̂ and f, as of layer_norm, and S(n)·u of each sum"),
    "log_softmax": Bound("x − max − log Σ exp(x − max)", "u·\\|x − max\\| + that of log; S(n)·u and that of exp, as a share of the sum"),
    "log_softmax_backward": Bound("grad − exp(result)·Σ grad", "S(n)·u·Σ\\|grad\\|·exp + that of exp + 2u"),
    "matmul": Bound("activation(Σ a·b + bias)", _PRODUCT),
    "matmul_backward": Bound("Σ grad·b, Σ a·grad, Σ grad", _EACH),
    "max": Bound("the largest element, or NaN", _EXACT),
    "mean": Bound("Σ x / n", "S(n)·u·Σ\\|x\\| / n + u"),
    "min": Bound("the smallest element, or NaN", _EXACT),
    "mixture_of_experts": Bound("Σ gate·(activation(x·w1 + b1)·w2 + b2), rounded to x's dtype between", "that of each product, through the next, with each rounding"),
    "mixture_of_experts_backward": Bound("the gradients of those products, rounded to x's dtype between", "as of mixture_of_experts"),
    "mlp": Bound("activation(x·w1 + b1), rounded to x's dtype; ·w2 + b2", "that of the first product and rounding, times \\|w2\\|; S(H)·u·Σ\\|products\\|"),
    "mlp_backward": Bound("the gradients of both products, rounded to x's dtype between", "that of each product, through the next"),
    "rms_norm": Bound("x / √(mean(x²) + ε)·weight", "(S(n)/2 + 8)·u·\\|result\\|"),
    "rms_norm_backward": Bound("f·(g − x̂·mean(g·x̂)); Σ grad·x̂", "that of x̂ and f, as of rms_norm, and S(n)·u of each sum"),
    "rotary_embedding": Bound("a·cos − b·sin, b·cos + a·sin", "3u·(\\|a·cos\\| + \\|b·sin\\|)"),
    "sampled_matmul": Bound("value·Σ a·b", "(S(n) + 1)·u·\\|value\\|·Σ\\|a·b\\|"),
    "sampled_matmul_backward": Bound("grad·Σ a·b, Σ grad·value·b, Σ grad·value·a", _EACH),
    "segment_sum": Bound("Σ of each segment", "S(n)·u·Σ\\|x\\|, n elements in the segment"),
    "segment_sum_backward": Bound("the gradient of each element's segment", _EXACT),
    "softmax": Bound("exp(x − max) / Σ exp(x − max)", "(u·\\|x − max\\| + 2 errors of exp + S(n)·u + their mean)·result"),
    "softmax_backward": Bound("result·(grad − Σ grad·result)", "(S(n)·u·Σ\\|grad·result\\| + 2u·\\|grad − Σ\\|)·result"),
    "stencil": Bound("Σ weight·x over 9, or 5, neighbours", "S(9)·u·Σ\\|weight·x\\|"),
    "stencil_backward": Bound("the stencil of grad; Σ grad·x", _EACH),
    "sum": Bound("Σ x; of integers and bool exact, in int64", "S(n)·u·Σ\\|x\\|"),
    "topk": Bound("the k largest and their places", _EXACT),
}  # fmt: skip
