"""What a warp reads of shared memory for dots on plain units, beside what its threads load.

Threads of a warp that are in one row of its layout load the same rows of the first operand, those in one column the
same columns of the second. Shared memory hands an element to all threads that ask for it at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

_LAYOUT = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[([\d, ]+)\], threadsPerWarp = \[([\d, ]+)\], "
    r"warpsPerCTA = \[([\d, ]+)\]",
    re.MULTILINE,
)
_DOT = re.compile(r"= tt\.dot .*-> tensor<(\d+)x(\d+)x\w+, (#\w+)>")


def distinct_part(ttgir: str) -> float:
    """The part of the bytes that all threads load which is distinct, on average of the dots of two dimensions on plain
    units in a module of TritonGPU IR; 1 where there are none."""
    layouts = {name: [_numbers(each) for each in parts] for name, *parts in _LAYOUT.findall(ttgir)}
    distinct, loaded = 0.0, 0.0
    for rows, columns, name in _DOT.findall(ttgir):
        layout = layouts.get(name)
        if layout is not None and len(layout[0]) == 2:
            for shape, side in ((int(rows), 0), (int(columns), 1)):
                own, threads, warps = (each[side] for each in layout)
                held = max(own, shape // max(1, threads * warps))
                distinct, loaded = distinct + held * threads, loaded + held * prod(layout[1])
    return distinct / loaded if loaded else 1.0


def _numbers(text: str) -> Sequence[int]:
    return [int(each) for each in text.split(",")]
