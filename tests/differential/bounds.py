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
    """`formula`: what is computed, and where it is rounded. `error`: what its steps come to, to first order."""

    formula: str
    error: str


_EXACT = "exact"
_PRODUCT = "S(n)·u·Σ|a·b|, through the activation, and that of the activation"
_GRADIENTS = "S(n)·u·Σ|a·b| of each product, and that of slope and rounding before it"
_NORMAL = "S(n)·u of both means relative to the mean of |x| and of squares, through each step"

BOUNDS: dict[str, Bound] = {
    "activate": Bound("activation(x)", "that of its steps"),
    "activate_backward": Bound("grad · slope(x)", "that of the slope's steps · |grad|, + u·|result|"),
    "adamw": Bound(
        "m = β₁m + (1 − β₁)g; v = β₂v + (1 − β₂)g²; keep·p − rate·m / (√v·c + ε)",
        "up to 4u of each term, through root and quotient",
    ),
    "apply_mass": Bound("BᵀWBx, one side after another", "7·S(P)·u·|B|ᵀ|W||B||x|"),
    "apply_stiffness": Bound("GᵀDGx, one side after another", "8·S(P)·u·|G|ᵀ|D||G||x|"),
    "apply_stiffness_at_nodes": Bound("GᵀDGx, one side after another", "4·S(P)·u·|G|ᵀ|D||G||x|"),
    "argmax": Bound("the first place of the largest element, or of the first NaN", _EXACT),
    "argmin": Bound("the first place of the smallest element, or of the first NaN", _EXACT),
    "attention": Bound(
        "p = exp(s − max s), rounded to v's dtype; Σ p·v / Σ p; s = scale·q·k",
        "(2·error of s + u·|s − max s| + error of exp + one rounding of p + 2·S(N)·u + 4u for every 64 keys)"
        " · Σ p|v| / Σ p",
    ),
    "attention_backward": Bound(
        "p = exp(s − normaliser); p·(grad·v − mean), both rounded to k's and v's dtype; products of those", _GRADIENTS
    ),
    "attention_forward": Bound("as attention; max s + log Σ p", "as attention; error of s + log's + S(N)·u + rounding"),
    "attention_of_sequences": Bound("attention of each sequence", "as attention"),
    "attention_of_sequences_backward": Bound("attention_backward of each sequence", "as attention_backward"),
    "attention_of_sequences_forward": Bound("attention_forward of each sequence", "as attention_forward"),
    "batched_matmul": Bound("activation(Σ a·b + bias)", _PRODUCT),
    "batched_matmul_backward": Bound("Σ grad·b; Σ a·grad; Σ grad", _GRADIENTS),
    "block_matmul": Bound("activation(Σ block·dense + bias)", _PRODUCT),
    "block_matmul_backward": Bound("Σ grad·dense; Σ block·grad; Σ grad", _GRADIENTS),
    "conv2d": Bound("activation(Σ weight·image + bias)", _PRODUCT),
    "conv2d_backward": Bound("Σ weight·grad; Σ grad·image; Σ grad", _GRADIENTS),
    "cross_entropy": Bound(
        "max x + log Σ exp(x − max x) − (1 − s)·x[target] − s·mean x; then mean or sum",
        "S(V)·u + that of exp and log + u·|x − max x| weighed by softmax + u of each term; then S(M)·u·Σ|losses|",
    ),
    "cross_entropy_backward": Bound(
        "grad·(exp(x − normaliser) − wanted)", "((u·|x − normaliser| + that of exp)·exp + 3u)·|grad|"
    ),
    "cross_entropy_parts": Bound("as cross_entropy; max x + log Σ exp(x − max x); rows that count", "as cross_entropy"),
    "csr_matmul": Bound("activation(Σ value·dense + bias)", _PRODUCT),
    "csr_matmul_backward": Bound("Σ grad·dense; Σ value·grad; Σ grad", _GRADIENTS),
    "cumulative_sum": Bound("Σ of each element and all before it", "S(n)·u·Σ|x| of those n elements"),
    "cumulative_sum_backward": Bound("Σ of each element and all after it", "S(n)·u·Σ|grad| of those n elements"),
    "dropout": Bound("x·scale, or 0", "2u·|result|"),
    "ell_matmul": Bound("activation(Σ value·dense + bias)", _PRODUCT),
    "ell_matmul_backward": Bound("Σ grad·dense; Σ value·grad; Σ grad", _GRADIENTS),
    "embedding_bag": Bound("Σ, mean or max of rows", "S(n)·u·Σ|rows|; of the mean u more; max exact"),
    "embedding_bag_backward": Bound("Σ of grad, of grad / n, or of grad where the row is largest", "S(n)·u·Σ|terms|"),
    "group_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", _NORMAL),
    "group_norm_backward": Bound("as layer_norm_backward, over groups", "as layer_norm_backward"),
    "grouped_matmul": Bound("activation(Σ x·weight + bias)", _PRODUCT),
    "grouped_matmul_backward": Bound("Σ grad·weight; Σ x·grad; Σ grad", _GRADIENTS),
    "histogram": Bound(
        "how many elements are in each bin", "exact, but for elements within 6u·place of an edge: in either bin"
    ),
    "layer_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", _NORMAL),
    "layer_norm_backward": Bound(
        "f·(g − mean g − x̂·mean(g·x̂)), g = grad·weight; Σ grad·x̂; Σ grad", "that of f and x̂, and S(n)·u of each sum"
    ),
    "log_softmax": Bound(
        "x − max x − log Σ exp(x − max x)", "2u·|x − max x| + that of log + S(n)·u + that of exp weighed by softmax"
    ),
    "log_softmax_backward": Bound(
        "grad − exp(result)·Σ grad", "(S(n)·u·Σ|grad| + (that of exp + u)·|Σ grad|)·exp + u·|result|"
    ),
    "matmul": Bound("activation(Σ a·b + bias)", _PRODUCT),
    "matmul_backward": Bound("Σ grad·b; Σ a·grad; Σ grad", _GRADIENTS),
    "max": Bound("the largest element, or NaN", _EXACT),
    "mean": Bound("Σ x / n", "S(n)·u·Σ|x| / n + u·|result|"),
    "min": Bound("the smallest element, or NaN", _EXACT),
    "mixture_of_experts": Bound(
        "Σ gate·y; y = h·w2 + b2 and h = activation(x·w1 + b1), both rounded to x's dtype", _PRODUCT
    ),
    "mixture_of_experts_backward": Bound("its gradients; what is between layers is rounded to x's dtype", _GRADIENTS),
    "mlp": Bound("h·w2 + b2; h = activation(x·w1 + b1), rounded to x's dtype", _PRODUCT),
    "mlp_backward": Bound("its gradients; what is between layers is rounded to x's dtype", _GRADIENTS),
    "rms_norm": Bound("x / √(mean x² + ε)·weight", "(S(n)/2 + 8)·u·|result|"),
    "rms_norm_backward": Bound(
        "f·(g − x̂·mean(g·x̂)), g = grad·weight; Σ grad·x̂", "that of f and x̂, and S(n)·u of each sum"
    ),
    "rotary_embedding": Bound("a·cos − b·sin; b·cos + a·sin", "2u·(|a·cos| + |b·sin|)"),
    "sampled_matmul": Bound("value·Σ a·b", "(S(n) + 1)·u·|value|·Σ|a·b|"),
    "sampled_matmul_backward": Bound("grad·Σ a·b; Σ grad·value·b; Σ grad·value·a", _GRADIENTS),
    "segment_sum": Bound("Σ x of each segment", "S(n)·u·Σ|x| of the segment's n elements"),
    "segment_sum_backward": Bound("the gradient of each element's segment", _EXACT),
    "softmax": Bound(
        "exp(x − max x) / Σ exp(x − max x)",
        "(u·|x − max x| + that of exp, and their mean weighed by softmax, + (S(n) + 1)·u)·result",
    ),
    "softmax_backward": Bound("result·(grad − Σ grad·result)", "(S(n)·u·Σ|grad·result| + 2u·|grad − Σ|)·|result|"),
    "stencil": Bound("Σ weight·x over 9 or 5 neighbours", "S(9)·u·Σ|weight·x|"),
    "stencil_backward": Bound("the stencil of grad; Σ grad·x", _GRADIENTS),
    "sum": Bound("Σ x; of integers and bool in int64", "S(n)·u·Σ|x|; exact"),
    "topk": Bound("the k largest and their places", _EXACT),
}


REDUCTIONS: dict[str, Bound] = {
    "vk.sum": Bound("Σ x; of integers in int64", "S(n)·u·Σ|x|; exact, wrapping"),
    "vk.mean": Bound("Σ x / n", "S(n)·u·Σ|x| / n + u·|result|"),
    "vk.dot": Bound("Σ a·b", "S(n)·u·Σ|a·b|"),
    "vk.cumulative_sum": Bound("Σ of each element and all before it", "S(n)·u·Σ|x| of those n elements"),
    "vk.product": Bound("Π x", "n·u·|result|"),
    "vk.cumulative_product": Bound("Π of each element and all before it", "n·u·|result|, of n elements"),
    "vk.max, vk.min, vk.cumulative_max, vk.cumulative_min": Bound("the largest or smallest", _EXACT),
    "vk.argmax, vk.argmin": Bound("the first place of it", _EXACT),
    "vk.any, vk.all": Bound("whether any is, or all are, true", _EXACT),
}
"""Reductions of the language along whole axes."""


def table(bounds: dict[str, Bound]) -> str:
    """A table of Markdown."""
    cells = [
        (f"`{name.replace(', ', '`, `')}`", *(text.replace("|", "\\|") for text in (each.formula, each.error)))
        for name, each in sorted(bounds.items())
    ]
    rows = [" | ".join(row) for row in [("function", "computed as", "may err by"), *cells]]
    return (
        "\n".join(f"| {row} |" for row in rows[:1]) + "\n|---|---|---|\n" + "\n".join(f"| {row} |" for row in rows[1:])
    )
