"""Accesses of a GPU's shared memory that meet in a bank and wait for each other."""

from __future__ import annotations

import numpy as np

from .loops import LoopAccess
from .plan_batch import Numbers, PlanBatch, clipped

BANKS_BYTES = 128
"""Bytes that all banks of a multiprocessor's shared memory give at once: 32 banks of 4 bytes, of both vendors."""
FULLEST = (1.0, 1.5, 2.12, 2.6, 3.08, 3.54)
"""Of n things in n places, each in any of them, how many the fullest place has on average, for n = 1, 2, 4 to 32:
counted over 20 000 draws of each."""


def bank_bytes(touch: LoopAccess, at: PlanBatch) -> Numbers:
    """Bytes of an element, times how many times as long its access takes where rows are found by indices, which may be
    any.

    Rows along the lanes that fill all banks meet no other. Shorter ones are taken together, as many as would fill the
    banks, and the part of the banks that most of them are in decides.
    """
    lanes = at.choices.lanes
    if not touch.found or lanes in touch.found:
        return touch.element_bytes
    row = touch.element_bytes * (at.size(lanes) if lanes in touch.axes else 1)
    powers = clipped(np.ceil(np.log2(np.maximum(1, BANKS_BYTES / row))), 0, len(FULLEST) - 1)
    return touch.element_bytes * np.take(FULLEST, np.asarray(powers, int))
