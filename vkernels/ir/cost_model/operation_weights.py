"""What an operation costs beside a sum or product of the same elements.

Counts of instructions in the code that `expand-math` and LLVM make of them, a division as the five or so plain
operations that it keeps a unit busy for. Good to a third; enough to tell what is worth computing again.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialect.approximate import is_approximate

FREE_OPERATIONS = frozenset(
    {
        "arith.constant", "vk.broadcast", "vk.yield", "vk.size", "vk.phase", "vk.position", "vk.scale", "vk.boundary",
        "vk.combined", "arith.index_cast", "scf.yield", "scf.condition",
    }
)  # fmt: skip

TIME_WEIGHTS = {
    "arith.divf": 8, "arith.remf": 16, "arith.divsi": 20, "arith.remsi": 20, "arith.floordivsi": 22, "arith.divui": 20,
    "arith.remui": 20, "math.sqrt": 8, "math.rsqrt": 10, "math.exp": 12, "math.exp2": 9, "math.expm1": 18,
    "math.log": 18, "math.log2": 18, "math.log1p": 22, "math.sin": 24, "math.cos": 24, "math.tan": 34, "math.tanh": 22,
    "math.erf": 26, "math.powf": 45, "math.atan": 22, "math.atan2": 32, "math.sinh": 24, "math.cosh": 24,
}  # fmt: skip


APPROXIMATE_WEIGHTS = {"math.exp": 5, "math.exp2": 4, "arith.divf": 6}
"""The same for functions that GPUs approximate: instructions in code for sm_80 and sm_90 by Triton 3.9, with an
exponential's checks for subnormal numbers."""


def weight_of(op: Operation) -> float:
    """Plain operations an element; 0 for what costs nothing."""
    return 0 if op.name in FREE_OPERATIONS else TIME_WEIGHTS.get(op.name, 1)


def saved_by_approximating(op: Operation) -> float:
    """What an operation costs less where the device's own approximation serves."""
    return weight_of(op) - APPROXIMATE_WEIGHTS.get(op.name, weight_of(op)) if is_approximate(op) else 0
