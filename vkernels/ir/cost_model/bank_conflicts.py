"""Accesses of a GPU's shared memory that meet in a bank and wait for each other."""

from __future__ import annotations

import numpy as np

from .loops import Loop, LoopAccess
from .plan_batch import Numbers, PlanBatch, clipped

BANKS_BYTES = 128
"""Bytes that all banks of a multiprocessor's shared memory give at once: 32 banks of 4 bytes, of both vendors."""
FULLEST = (1.0, 1.5, 2.12, 2.6, 3.08, 3.54)
"""Of n things in n places, each in any of them, how many the fullest place has on average, for n = 1, 2, 4 to 32:
counted over 20 000 draws of each."""
SPLIT = 2
"""How many times as long a thread's stores take as its loads: binaries split most of them into parts of 4 to 16 bytes
(Triton 3.6 on sm_90)."""


def bank_bytes(touch: LoopAccess, at: PlanBatch, loop: Loop) -> Numbers:
    """Bytes of an element of shared memory, times how many times as long its access takes as without conflicts.

    Threads that load 16 bytes of a tensor side by side have as many elements of wider homes: further apart in banks.
    Where rows are found by indices, which may be any, those along the lanes that fill all banks meet no other. Shorter
    ones are taken together, as many as would fill the banks, and the part of the banks that most of them are in
    decides.
    """
    lanes = at.choices.lanes
    if touch.home is not None and not touch.found and touch.run == lanes:
        narrow = [each.element_bytes for _, each in loop.touches if each.home is None and each.run == lanes]
        apart = max(1.0, touch.element_bytes / min(narrow)) if narrow else 1.0
        return touch.element_bytes * apart * (SPLIT if touch.writes else 1)
    if not touch.found or lanes in touch.found:
        return touch.element_bytes
    row = touch.element_bytes * (at.size(lanes) if lanes in touch.axes else 1)
    return touch.element_bytes * times_of_rows(row)


def times_of_rows(row: Numbers) -> Numbers:
    """How many times as long accesses of rows of so many bytes take where indices find them."""
    powers = clipped(np.ceil(np.log2(np.maximum(1, BANKS_BYTES / row))), 0, len(FULLEST) - 1)
    return np.take(FULLEST, np.asarray(powers, int))
