"""How long a GPU's programs take to combine the parts that programs of a split axis left."""

from __future__ import annotations

import numpy as np

from ..limits import Limits
from ..occupancy import AmdSizes
from .chains import DEPENDENT_CYCLES
from .plan_batch import Numbers, PlanBatch, clipped

PARTS_AT_ONCE, AMD_PARTS_AT_ONCE = 32, 16
"""Parts that a thread loads before it combines the first. The loops that combine them are unrolled: of 128 parts,
binaries load 48 at once on sm_90 (Triton 3.6), and 16 on gfx942 (3.9)."""


def combining_seconds(at: PlanBatch, limits: Limits, partial: Numbers, latency: float) -> Numbers:
    """Seconds that a program takes for it, in all launches behind the first. `partial`: bytes of all parts, in 4 bytes
    an element; `latency`: seconds from a load to its use."""
    if at.choices.split is None or len(at.split_launches) < 2:
        return 0
    elements = partial / (4 * at.programs * at.shares * at.warps * limits.warp)  # of a part, in a thread
    most = AMD_PARTS_AT_ONCE if isinstance(limits.sizes, AmdSizes) else PARTS_AT_ONCE
    together = clipped(most / np.maximum(1, elements), 1, most)
    once = np.ceil(at.shares / together) * latency + at.shares * DEPENDENT_CYCLES / limits.clock
    return (len(at.split_launches) - 1) * once
