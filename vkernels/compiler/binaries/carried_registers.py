"""Registers that a kernel's loops surely need, from its TTIR: known before the binary, which takes longest then."""

from __future__ import annotations

import re
from math import prod

from vkernels.ir.limits import Limits

CARRIED = re.compile(r"iter_args\([^()]*\) -> \(([^()]*)\)")
"""The types of what a loop hands from trip to trip."""
TILE = re.compile(r"tensor<((?:[0-9]+x)+)(f64|f32|f16|bf16)>")
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


def carried_registers(text: str, threads: int, limits: Limits) -> float:
    """Registers of a thread that hold tiles of floats from trip to trip, in the loop that carries most.

    Triton divides such a tile over the threads of a program. 0 on devices whose sums may be in tensor memory.
    """
    if limits.tensor_memory:
        return 0.0
    return max((_bytes(types) for types in CARRIED.findall(text)), default=0) / (limits.register_bytes * threads)


def _bytes(types: str) -> int:
    tiles = TILE.findall(types)
    return sum(prod(map(int, sides[:-1].split("x"))) * BYTES[element] for sides, element in tiles)
