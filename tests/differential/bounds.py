"""What results may err by, as docs/numerics.md shows it. Families state their bounds beside their subjects.

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


EXACT = "exact"
PRODUCT = "S(n)·u·Σ|a·b|, through the activation, and that of the activation"
GRADIENTS = "S(n)·u·Σ|a·b| of each product, and that of slope and rounding before it"
NORMAL = "S(n)·u of both means relative to the mean of |x| and of squares, through each step"


REDUCTIONS: dict[str, Bound] = {
    "vk.sum": Bound("Σ x; of integers in int64", "S(n)·u·Σ|x|; exact, wrapping"),
    "vk.mean": Bound("Σ x / n", "S(n)·u·Σ|x| / n + u·|result|"),
    "vk.dot": Bound("Σ a·b", "S(n)·u·Σ|a·b|"),
    "vk.cumulative_sum": Bound("Σ of each element and all before it", "S(n)·u·Σ|x| of those n elements"),
    "vk.product": Bound("Π x", "n·u·|result|"),
    "vk.cumulative_product": Bound("Π of each element and all before it", "n·u·|result|, of n elements"),
    "vk.max, vk.min, vk.cumulative_max, vk.cumulative_min": Bound("the largest or smallest", EXACT),
    "vk.argmax, vk.argmin": Bound("the first place of it", EXACT),
    "vk.any, vk.all": Bound("whether any is, or all are, true", EXACT),
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
